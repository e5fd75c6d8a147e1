#pragma once
// From what a case says to types of C++, and to a grid.

#include "core/assert.hpp"
#include "kernels/cuda/vector.cuh"

namespace foreplan::kernels::cuda {

/// Calls f.operator()<T>() for fp32, fp16 or bf16; the case has been made for one of them.
template <class F>
void with_float_type(DType type, F f) {
  switch (type) {
    case DType::fp32: return f.template operator()<float>();
    case DType::fp16: return f.template operator()<fp16>();
    case DType::bf16: return f.template operator()<bf16>();
    default: FOREPLAN_ASSERT(false, "a case was made for a type that its kernel does not take");
  }
}

/// A buffer of the case as elements of T.
template <class T>
T* as(void* buffer) {
  return static_cast<T*>(buffer);
}

/// Multiprocessors of the current device.
int multiprocessors();

/// Blocks for `work_items` of which a block does `per_block` at a time: enough to fill the device
/// `waves` times, after which blocks go on in strides; never more than there is work.
unsigned strided_grid(std::int64_t work_items, std::int64_t per_block, int waves);

}  // namespace foreplan::kernels::cuda
