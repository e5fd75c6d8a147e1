// What one rank keeps for backward and holds for a moment, against closed forms written out by
// hand.

#include "models/rank_graph.hpp"
#include "tests/unit/models/rank_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace foreplan::models {
namespace {

using namespace samples;

// ---- saved tensors

TEST(LayerSaved, DenseLayerUnderSequenceParallelism) {
  for (const double t : {1.0, 2.0, 8.0}) {
    const RankGraph graph = layer_of(llama(), shape_of(static_cast<int>(t), true));
    const double x = 2 * kTokens * kHidden / t;
    EXPECT_DOUBLE_EQ(saved(graph), 4 * x +
                                       2 * kTokens * (2 * kHeads + 2 * kKvHeads) * kHeadDim / t +
                                       4 * kTokens * kHeads / t + 2 * kTokens * 3 * kFfn / t);
    EXPECT_DOUBLE_EQ(graph.boundary.value, x);
    EXPECT_DOUBLE_EQ(saved(graph, ~PartSet{0}), x);
    EXPECT_DOUBLE_EQ(saved_under(graph, "norm_statistics"), 2 * 4 * kTokens / t);
  }
}

TEST(LayerSaved, WithoutSequenceParallelismTheHiddenStatesStayWhole) {
  const double x = 2 * kTokens * kHidden, t = 8;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), shape_of(8, false))),
                   4 * x + 2 * kTokens * (2 * kHeads + 2 * kKvHeads) * kHeadDim / t +
                       4 * kTokens * kHeads / t + 2 * kTokens * 3 * kFfn / t);
}

TEST(LayerSaved, AGatedUnitOfTwoKernelsKeepsTheActivatedGateToo) {
  RankShape shape = shape_of(1, false);
  const double fused = saved(layer_of(llama(), shape));
  shape.elementwise = ElementwiseKernels::modules;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), shape)), fused + 2 * kTokens * kFfn);
}

TEST(LayerSaved, NormsOfSingleOperatorsKeepAnFp32Copy) {
  RankShape shape = shape_of(1, false);
  shape.elementwise = ElementwiseKernels::modules;
  const double one_kernel = saved(layer_of(llama(), shape));
  shape.elementwise = ElementwiseKernels::operators;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), shape)), one_kernel + 2 * 4 * kTokens * kHidden);
}

TEST(LayerSaved, ReluIsKeptByItsOutputAlone) {
  ModelSpec model = llama();
  model.layer_kinds[0].ffn->activation = ActivationKind::relu;
  const RankGraph graph = layer_of(model, shape_of(1, false));
  EXPECT_DOUBLE_EQ(saved_under(graph, "fc1_output"), 0);
  EXPECT_DOUBLE_EQ(saved_under(graph, "activation_output"), 2 * kTokens * kFfn);
}

TEST(LayerSaved, RecomputedPartsLeaveTheirTensors) {
  const RankGraph graph = layer_of(llama(), shape_of(1, false));
  const double all = saved(graph), x = 2 * kTokens * kHidden;
  EXPECT_DOUBLE_EQ(all - saved(graph, part_bit(Part::core_attention)), 4 * kTokens * kHeads);
  EXPECT_DOUBLE_EQ(all - saved(graph, part_bit(Part::attention_norm) | part_bit(Part::ffn_norm)),
                   2 * x);
  EXPECT_DOUBLE_EQ(all - saved(graph, part_bit(Part::activation)), 2 * kTokens * kFfn);
  EXPECT_DOUBLE_EQ(all - saved(graph, part_bit(Part::fc1) | part_bit(Part::activation)),
                   6 * kTokens * kFfn);
}

TEST(LayerSaved, LatentAttentionKeepsLatentsAndExpandedHeads) {
  const double t = 4, x = 2 * kTokens * 7168 / t, a = 128 / t;
  const RankGraph graph = layer_of(latent_attention(), shape_of(4, true));
  const double latents = 2 * kTokens / t * (2 * 1536 + 2 * 512 + 64);
  const double heads = 2 * kTokens * a * (2 * 192 + 2 * 128) + 4 * kTokens * a;
  const double ffn = 2 * kTokens * 3 * kFfn / t;
  EXPECT_DOUBLE_EQ(saved(graph), 4 * x + latents + heads + ffn);
  // Recomputing the up projections leaves the latents as the down projections made them.
  EXPECT_DOUBLE_EQ(saved(graph) - saved(graph, part_bit(Part::mla_up_projection)),
                   2 * kTokens / t * (1536 + 512) + 2 * kTokens * a * (2 * 192 + 128));
}

TEST(LayerSaved, ExpertsKeepWhatTheirTokensNeed) {
  RankShape shape = shape_of(2, true);
  shape.ep = 4;
  shape.expert_imbalance = 1.25;
  const double t = 2, h = 4096, f = 14336, own = kTokens / t, te = own * 2 * 1.25;
  const double x = 2 * own * h;
  const double attention = 2 * kTokens * (2 * 32 + 2 * 8) * kHeadDim / t + 4 * kTokens * 32 / t;
  const double routing = 26 * own * 8 + 4 * own * (2 * 8 + 1) + 2 * 4 * te + 4 * te;
  EXPECT_DOUBLE_EQ(saved(layer_of(mixture(), shape)),
                   4 * x + attention + routing + 2 * te * h + 2 * te * 2 * f + 2 * te * f);
  const double shared = 2 * kTokens * 3 * 1024 / t;
  EXPECT_DOUBLE_EQ(saved(layer_of(mixture(1024), shape)) - saved(layer_of(mixture(), shape)),
                   shared);
}

TEST(LayerSaved, ParallelResidualKeepsOneInput) {
  ModelSpec model = llama();
  const double sequential = saved(layer_of(model, shape_of(1, false)));
  const double x = 2 * kTokens * kHidden;
  model.layer_kinds[0].parallel_residual = true;  // GPT-NeoX: two norms of one input
  EXPECT_DOUBLE_EQ(sequential - saved(layer_of(model, shape_of(1, false))), x);
  model.layer_kinds[0].norms = 1;  // Falcon: one norm for both branches
  EXPECT_DOUBLE_EQ(sequential - saved(layer_of(model, shape_of(1, false))), 2 * x);
}

TEST(LayerSaved, PostNormsKeepTheirInputs) {
  ModelSpec model = llama();
  const double two = saved(layer_of(model, shape_of(1, false)));
  model.layer_kinds[0].norms = 4;
  EXPECT_DOUBLE_EQ(saved(layer_of(model, shape_of(1, false))) - two, 2 * 2 * kTokens * kHidden);
}

TEST(LayerSaved, UlyssesKeepsTheContextInBothLayouts) {
  RankShape shape = shape_of(1, false);
  shape.cp = 4;
  const double ring = saved(layer_of(llama(), shape));
  shape.context_parallel = ContextParallelKind::ulysses;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), shape)) - ring, 2 * kTokens / 4 * kHeads * kHeadDim);
}

TEST(LayerSaved, FlashAttentionTwoOfSeveralSamplesKeepsTheContextInBothLayouts) {
  RankShape shape = shape_of(1, false);
  const double once = saved(layer_of(llama(), shape));
  shape.copies_context = true;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), shape)) - once, 2 * kTokens * kHeads * kHeadDim);
  shape.attention = AttentionKernel::unfused;
  EXPECT_EQ(saved_under(layer_of(llama(), shape), "context"), 0);
}

TEST(LayerSaved, ProductsWithoutANameLeaveTheInputAndWhatAttentionWrote) {
  const RankGraph graph = layer_of(llama(), shape_of(1, false));
  const PartSet by_operator = kEverySecondMatmul | part_bit(Part::attention_norm) |
                              part_bit(Part::ffn_norm) | part_bit(Part::activation);
  const double context = 2 * kTokens * kHeads * kHeadDim, statistics = 4 * kTokens * kHeads;
  EXPECT_DOUBLE_EQ(saved(graph, by_operator | kEveryMatmul),
                   2 * kTokens * kHidden + context + statistics);
  const double q_and_v = 2 * kTokens * (kHeads + kKvHeads) * kHeadDim;
  EXPECT_DOUBLE_EQ(saved(graph, by_operator) - saved(graph, by_operator | kEveryMatmul),
                   q_and_v + 2 * kTokens * kFfn);
  for (const Operator& op : graph.operators) {
    if (op.pass != Pass::forward || op.kind != OperatorKind::gemm) continue;
    EXPECT_EQ(recomputed_share(op, by_operator | kEveryMatmul), op.part == Part::fc2 ? 0 : 1)
        << op.label;
  }
}

// ---- FP8

RankShape fp8(int tp, GemmPrecision precision) {
  RankShape shape = shape_of(tp, true);
  shape.gemm = precision;
  return shape;
}

TEST(Fp8, GemmInputsAreKeptAsOneByteAndTheContextTwice) {
  const double t = 2, own = kTokens / t;
  const double wide = 2 * kTokens * 2 * kFfn / t;  // the activation's input stays bf16
  const double operands = 2 * own * kHidden + kTokens * (kHeads * kHeadDim + kFfn) / t;
  const double rest = 2 * 2 * own * kHidden +
                      2 * kTokens * (2 * kHeads + 2 * kKvHeads) * kHeadDim / t +
                      4 * kTokens * kHeads / t;
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), fp8(2, GemmPrecision::fp8_delayed))),
                   rest + wide + operands);
  EXPECT_DOUBLE_EQ(saved(layer_of(llama(), fp8(2, GemmPrecision::fp8_block))),
                   rest + wide + operands * (1 + 4.0 / 128));
}

TEST(Fp8, UnfusedAttentionNeedsNoSecondContext) {
  RankShape shape = fp8(1, GemmPrecision::fp8_delayed);
  EXPECT_DOUBLE_EQ(saved_under(layer_of(llama(), shape), "context"),
                   2 * kTokens * kHeads * kHeadDim);
  shape.attention = AttentionKernel::unfused;
  EXPECT_EQ(saved_under(layer_of(llama(), shape), "context"), 0);
}

TEST(Fp8, GathersMoveOneByteAndReductionsTwo) {
  for (const auto& use : layer_of(llama(), fp8(8, GemmPrecision::fp8_delayed)).collectives) {
    const double bytes = use.collective.kind == CollectiveKind::all_gather ? 1 : 2;
    EXPECT_DOUBLE_EQ(use.collective.size.value, bytes * kTokens * kHidden);
  }
}

TEST(Fp8, LinearLayersAloneRunInFp8) {
  RankShape shape = fp8(1, GemmPrecision::fp8_delayed);
  shape.attention = AttentionKernel::unfused;
  for (const auto& op : layer_of(mixture(14336), shape).operators) {
    if (cost_class(op.kind) != CostClass::gemm) continue;
    const bool high = op.part == Part::core_attention || op.part == Part::router;
    EXPECT_EQ(op.input, high ? DType::bf16 : DType::fp8_e4m3) << op.label;
  }
  for (const auto& op : head_graph(llama(), shape, true).operators)
    EXPECT_EQ(op.input, DType::bf16);
}

TEST(Fp8, CastsReadOnceOrTwiceAndWriteTheTransposeWhereItIsNeeded) {
  const double tensor = kTokens * kHidden;
  const auto cast = [&](GemmPrecision precision, bool transpose) {
    RankShape shape = fp8(1, precision);
    shape.fp8_keeps_transpose = transpose;
    return *find(layer_of(llama(), shape), "quantize_input", Pass::forward);
  };
  EXPECT_DOUBLE_EQ(cast(GemmPrecision::fp8_delayed, false).bytes_read.value, 2 * tensor);
  EXPECT_DOUBLE_EQ(cast(GemmPrecision::fp8_delayed, false).bytes_written.value, tensor);
  EXPECT_DOUBLE_EQ(cast(GemmPrecision::fp8_delayed, true).bytes_written.value, 2 * tensor);
  EXPECT_DOUBLE_EQ(cast(GemmPrecision::fp8_current, true).bytes_read.value, 4 * tensor);
  EXPECT_DOUBLE_EQ(cast(GemmPrecision::fp8_block, false).bytes_written.value,
                   2 * tensor * (1 + 4.0 / 128));
}

TEST(Fp8, GatheredCopiesAreTransposedAfterTheGather) {
  const RankGraph graph = layer_of(llama(), fp8(8, GemmPrecision::fp8_delayed));
  const Operator& cast = *find(graph, "quantize_input", Pass::forward);
  EXPECT_DOUBLE_EQ(cast.bytes_written.value, kTokens / 8 * kHidden);
  const Operator& transpose = *find(graph, "transpose_input", Pass::dgrad);
  EXPECT_DOUBLE_EQ(transpose.bytes().value, 2 * kTokens * kHidden);
  EXPECT_EQ(
      find(layer_of(llama(), fp8(1, GemmPrecision::fp8_delayed)), "transpose_input", Pass::dgrad),
      nullptr);
}

TEST(Fp8, CachedWeightsAreThoseOfTheLinearLayers) {
  const double weights = kHidden * (2 * kHeads + 2 * kKvHeads) * kHeadDim + 3 * kHidden * kFfn;
  const RankGraph graph = layer_of(llama(), fp8(1, GemmPrecision::fp8_delayed));
  EXPECT_DOUBLE_EQ(graph.parameters.fp8_cached, weights);
  EXPECT_DOUBLE_EQ(graph.parameters.dense, weights + 2 * kHidden);
  EXPECT_EQ(layer_of(llama(), shape_of(1, false)).parameters.fp8_cached, 0);
}

// ---- transients

TEST(Transient, DenseBackwardIsTheLargestOfItsThreeMoments) {
  const auto worst = [](double t, bool sp) {
    const double x = 2 * kTokens * kHidden / (sp ? t : 1), whole = 2 * kTokens * kHidden;
    const double gathered = sp && t > 1 ? whole : 0, wide = 2 * kTokens * kFfn / t;
    return std::max({x + 2 * wide, x + gathered + wide, x + whole + gathered - wide});
  };
  EXPECT_DOUBLE_EQ(layer_of(llama(), shape_of(1, false)).transient.value, worst(1, false));
  EXPECT_DOUBLE_EQ(layer_of(llama(), shape_of(8, true)).transient.value, worst(8, true));
  EXPECT_DOUBLE_EQ(layer_of(llama(), shape_of(8, false)).transient.value, worst(8, false));
}

TEST(Transient, DispatchBuffersRuleWhereTopKTimesHiddenIsLarge) {
  ModelSpec model = mixture();
  model.layer_kinds[0].moe->expert_hidden = 1024;
  RankShape shape = shape_of(1, false);
  const double x = 2 * kTokens * 4096, te = 2 * kTokens * 2 * 4096;
  EXPECT_DOUBLE_EQ(layer_of(model, shape).transient.value, 4 * te + 2 * x);
  shape.ep = 8;  // one local expert needs no sorting
  EXPECT_DOUBLE_EQ(layer_of(model, shape).transient.value, 3 * te + 2 * x);
}

TEST(Transient, ScoreGradientsRuleWhereAttentionIsUnfused) {
  RankShape shape = shape_of(1, false);
  shape.attention = AttentionKernel::unfused;
  shape.sequence_length = 16384;
  const RankGraph graph = layer_of(llama(), shape);
  const double scores = 2 * kBatch * kHeads * 16384 * 16384;
  EXPECT_GT(graph.transient.value, 1.9 * scores);
  EXPECT_LT(graph.transient.value, 2.1 * scores);
}

}  // namespace
}  // namespace foreplan::models
