#include "simulator/memory/memory_breakdown.hpp"

namespace foreplan::simulator {

Bytes usable_memory(const DeviceSpec& device) {
  constexpr double kUsableFraction = 0.989;
  if (device.visible_memory.value > 0) return device.visible_memory;
  return Bytes{device.memory.value / 1e9 * kGiB * kUsableFraction};
}

std::array<MemoryPart, 11> parts(const MemoryBreakdown& m) {
  return {{{"parameters", "16-bit weights", m.parameters},
           {"gradients", "", m.gradients},
           {"optimizer", "master weights and moments", m.optimizer_state},
           {"fp8 copies", "quantised weights", m.fp8_copies},
           {"activations", "kept for backward", m.activations},
           {"transient", "worst moment beyond what is kept", m.transient},
           {"gathered", "unsharded units", m.gathered},
           {"workspace", "GEMM workspaces, spare gradients, masks", m.workspace},
           {"fragmentation", "allocator", m.fragmentation},
           {"communication", "NCCL buffers", m.communication},
           {"context", "CUDA context", m.context}}};
}

}  // namespace foreplan::simulator
