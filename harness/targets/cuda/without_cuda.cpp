// The line of the registry in a program that was built without CUDA.

#include "harness/targets/cuda/cuda_kind.hpp"

namespace foreplan::harness {
namespace {

constexpr const char* kReason = "this program was built without CUDA";

Result<std::unique_ptr<Target>> make(const TargetRequest&) { return fail(kReason); }

}  // namespace

TargetKind cuda_kind() {
  return {.name = "cuda",
          .summary = "an NVIDIA GPU; several with mpirun, srun or torchrun",
          .settings = "device=N",
          .automatic = true,
          .origin = results::BenchOrigin::measured,
          .speed = {},
          .scope = {},
          .look = [] { return Availability{.usable = false, .reason = kReason, .parts = {}}; },
          .make = make};
}

}  // namespace foreplan::harness
