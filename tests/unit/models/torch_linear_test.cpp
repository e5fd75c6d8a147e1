// Linear layers as PyTorch programs run them: torchao's casts and projections of their own.
// Oracle of the casts: bytes per element of torchao's own roofline (pytorch/ao 0598012
// torchao/testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s).

#include "models/rank_graph.hpp"
#include "tests/unit/models/rank_samples.hpp"

#include <gtest/gtest.h>

namespace foreplan::models {
namespace {

using namespace samples;

constexpr double kQkv = (kHeads + 2 * kKvHeads) * kHeadDim, kContext = kHeads * kHeadDim;
constexpr double kWeights = kHidden * kQkv + kContext * kHidden + 3 * kHidden * kFfn;

RankShape torchao(GemmPrecision precision) {
  RankShape shape = shape_of(1, false);
  shape.gemm = precision;
  shape.keeps_narrow = false;
  shape.separate_projections = true;
  return shape;
}

double bytes_of(const RankGraph& graph, std::string_view label) {
  double sum = 0;
  for (const Operator& op : graph.operators) sum += op.label == label ? op.bytes().value : 0;
  return sum;
}

/// Of all casts; `rescale` is no cast.
double cast_bytes(const RankGraph& graph) {
  double sum = 0;
  for (const Operator& op : graph.operators) {
    if (op.kind == OperatorKind::quantize && op.label != "rescale") sum += op.bytes().value;
  }
  return sum;
}

TEST(TorchaoLinear, CastsMoveWhatItsRooflineSays) {
  constexpr double kInputs = kTokens * (2 * kHidden + kContext + kFfn);
  constexpr double kGradients = kTokens * (kQkv + 2 * kHidden + 2 * kFfn);
  EXPECT_DOUBLE_EQ(cast_bytes(layer_of(llama(), torchao(GemmPrecision::fp8_current))),
                   6 * kInputs + 6 * kGradients + 8 * kWeights);
  EXPECT_DOUBLE_EQ(cast_bytes(layer_of(llama(), torchao(GemmPrecision::fp8_rowwise))),
                   8 * kInputs + 8 * kGradients + 10 * kWeights);
  EXPECT_DOUBLE_EQ(cast_bytes(layer_of(llama(), torchao(GemmPrecision::fp8_rowwise_gw_hp))),
                   3 * kInputs + 3 * kGradients + 6 * kWeights);
}

TEST(TorchaoLinear, WeightsThatArriveQuantisedAreOnlyTransposed) {
  RankShape shape = torchao(GemmPrecision::fp8_current);
  const double cast = cast_bytes(layer_of(llama(), shape));
  shape.gathers_narrow_weights = true;
  EXPECT_DOUBLE_EQ(cast_bytes(layer_of(llama(), shape)), cast - (8 - 2) * kWeights);
}

TEST(TorchaoLinear, ScalesByRowAreAppliedToWhatPreciseProductsMake) {
  // Every product but the weight gradients makes a gradient of its whole input.
  constexpr double kInputGradients = kTokens * ((3 + 2) * kHidden + kContext + kFfn);
  EXPECT_EQ(bytes_of(layer_of(llama(), torchao(GemmPrecision::fp8_current)), "rescale"), 0);
  EXPECT_DOUBLE_EQ(bytes_of(layer_of(llama(), torchao(GemmPrecision::fp8_rowwise)), "rescale"),
                   2 * 2 * (kInputGradients + kWeights));
  EXPECT_DOUBLE_EQ(
      bytes_of(layer_of(llama(), torchao(GemmPrecision::fp8_rowwise_gw_hp)), "rescale"),
      2 * 2 * kInputGradients);
}

TEST(TorchaoLinear, ScalesByRowAreTakenAfterAGatherInSixteenBits) {
  RankShape shape = torchao(GemmPrecision::fp8_rowwise);
  shape.tp = 8;
  shape.sequence_parallel = shape.keeps_gathered = true;
  const RankGraph graph = layer_of(llama(), shape);
  for (const CollectiveUse& use : graph.collectives)
    EXPECT_DOUBLE_EQ(use.collective.size.value, 2 * kTokens * kHidden);
  EXPECT_EQ(find(graph, "quantize_input", Pass::forward)->bytes().value, 3 * kTokens * kHidden);
}

TEST(SeparateProjections, TheSameWorkInSevenProductsInsteadOfFour) {
  RankShape shape = shape_of(1, false);
  const RankGraph fused = layer_of(llama(), shape);
  shape.separate_projections = true;
  const RankGraph separate = layer_of(llama(), shape);
  const auto products = [](const RankGraph& graph, double& flop) {
    int count = 0;
    for (const Operator& op : graph.operators) {
      if (op.kind != OperatorKind::gemm || op.pass != Pass::forward) continue;
      flop += op.flops.value;
      ++count;
    }
    return count;
  };
  double fused_flop = 0, separate_flop = 0;
  EXPECT_EQ(products(fused, fused_flop), 4);
  EXPECT_EQ(products(separate, separate_flop), 7);
  EXPECT_DOUBLE_EQ(fused_flop, separate_flop);
  EXPECT_EQ(separate.parameters.dense, fused.parameters.dense);
  EXPECT_DOUBLE_EQ(saved(separate), saved(fused));
  // The next kernel reads two tensors more where three products say something of one gradient, and
  // one more where two do.
  EXPECT_DOUBLE_EQ(bytes_of(separate, "sum_input_gradients"), 2 * (2 + 1) * kTokens * kHidden);
}

TEST(SeparateProjections, RecomputationByOperatorRunsKeysOutputAndOneSideOfTheGateAgain) {
  RankShape shape = shape_of(1, false);
  shape.separate_projections = true;
  double again = 0;
  for (const Operator& op : layer_of(llama(), shape).operators) {
    if (op.pass == Pass::forward && op.kind == OperatorKind::gemm)
      again += op.flops.value * recomputed_share(op, kEverySecondMatmul);
  }
  EXPECT_DOUBLE_EQ(again, 2 * kTokens * kHidden * (kKvHeads * kHeadDim + kContext + kFfn));
}

TEST(SeparateProjections, EachMayReduceItsOwnGradientOfTheInput) {
  RankShape shape = shape_of(8, true);
  shape.separate_projections = shape.keeps_gathered = true;
  const auto scatters = [&] {
    int count = 0;
    for (const CollectiveUse& use : layer_of(llama(), shape).collectives) {
      if (use.pass != Pass::forward && use.collective.kind == CollectiveKind::reduce_scatter)
        count += use.count;
    }
    return count;
  };
  EXPECT_EQ(scatters(), 2);
  shape.reduces_each_projection = true;
  EXPECT_EQ(scatters(), 3 + 2);
}

// Oracle: what torch 2.6's _templated_ring_attention and its backward read and write of a tensor
// of queries, kernel by kernel, on the rank whose every step has all queries; four ranks.
TEST(TorchRing, MergesAndSumsInFp32) {
  RankShape shape = shape_of(1, false);
  shape.cp = 4;
  shape.context_parallel = ContextParallelKind::torch_ring;
  const double queries = kTokens / 4 * kContext;
  // A cast each way; three merges that read a context and the sum and write the sum; three copies
  // of keys and values.
  EXPECT_DOUBLE_EQ(bytes_of(layer_of(llama(), shape), "merge_contexts"),
                   queries * (6 + 6 + 3 * (2 + 4 + 4) + 3 * 8));
  // Zeros and casts of three tensors, four steps that add three, three copies.
  EXPECT_DOUBLE_EQ(bytes_of(layer_of(llama(), shape), "sum_gradients"),
                   queries * (3 * 4 + 3 * 6 + 4 * 3 * (2 + 4 + 4) + 3 * 8));
}

}  // namespace
}  // namespace foreplan::models
