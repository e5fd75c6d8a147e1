#pragma once
// Every CUDA kernel of the project.

#include "kernels/kernel.hpp"

#include <span>

namespace foreplan::kernels::cuda {

/// In a fixed order; op and variant together are unique.
[[nodiscard]] std::span<const Kernel* const> kernels();

}  // namespace foreplan::kernels::cuda
