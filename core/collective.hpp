#pragma once
// Collectives: kind, bytes, group. Byte meaning and bus factors follow nccl-tests.

#include "core/operator.hpp"
#include "core/quantity.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace foreplan {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send_recv
};

struct CollectiveTraits {
  CollectiveKind kind;
  std::string_view name;
  double (*bus_factor)(int group_size);  ///< busbw = algbw * factor (nccl-tests PERFORMANCE.md)
};

inline constexpr std::array kCollectives = {
    CollectiveTraits{CollectiveKind::all_reduce, "all_reduce",
                     [](int n) { return 2.0 * (n - 1) / n; }},
    CollectiveTraits{CollectiveKind::all_gather, "all_gather",
                     [](int n) { return 1.0 * (n - 1) / n; }},
    CollectiveTraits{CollectiveKind::reduce_scatter, "reduce_scatter",
                     [](int n) { return 1.0 * (n - 1) / n; }},
    CollectiveTraits{CollectiveKind::all_to_all, "all_to_all",
                     [](int n) { return 1.0 * (n - 1) / n; }},
    CollectiveTraits{CollectiveKind::broadcast, "broadcast", [](int) { return 1.0; }},
    CollectiveTraits{CollectiveKind::send_recv, "send_recv", [](int) { return 1.0; }},
};
static_assert(kCollectives.size() == static_cast<std::size_t>(CollectiveKind::send_recv) + 1);

constexpr const CollectiveTraits& traits(CollectiveKind k) {
  return kCollectives[static_cast<std::size_t>(k)];
}
constexpr std::string_view name(CollectiveKind k) { return traits(k).name; }

/// The process group that a collective runs over. `dense_dp` carries the gradients and parameters
/// of everything but experts (DP x CP ranks); `expert_dp` those of experts.
enum class ParallelGroup : std::uint8_t { tp, cp, ep, etp, pp, dense_dp, expert_dp };
inline constexpr int kParallelGroupCount = 7;
std::string_view name(ParallelGroup g);

/// One collective as one rank takes part in it.
struct Collective {
  CollectiveKind kind{};
  ParallelGroup group{};
  /// nccl-tests meaning: all_reduce = the buffer; all_gather = the whole receive buffer;
  /// reduce_scatter and all_to_all = the whole send buffer; send_recv = the message.
  Bytes size;
  /// An all_to_all that sends `copies` of each element, to ranks of `fan_out` choices at random
  /// (tokens and their experts), and only one copy to a node, which spreads it. 0 = copies travel
  /// on their own.
  int fan_out = 0;
  double copies = 1;
  /// Of those choices: they all fall into `top_groups` of `groups` equal runs of destinations
  /// (node-limited routing). 1 = anywhere.
  int groups = 1, top_groups = 1;
};

/// Where the members of one process group sit, and who shares their links.
struct GroupPlacement {
  int size = 1;            ///< ranks in the group
  int ranks_per_node = 1;  ///< members inside one scale-up domain (NVLink island)
  int groups_sharing_nic =
      1;  ///< groups of this kind that use the same node's NICs at the same time
  [[nodiscard]] int nodes() const { return (size + ranks_per_node - 1) / ranks_per_node; }
  friend constexpr bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
};

}  // namespace foreplan
