#pragma once
// Whether there is a GPU here: a value, asked once.

#include <string>

namespace foreplan::harness::cuda {

struct GpuStatus {
  int devices = 0;
  std::string reason;  ///< why there is none, in one sentence; empty if there is one
};

/// Asks the driver on the first call only.
[[nodiscard]] const GpuStatus& gpu_status();

}  // namespace foreplan::harness::cuda
