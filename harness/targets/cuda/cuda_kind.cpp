#include "harness/targets/cuda/cuda_kind.hpp"

#include "harness/targets/cuda/cuda_target.hpp"
#include "harness/targets/cuda/gpu_status.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/gemm_registry.hpp"

#include <fmt/format.h>

#include <charconv>

namespace foreplan::harness {
namespace {

using namespace cuda;

Availability look() {
  const GpuStatus& status = gpu_status();
  Availability found{.usable = status.reason.empty(), .reason = status.reason, .parts = {}};
  const auto gemm = kernels::cuda::gemm_library();
  const auto groups = kernels::cuda::grouped_gemm_library();
  const auto collectives = collective_library();
  const auto attention = kernels::cuda::attention_library();
  found.parts = {{"cuBLASLt", gemm.version, gemm.reason},
                 {"cuBLAS", groups.version, groups.reason},
                 {"NCCL", collectives.version, collectives.reason},
                 {"NVML", Nvml::instance().version(), Nvml::instance().why_not()},
                 {"cuDNN", attention.version, attention.reason}};
  return found;
}

/// The setting `device=N`; by default each rank of a node has its own.
Result<int> device_of(const TargetRequest& request, const RankPlace& place, int devices) {
  const Place where{{}, 0, 0, "--target cuda"};
  int device = place.local_rank;
  for (const auto& [name, value] : request.settings) {
    if (name != "device") {
      return fail(fmt::format("unknown setting {}; settings: device", in_quotes(name)), where);
    }
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, device);
    if (error != std::errc{} || stop != end) {
      return fail(fmt::format("device={} is not a number", in_quotes(value)), where);
    }
    if (place.world_size > 1) {
      return fail("device= is for a lone process; ranks take the device of their place on the node",
                  where);
    }
  }
  if (device < 0 || device >= devices) {
    return fail(fmt::format("there is no device {} among {}", device, devices), where);
  }
  return device;
}

Result<std::unique_ptr<Target>> make(const TargetRequest& request) {
  constexpr Seconds kPatience{120};
  const auto alone = rank_place(process_variable);
  if (!alone) return fail(alone.error());
  const auto place = with_meeting_point(*alone, process_variable);
  if (!place) return fail(place.error());
  const auto device = device_of(request, *place, gpu_status().devices);
  if (!device) return fail(device.error());
  auto ranks = TcpRanks::meet(*place, kPatience);
  return std::make_unique<CudaTarget>(
      CudaTargetOptions{
          .device_name = request.device_name, .device = *device, .seed = request.seed},
      std::move(ranks));
}

}  // namespace

TargetKind cuda_kind() {
  // Rates of an H100, for the order of points only.
  return {.name = "cuda",
          .summary = "an NVIDIA GPU; several with mpirun, srun or torchrun",
          .settings = "device=N",
          .automatic = true,
          .origin = results::BenchOrigin::measured,
          .speed = {.compute = FlopsPerSecond{5e14}, .memory = BytesPerSecond{2.5e12}},
          .scope = {.gemm_types = {DType::bf16, DType::fp8_e4m3},
                    .attention_types = {DType::bf16},
                    .row_type = DType::bf16,
                    .largest_product = Flops{2e13},
                    .largest_buffer = Bytes{4e9},
                    .has_host_copies = true,
                    .attention_library = "cudnn"},
          .look = look,
          .make = make};
}

}  // namespace foreplan::harness
