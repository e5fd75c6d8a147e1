#pragma once
// The question whose answer is compared with the reference, where the one that is timed would take
// the host too long.

#include "kernels/kernel.hpp"

namespace foreplan::harness {

/// What the reference may compute and hold: about a second in double precision on one core.
inline constexpr double kMostCheckedFlops = 1 << 28;
inline constexpr double kMostCheckedElements = 1 << 22;

/// The same question, or one with fewer rows, products, heads or shorter sequences: the largest
/// sizes are halved until it fits. The length of a row stays, for it decides how kernels over rows
/// work; sizes that were multiples of 16 stay so.
[[nodiscard]] kernels::Question checked_question(kernels::Question question);

/// "m=512 n=512 k=1024 batch=1", for messages.
[[nodiscard]] std::string shape_text(const OperatorShape& shape);

}  // namespace foreplan::harness
