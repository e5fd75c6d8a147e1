#pragma once
// Where the operands of products in groups begin, written on the device.

#include "kernels/kernel.hpp"

#include <cstddef>

namespace foreplan::kernels::cuda {

/// Operands of so many products that lie one behind the other, each `bytes` long.
struct GroupOperands {
  void* first = nullptr;
  void* second = nullptr;
  void* result = nullptr;
  std::size_t first_bytes = 0, second_bytes = 0, result_bytes = 0;
};

/// Enqueues the writing of three arrays of `products` addresses to `pointers`, one behind the
/// other: of the first operands, the second ones, the results. Throws std::runtime_error.
void write_group_pointers(void** pointers, const GroupOperands& operands, int products,
                          Stream stream);

}  // namespace foreplan::kernels::cuda
