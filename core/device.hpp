#pragma once
// What a data sheet claims about one accelerator. Observations of a driver are kept elsewhere.

#include "core/dtype.hpp"
#include "core/quantity.hpp"

#include <optional>
#include <string>
#include <vector>

namespace foreplan {

struct DeviceSpec {
  std::string name;                  ///< e.g. "H100-SXM5-80GB"
  std::vector<std::string> aliases;  ///< short names that users type, e.g. "H100"
  std::string vendor, architecture;  ///< e.g. "NVIDIA", "Hopper"
  int sm_count = 0;
  double boost_clock_hz = 0;
  /// Dense tensor peaks at the boost clock, by storage width of the operands. Absent = the device
  /// has no such unit.
  std::optional<FlopsPerSecond> peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8, peak_fp4,
      peak_int8;
  Bytes memory;  ///< capacity as marketed (GB = 1e9 for HBM parts; see source)
  /// Total that a process is given by the driver: an "80 GB" H100 shows 79.11 GiB = 84.9e9 bytes.
  /// Limits of a plan compare with this one. 0 = not known.
  Bytes visible_memory;
  BytesPerSecond memory_bandwidth;
  Bytes l2_cache;
  std::string scale_up_link;          ///< "NVLink4", "PCIe4", ...
  BytesPerSecond scale_up_bandwidth;  ///< per device, one direction
  int scale_up_size = 8;              ///< typical devices in one scale-up domain; may span nodes
  bool scale_up_switched = true;  ///< any pair gets the full rate; false = PCIe, mesh or bridges
  BytesPerSecond pcie_bandwidth;  ///< per device, one direction
  /// Per device, one direction, where host memory is reached by another way than PCIe (NVLink-C2C);
  /// 0 = by PCIe.
  BytesPerSecond host_bandwidth;
  int devices_per_node = 8;      ///< typical
  BytesPerSecond nic_bandwidth;  ///< typical per device, one direction; 0 = none is typical
  Bytes host_memory_per_node;    ///< typical; 0 = not known
  double power_w = 0;
  std::vector<std::string> sources;             ///< where the values were read
  std::vector<std::string> unconfirmed_fields;  ///< values taken from memory of a data sheet
  std::string note;

  /// Peak for operands of this type; empty where the device cannot compute in it.
  [[nodiscard]] std::optional<FlopsPerSecond> peak(DType dtype) const;
};

}  // namespace foreplan
