#pragma once
// Which protocol NCCL takes for a message within one node. A protocol has a latency and a rate of
// its own, so measured times jump, up to twofold, where the library changes it; NCCL decides by a
// performance model of its own, and this is that model. Only the decision is used: its times are
// 3-45 % off.
//
//   t(B) = L + B / W      of every legal (algorithm, protocol); the least wins
//
// Restated from NCCL's src/graph/tuning.cc and search.cc, v2.30.7 (ring LL128 on NVLink 5 as of
// 2.27 and 2.29 too). On the public nccl-tests rows of A100, H100, B200 and GB200 every jump lies
// between the same two sizes as here.

#include "core/quantity.hpp"
#include "simulator/calibration/collective/collective_model.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace foreplan::simulator::calibration {

enum class NcclPath : std::uint8_t {
  unknown,  ///< not chosen by the model: point to point, or a machine that it does not describe
  ring_ll,
  ring_ll128,
  ring_simple,
  tree_ll,
  tree_ll128,
  tree_simple,
  nvls,  ///< reduced or multicast in the switch
};
inline constexpr int kNcclPaths = 8;

/// A collective within one node, but for its size.
struct NcclCall {
  CollectiveOp op{};
  int ranks = 2;
  std::string_view link;     ///< "NVLink4", "PCIe5", ...
  BytesPerSecond link_rate;  ///< one direction, per device; 0 = the usual one of the link
  std::string_view version;  ///< "2.29.2"; empty or unreadable = the newest
  /// The switch adds this element type; it does not add 8-bit integers.
  bool multicast = true;
};

[[nodiscard]] NcclPath nccl_path(const NcclCall& call, double bytes);

/// log2 of the sizes between `from` and `to` (also log2 of bytes) where the path changes,
/// ascending.
[[nodiscard]] std::vector<double> nccl_switches(const NcclCall& call, double from, double to);

}  // namespace foreplan::simulator::calibration
