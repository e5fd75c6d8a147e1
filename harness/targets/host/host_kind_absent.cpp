// The registry's line of a build without oneDNN.

#include "harness/targets/host/host_kind.hpp"

namespace foreplan::harness {

TargetKind host_kind() {
  static constexpr const char* kReason =
      "built without oneDNN (apt-get install libdnnl-dev, then build again)";
  return {.name = "host",
          .summary = "this machine's processors, through oneDNN and MPI",
          .settings = "",
          .automatic = true,
          .origin = results::BenchOrigin::measured,
          .speed = {},
          .scope = {},
          .look = [] { return Availability{.usable = false, .reason = kReason, .parts = {}}; },
          .make = [](const TargetRequest&) -> Result<std::unique_ptr<Target>> {
            return fail(kReason);
          }};
}

}  // namespace foreplan::harness
