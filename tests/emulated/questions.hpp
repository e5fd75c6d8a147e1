#pragma once
// Small questions that every kernel over rows has to answer, odd sizes above all.

#include "kernels/kernel.hpp"

#include <string_view>
#include <vector>

namespace foreplan::kernels {

/// Questions for a kernel, by its op and variant; empty for one that this file does not know.
/// Together they take each pass, each type, each parameter at its ends, aligned rows and rows that
/// are not, rows of a warp, of a block and too long for registers.
[[nodiscard]] std::vector<Question> small_questions(std::string_view op, std::string_view variant);

}  // namespace foreplan::kernels
