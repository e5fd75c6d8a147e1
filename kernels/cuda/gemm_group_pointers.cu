#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_group_pointers.hpp"

namespace foreplan::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void write_pointers(void** pointers, GroupOperands operands, int products) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= products) return;
  const auto place = [i](void* start, std::size_t bytes) -> void* {
    return static_cast<unsigned char*>(start) + static_cast<std::size_t>(i) * bytes;
  };
  pointers[i] = place(operands.first, operands.first_bytes);
  pointers[products + i] = place(operands.second, operands.second_bytes);
  pointers[2 * products + i] = place(operands.result, operands.result_bytes);
}

}  // namespace

void write_group_pointers(void** pointers, const GroupOperands& operands, int products,
                          Stream stream) {
  const auto blocks = static_cast<unsigned>((products + kThreads - 1) / kThreads);
  launch(write_pointers, dim3(blocks), dim3(kThreads), 0, stream, pointers, operands, products);
}

}  // namespace foreplan::kernels::cuda
