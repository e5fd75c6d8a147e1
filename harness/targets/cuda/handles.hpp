#pragma once
// Owners of what CUDA gives out. All throw std::runtime_error where CUDA refuses.

#include "harness/targets/cuda/device_code.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

namespace foreplan::harness::cuda {

/// Owner of a handle that `destroy` ends.
template <class Handle, cudaError_t (*destroy)(Handle)>
struct Ender {
  using pointer = Handle;
  void operator()(Handle handle) const { destroy(handle); }
};
using StreamOwner = std::unique_ptr<cudaStream_t, Ender<cudaStream_t, cudaStreamDestroy>>;
using EventOwner = std::unique_ptr<cudaEvent_t, Ender<cudaEvent_t, cudaEventDestroy>>;
using GraphOwner = std::unique_ptr<cudaGraph_t, Ender<cudaGraph_t, cudaGraphDestroy>>;
using GraphExecOwner =
    std::unique_ptr<cudaGraphExec_t, Ender<cudaGraphExec_t, cudaGraphExecDestroy>>;
using DeviceMemory = std::unique_ptr<void, Ender<void*, cudaFree>>;
using PinnedMemory = std::unique_ptr<void, Ender<void*, cudaFreeHost>>;

/// A stream that does not wait for the default one.
inline StreamOwner make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamOwner(made);
}
inline EventOwner make_event() {
  cudaEvent_t made = nullptr;
  check(cudaEventCreate(&made), "cudaEventCreate");
  return EventOwner(made);
}
inline DeviceMemory device_memory(std::size_t bytes) {
  void* made = nullptr;
  check(cudaMalloc(&made, bytes), "cudaMalloc");
  return DeviceMemory(made);
}
/// Host memory that the device reads and writes at full rate, and sees at the same address.
inline PinnedMemory pinned_memory(std::size_t bytes) {
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  return PinnedMemory(made);
}

}  // namespace foreplan::harness::cuda
