#pragma once
// Which kernels may answer a question.

#include "harness/point.hpp"

#include <span>
#include <string>
#include <vector>

namespace foreplan::harness::cuda {

/// Of the kernels for this question those that the point asks for, the preferred first; fails in
/// words where there is none: an unknown operator or variant, or no choice of algorithms.
[[nodiscard]] Result<std::vector<const kernels::Kernel*>> candidates(
    std::span<const kernels::Kernel* const> kernels, const kernels::Question& question,
    const std::string& variant, Selection selection);

}  // namespace foreplan::harness::cuda
