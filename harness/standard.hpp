#pragma once
// The points measured when nothing else is named.

#include "core/dtype.hpp"
#include "core/quantity.hpp"
#include "harness/point.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace foreplan::harness {

/// Heads of an attention layer.
struct HeadShape {
  std::int64_t queries = 1, keys = 1, dim = 1;
};
/// Widths of a transformer layer.
struct LayerShape {
  std::int64_t hidden = 1, feed_forward = 1;
};

/// What a kind of machine can do in a few minutes: which sizes are worth asking for.
struct StandardScope {
  std::vector<DType> gemm_types = {DType::bf16};
  std::vector<DType> attention_types = {DType::bf16};
  DType row_type = DType::bf16;
  Flops largest_product{2e13};   ///< larger ones are left out
  Bytes largest_buffer{4e9};     ///< as are larger tensors
  Bytes largest_message{4e9};    ///< and messages
  bool has_host_copies = false;  ///< the device's memory is apart from the host's
  std::vector<LayerShape> layers = {{1024, 4096}, {2048, 8192}, {4096, 14336}, {8192, 28672}};
  std::vector<std::int64_t> tokens = {1024, 4096, 16384};  ///< that a layer's products work on
  /// Sizes of products in every combination, one of them no multiple of a tile.
  std::vector<std::int64_t> grid = {64, 256, 1000, 2048, 5120, 8192};
  std::vector<HeadShape> heads = {{32, 8, 128}, {16, 16, 64}, {8, 8, 256}};
  std::vector<std::int64_t> sequences = {512, 1024, 2048, 4096, 8192, 16384};
  std::vector<std::int64_t> rows = {1024, 4096, 16384}, cols = {1024, 4096, 8192};
  std::vector<std::int64_t> vocabularies = {32'000, 128'256};
  /// Variant of attention by a library, asked beside our own at the usual points; empty = there is
  /// none.
  std::string attention_library = {};
  /// Ranks wait for processors as well as for each other: groups of some of them say nothing of
  /// groups alone.
  bool all_ranks_only = false;
};

/// GEMMs of transformer layers in all three passes and a log-spaced grid with odd sizes; attention
/// forward and backward; operators bound by memory; copies. With more than one rank, what takes
/// several: collectives over all of them and over halves. Does not depend on any budget: weights
/// say what comes first, and a later process goes on where the budget ended. Every question once.
[[nodiscard]] std::vector<Point> standard_points(const StandardScope& scope, int ranks);

}  // namespace foreplan::harness
