#pragma once
// Softmax over rows as a case, as cases.hpp has the other operators over rows.

#include "kernels/kernel.hpp"

namespace foreplan::kernels::reference {

/// y = exp(x - max x) / sum, along each row. forward: x -> y. dgrad: y, dy -> dx.
[[nodiscard]] Result<Case> softmax(const Question& question);

}  // namespace foreplan::kernels::reference
