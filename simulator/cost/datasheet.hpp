#pragma once
// Costs from the data sheet and published efficiencies: the profile of a device nobody has
// measured.

#include "core/cluster.hpp"
#include "core/result.hpp"
#include "simulator/cost/cost_model.hpp"

#include <memory>

namespace foreplan::simulator {

/// Shares of data-sheet rates that large kernels reach; simulator/cost/datasheet.yaml gives the
/// source of each value.
struct DatasheetEfficiencies {
  double gemm = 0;  ///< 16-bit tensor peak
  double fp8_gemm = 0;
  double attention_forward = 0;  ///< fused attention over the 16-bit peak
  double attention_backward = 0;
  double memory = 0;      ///< HBM bandwidth
  double scale_up = 0;    ///< bus bandwidth of ring collectives over the link
  double all_reduce = 0;  ///< of all_reduce, which switches may do in-network
  double network = 0;     ///< NIC bandwidth
  ConditionTable conditions;
};

/// Reads the row of an architecture (or `default`).
[[nodiscard]] Result<DatasheetEfficiencies> datasheet_efficiencies(std::string_view architecture);

/// GEMM: best of a few tile shapes, whole waves over the SMs at `gemm` of the peak, soft maximum
/// with HBM traffic, a prologue per tile and a launch (structure after the tile-and-wave models of
/// GEMM libraries; docs/model.md). Attention: FLOPs at its own fraction, at least its bytes.
/// Everything else: bytes over `memory` of the bandwidth. Collectives: latency per step plus bytes
/// over the slower of scale-up link and NIC share.
[[nodiscard]] std::unique_ptr<CostModel> make_datasheet_cost(
    const ClusterSpec& cluster, const DatasheetEfficiencies& efficiencies);

}  // namespace foreplan::simulator
