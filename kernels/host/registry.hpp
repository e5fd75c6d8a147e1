#pragma once
// Every kernel of the host.

#include "kernels/kernel.hpp"

#include <span>

namespace foreplan::kernels::host {

/// In a fixed order; op and variant together are unique.
[[nodiscard]] std::span<const Kernel* const> kernels();

}  // namespace foreplan::kernels::host
