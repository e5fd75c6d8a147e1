#pragma once
// The points measured when nothing else is named.

#include "core/dtype.hpp"
#include "core/quantity.hpp"
#include "harness/point.hpp"

#include <vector>

namespace foreplan::harness {

/// What a kind of machine can do in a few minutes.
struct StandardScope {
  std::vector<DType> gemm_types = {DType::bf16};
  std::vector<DType> attention_types = {DType::bf16};
  DType row_type = DType::bf16;
  Flops largest_product{2e13};   ///< larger ones are left out
  Bytes largest_buffer{4e9};     ///< as are larger tensors and messages
  bool has_host_copies = false;  ///< the device's memory is apart from the host's
};

/// GEMMs of transformer layers in all three passes and a log-spaced grid with odd sizes; attention
/// forward and backward; operators bound by memory; copies; with more than one rank, collectives
/// over all of them and over halves. Does not depend on any budget: weights say what comes first,
/// and a later process goes on where the budget ended. Every question once.
[[nodiscard]] std::vector<Point> standard_points(const StandardScope& scope, int ranks);

}  // namespace foreplan::harness
