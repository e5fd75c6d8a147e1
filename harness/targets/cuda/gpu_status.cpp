#include "harness/targets/cuda/gpu_status.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

namespace foreplan::harness::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

GpuStatus ask() {
  int driver = 0, devices = 0;
  cudaDriverGetVersion(&driver);
  const cudaError_t status = cudaGetDeviceCount(&devices);
  cudaGetLastError();
  if (status == cudaSuccess && devices > 0) return {.devices = devices, .reason = {}};
  // Error 35 is both: version 0 tells a driver that is not there from one that is too old.
  if (driver == 0) return {.devices = 0, .reason = "no NVIDIA driver is installed"};
  if (status == cudaErrorInsufficientDriver) {
    return {.devices = 0,
            .reason = fmt::format("the driver is for CUDA {}, this program needs {}",
                                  version_text(driver), version_text(CUDART_VERSION))};
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    return {.devices = 0, .reason = "the driver finds no GPU"};
  }
  return {.devices = 0,
          .reason = fmt::format("cudaGetDeviceCount: {}, {}", cudaGetErrorName(status),
                                cudaGetErrorString(status))};
}

}  // namespace

const GpuStatus& gpu_status() {
  static const GpuStatus kStatus = ask();
  return kStatus;
}

}  // namespace foreplan::harness::cuda
