#pragma once
// Peak device memory of one rank, by what it is for.

#include "core/device.hpp"
#include "core/quantity.hpp"

#include <array>
#include <string_view>

namespace foreplan::simulator {

/// Bytes on the busiest rank at its worst moment. What the framework's allocator hands out comes
/// first (`allocated`); `fragmentation` is what it holds beyond that (`reserved`); context and
/// communication buffers live outside of it (`device_total`).
struct MemoryBreakdown {
  double parameters = 0;  ///< bf16/fp16 weights
  double gradients = 0;
  double optimizer_state = 0;  ///< master weights and moments
  double fp8_copies = 0;       ///< quantised weights and their transposes
  double activations = 0;      ///< kept for backward, all micro-batches in flight
  double transient = 0;        ///< beyond what is kept, at the worst moment
  double gathered = 0;         ///< unsharded parameters and gradients under ZeRO-3 / FSDP
  double workspace = 0;        ///< GEMM workspaces, dummy weight gradients, masks, buckets
  double fragmentation = 0;
  double communication = 0;  ///< NCCL buffers
  double context = 0;        ///< CUDA context and kernels
  int stage = 0;             ///< pipeline stage that has this peak

  [[nodiscard]] double allocated() const {
    return parameters + gradients + optimizer_state + fp8_copies + activations + transient +
           gathered + workspace;
  }
  [[nodiscard]] double reserved() const { return allocated() + fragmentation; }
  [[nodiscard]] double device_total() const { return reserved() + communication + context; }
};

/// One component by the name and the words that tables and pages use.
struct MemoryPart {
  std::string_view name;
  std::string_view meaning;
  double bytes = 0;
};
/// All components, from what is always there to what lives outside the allocator.
[[nodiscard]] std::array<MemoryPart, 11> parts(const MemoryBreakdown& memory);

/// Bytes of device memory that a process can use. Vendors' "80 GB" HBM parts hold about 80 GiB, of
/// which the driver keeps a little: PyTorch reports a total capacity of 79.15 GiB
/// (A100-80GB), 79.11 (H100), 139.8 (H200), 178.4 (B200-180GB): 0.989-0.992 of the marketed number
/// read as GiB.
[[nodiscard]] Bytes usable_memory(const DeviceSpec& device);

}  // namespace foreplan::simulator
