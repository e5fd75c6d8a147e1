#pragma once
// A cluster: nodes x devices, and the links between them.

#include "core/device.hpp"
#include "core/quantity.hpp"

#include <string>

namespace foreplan {

/// Links of a cluster, from the inside out. Bandwidths are per device and per direction.
struct Topology {
  int scale_up_size = 8;  ///< devices in one scale-up domain (NVLink island, NVL72 rack)
  BytesPerSecond scale_up_bandwidth;
  Seconds scale_up_latency;       ///< per hop, one message
  bool scale_up_switched = true;  ///< all pairs at full rate (NVSwitch); false = PCIe or bridges
  int nics_per_node = 8;
  BytesPerSecond nic_bandwidth;   ///< one NIC, one direction
  Seconds nic_latency;            ///< per hop, one message
  bool rail_aligned = true;       ///< NIC i of every node hangs on the same switch plane
  double oversubscription = 1.0;  ///< > 1: the spine carries 1/x of the NICs' bandwidth
  int nodes_per_pod = 0;          ///< nodes below the oversubscribed level; 0 = no such level
};

struct ClusterSpec {
  std::string name;
  DeviceSpec device;
  int nodes = 1;
  int devices_per_node = 8;
  Topology topology;
  Bytes host_memory_per_node;     ///< 0 = not known
  BytesPerSecond host_bandwidth;  ///< host link per device, one direction
  std::string source;             ///< where the values of a real cluster were read
  std::string note;
  [[nodiscard]] int devices() const { return nodes * devices_per_node; }
  /// Share of its scale-up bandwidth that a device reaches the others of a group of `ranks` of one
  /// domain with. Behind a switch, and over PCIe, all of it; in a mesh of direct links (xGMI,
  /// NVLink boards of four) only the links that end in the group.
  [[nodiscard]] double scale_up_share(int ranks) const {
    const bool mesh = !topology.scale_up_switched && !device.scale_up_link.starts_with("PCIe");
    if (!mesh || ranks <= 1 || ranks >= topology.scale_up_size) return 1;
    return (ranks - 1.0) / (topology.scale_up_size - 1.0);
  }
};

}  // namespace foreplan
