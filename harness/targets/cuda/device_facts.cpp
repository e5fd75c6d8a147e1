#include "harness/targets/cuda/device_facts.hpp"

#include "harness/targets/cuda/collectives.hpp"
#include "harness/targets/cuda/device_code.hpp"
#include "harness/targets/cuda/sensors.hpp"
#include "kernels/cuda/gemm_registry.hpp"
#include "results/content_hash.hpp"
#include "results/import/nccl_run.hpp"

#include <fmt/format.h>

namespace foreplan::harness::cuda {
namespace {

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

cudaDeviceProp properties() {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, current_device()), "cudaGetDeviceProperties");
  return found;
}

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// A row per device: "X" itself, "0" best path to a peer as the driver ranks them, "1" the next,
/// "-" none.
std::string peers() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::string text;
  for (int from = 0; from < count; ++from) {
    if (from > 0) text += ' ';
    for (int to = 0; to < count; ++to) {
      int access = 0, rank = 0;
      if (from == to) {
        text += 'X';
        continue;
      }
      const bool known =
          cudaDeviceGetP2PAttribute(&access, cudaDevP2PAttrAccessSupported, from, to) ==
              cudaSuccess &&
          cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, from, to) == cudaSuccess;
      text += known && access != 0 ? fmt::format("{}", rank) : "-";
    }
  }
  cudaGetLastError();
  return text;
}

}  // namespace

std::string device_name() { return results::device_of_driver_name(properties().name); }

std::string bus_id() {
  char text[32] = {};
  check(cudaDeviceGetPCIBusId(text, sizeof text, current_device()), "cudaDeviceGetPCIBusId");
  return text;
}

std::string cudnn_version() {
  static const kernels::DynamicLibrary kLibrary(
      {.file = "libcudnn.so.9", .variable = "FOREPLAN_CUDNN", .wheel_folder = "nvidia/cudnn/lib"});
  using GetVersion = std::size_t();
  GetVersion* get = nullptr;
  if (!kLibrary.find(get, "cudnnGetVersion")) return {};
  const std::size_t version = get();  // since 9: major * 10000 + minor * 100 + patch
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

results::BenchFacts device_facts() {
  const cudaDeviceProp device = properties();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const std::string uuid(device.uuid.bytes, sizeof device.uuid.bytes);
  constexpr std::size_t kShownDigits = 16;
  return {{"device.driver_name", device.name},
          {"device.uuid_hash", results::sha256_hex(uuid).substr(0, kShownDigits)},
          {"device.compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"device.multiprocessors", fmt::format("{}", device.multiProcessorCount)},
          {"device.memory_bytes", fmt::format("{}", device.totalGlobalMem)},
          {"device.l2_bytes", fmt::format("{}", device.l2CacheSize)},
          {"device.memory_bus_bits", fmt::format("{}", device.memoryBusWidth)},
          {"device.peers", peers()},
          {"driver.cuda", version_text(driver)},
          {"library.cudart", version_text(runtime)},
          {"library.cublaslt", kernels::cuda::gemm_library().version},
          {"library.cublas", kernels::cuda::grouped_gemm_library().version},
          {"library.nccl", collective_library().version},
          {"library.cudnn", cudnn_version()},
          {"library.nvml", Nvml::instance().version()}};
}

}  // namespace foreplan::harness::cuda
