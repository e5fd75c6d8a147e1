#pragma once
// The host's line of the registry, in builds with and without oneDNN.

#include "harness/targets/target_kind.hpp"

namespace foreplan::harness {

[[nodiscard]] TargetKind host_kind();

}  // namespace foreplan::harness
