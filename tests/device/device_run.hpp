#pragma once
// A case on the device of this machine.

#include "kernels/kernel.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace foreplan::kernels {

/// Why nothing can run here; empty where a device is.
[[nodiscard]] std::string no_device();

/// First output that differs from the reference by more than it may; empty if none does.
[[nodiscard]] std::string disagreement(const Case& made);

/// All operands after each of `launches` launches with the same inputs, as bytes.
[[nodiscard]] std::vector<std::vector<std::byte>> repeated(const Case& made, int launches);

}  // namespace foreplan::kernels
