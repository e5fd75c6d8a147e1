#include "simulator/memory/memory_breakdown.hpp"

namespace foreplan::simulator {

Bytes usable_memory(const DeviceSpec& device) {
  constexpr double kUsableFraction = 0.989;
  if (device.visible_memory.value > 0) return device.visible_memory;
  return Bytes{device.memory.value / 1e9 * kGiB * kUsableFraction};
}

}  // namespace foreplan::simulator
