#pragma once
// Clusters: "8x8xH100", a shipped file of scenarios/clusters, or a mapping in a scenario.

#include "core/cluster.hpp"
#include "core/document.hpp"
#include "core/result.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// What-if factors on the rates of a cluster; 1 leaves a rate as it is.
struct RateScale {
  double network_bandwidth = 1;   ///< of every NIC
  double scale_up_bandwidth = 1;  ///< of NVLink or what stands in its place
  double memory_bandwidth = 1;    ///< of the devices' own memory
  double compute = 1;             ///< of every peak rate, at the same clock
};

/// A cluster of more devices is taken for a slip of the keyboard.
inline constexpr long long kMostDevices = 1'000'000;

/// `nodes` nodes of `devices_per_node` devices, with the links that are typical for the device.
/// Requires both >= 1 and a product up to kMostDevices.
///
/// A scale-up domain is the node (HGX boards, PCIe boxes), a part of it (NVLink bridges) or
/// several whole nodes (NVL72 racks: scale_up_size 72 with 4 devices per node). One NIC per device;
/// none where the device has no typical network. Latencies are the per-hop hardware latencies of
/// NCCL's tuning model for small messages (NVIDIA/nccl 2.30.7, src/graph/tuning.cc, LL protocol:
/// NVLink 0.6 us, PCIe 1.0 us, network 5.0 us on a tree); the delay of a particular NIC comes on
/// top and is given by cluster files where it was measured.
[[nodiscard]] ClusterSpec typical_cluster(const DeviceSpec& device, int nodes,
                                          int devices_per_node);

/// The cluster with its rates multiplied. Every factor other than 1 is told in the name and in the
/// note, so that no output of a what-if can be taken for the real machine. Device peaks and memory
/// bandwidth are scaled in `device`; link rates in `topology` only, where `device` keeps the data
/// sheet's. Requires positive finite factors.
[[nodiscard]] ClusterSpec apply_scale(ClusterSpec cluster, const RateScale& scale);

/// Reads a cluster from a mapping, or from a text as `find_cluster` does. Mistakes of the mapping
/// are recorded in the node's document; the result fails only with mistakes that concern the named
/// device or cluster, so a caller reports both lists. The cluster is incomplete if the document
/// has errors.
[[nodiscard]] Result<ClusterSpec> read_cluster(const Node& node);

/// Reads a cluster file. Fails with every mistake in it, each with its line.
[[nodiscard]] Result<ClusterSpec> read_cluster(const std::filesystem::path& file);

/// Names of the shipped clusters, sorted. Fails if the catalogue is not found.
[[nodiscard]] Result<std::vector<std::string>> cluster_names();

/// A cluster from what a person types:
///   "8x8xH100"  nodes x devices per node x device (name, alias or path of a device file);
///   "64xH100"   that many devices in nodes of the device's typical size; fewer than one such
///               node are one smaller node, other counts must be whole nodes;
///   "eos-h100"  a shipped cluster, in any case;
///   "my.yaml"   the path of a cluster file.
/// Fails at `place`, saying what was understood and what is allowed.
[[nodiscard]] Result<ClusterSpec> find_cluster(std::string_view text, const Place& place = {});

}  // namespace foreplan::scenarios
