// What one rank executes and exchanges, against closed forms written out by hand.

#include "models/rank_graph.hpp"

#include "tests/unit/models/rank_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace foreplan::models {
namespace {

using namespace samples;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pointwise;
using testing::SizeIs;

// ---- operators

TEST(LayerOperators, GemmsOfTheThreePassesHaveLocalShapes) {
  const RankGraph graph = layer_of(llama(), shape_of(8, true));
  EXPECT_EQ(gemm_of(graph, "qkv", Pass::forward), (GemmShape{.m = 8192, .n = 1280, .k = 8192}));
  EXPECT_EQ(gemm_of(graph, "qkv", Pass::dgrad), (GemmShape{.m = 8192, .n = 8192, .k = 1280}));
  EXPECT_EQ(gemm_of(graph, "qkv", Pass::wgrad), (GemmShape{.m = 1280, .n = 8192, .k = 8192}));
  EXPECT_EQ(gemm_of(graph, "attention_output", Pass::forward),
            (GemmShape{.m = 8192, .n = 8192, .k = 1024}));
  EXPECT_EQ(gemm_of(graph, "fc1", Pass::forward), (GemmShape{.m = 8192, .n = 7168, .k = 8192}));
  EXPECT_EQ(gemm_of(graph, "fc2", Pass::forward), (GemmShape{.m = 8192, .n = 8192, .k = 3584}));
}

TEST(LayerOperators, KvHeadsAreReplicatedWhereRanksOutnumberThem) {
  EXPECT_EQ(gemm_of(layer_of(llama(2), shape_of(8, true)), "qkv", Pass::forward).n,
            (64 / 8 + 2) * 128);
  EXPECT_EQ(gemm_of(layer_of(llama(1), shape_of(4, true)), "qkv", Pass::forward).n,
            (64 / 4 + 2) * 128);
}

TEST(LayerOperators, BackwardRunsInReverse) {
  const RankGraph graph = layer_of(llama(), shape_of(1, false));
  std::vector<std::string> labels;
  for (const auto& op : graph.operators) {
    labels.push_back(std::string(op.label) + " " + std::string(name(op.pass)));
  }
  EXPECT_THAT(
      labels,
      ElementsAre("attention_norm forward", "qkv forward", "rope forward", "core_attention forward",
                  "attention_output forward", "attention_add forward", "ffn_norm forward",
                  "fc1 forward", "activation forward", "fc2 forward", "ffn_add forward",  //
                  "ffn_add dgrad", "fc2 dgrad", "fc2 wgrad", "activation dgrad", "fc1 dgrad",
                  "fc1 wgrad", "ffn_norm dgrad", "attention_add dgrad", "attention_output dgrad",
                  "attention_output wgrad", "core_attention dgrad", "rope dgrad", "qkv dgrad",
                  "qkv wgrad", "attention_norm dgrad"));
}

TEST(LayerOperators, NormsWorkOnTheRanksOwnTokensUnderSequenceParallelism) {
  const auto rows = [](bool sp) {
    return std::get<RowShape>(
               find(layer_of(llama(), shape_of(4, sp)), "ffn_norm", Pass::forward)->shape)
        .rows;
  };
  EXPECT_EQ(rows(true), 2048);
  EXPECT_EQ(rows(false), 8192);
}

// Oracle: every byte of the weight [28672 x 8192] counted by hand.
TEST(RankGraph, WeightGradientsGoWhereTheFrameworkPutsThem) {
  RankShape shape = shape_of(1, false);
  shape.gradient_sink = GradientSink::own_kernel;
  const RankGraph separate = layer_graph(llama(), llama().layer_kinds[0], shape);
  EXPECT_DOUBLE_EQ(find(separate, "fc2", Pass::wgrad)->bytes_written.value, 2 * kFfn * kHidden);
  double added = 0;
  for (const Operator& op : separate.operators) {
    if (op.label == "accumulate_gradient") added += op.bytes().value;
  }
  // Reads the 16-bit gradient and the fp32 buffer, writes the buffer.
  EXPECT_DOUBLE_EQ(added, (2 + 4 + 4) * separate.parameters.dense -
                              (2 + 4 + 4) * 2 * kHidden);  // the norms' weights are not products
  shape.gradient_sink = GradientSink::handed_on;
  const RankGraph handed = layer_graph(llama(), llama().layer_kinds[0], shape);
  EXPECT_EQ(find(handed, "accumulate_gradient", Pass::wgrad), nullptr);
  const Operator& wgrad = *find(handed, "fc2", Pass::wgrad);
  EXPECT_DOUBLE_EQ(wgrad.bytes().value, 2 * kTokens * (kFfn + kHidden) + 2 * kFfn * kHidden);
}

TEST(LayerOperators, TrafficIsEveryOperandOnce) {
  const RankGraph graph = layer_of(llama(), shape_of(1, false));
  const double state = 2 * kTokens * kHidden;
  const Operator& fc2 = *find(graph, "fc2", Pass::forward);
  EXPECT_DOUBLE_EQ(fc2.bytes_read.value, 2 * (kTokens * kFfn + kFfn * kHidden));
  EXPECT_DOUBLE_EQ(fc2.bytes_written.value, state);
  // wgrad adds to fp32 gradients: they are read and written.
  const Operator& wgrad = *find(graph, "fc2", Pass::wgrad);
  EXPECT_DOUBLE_EQ(wgrad.bytes_read.value, 2 * kTokens * (kFfn + kHidden) + 4 * kFfn * kHidden);
  EXPECT_DOUBLE_EQ(wgrad.bytes_written.value, 4 * kFfn * kHidden);
  const Operator& activation = *find(graph, "activation", Pass::dgrad);
  EXPECT_DOUBLE_EQ(activation.bytes_read.value, 3 * 2 * kTokens * kFfn);
  EXPECT_DOUBLE_EQ(activation.bytes_written.value, 2 * 2 * kTokens * kFfn);
  const Operator& norm = *find(graph, "ffn_norm", Pass::forward);
  EXPECT_DOUBLE_EQ(norm.bytes_read.value, state + 2 * kHidden);
  EXPECT_DOUBLE_EQ(norm.bytes_written.value, state + 4 * kTokens);
}

TEST(LayerOperators, UnfusedAttentionComputesFullScoreSquares) {
  RankShape shape = shape_of(8, true);
  shape.attention = AttentionKernel::unfused;
  const RankGraph graph = layer_of(llama(), shape);
  EXPECT_EQ(gemm_of(graph, "attention_scores", Pass::forward),
            (GemmShape{.m = 4096, .n = 4096, .k = 128, .batch = 16}));
  EXPECT_EQ(gemm_of(graph, "attention_context", Pass::forward),
            (GemmShape{.m = 4096, .n = 128, .k = 4096, .batch = 16}));
  EXPECT_EQ(std::get<RowShape>(find(graph, "attention_softmax", Pass::forward)->shape),
            (RowShape{16 * 4096, 4096}));
  EXPECT_EQ(find(graph, "core_attention", Pass::forward), nullptr);
}

// Scores s = 2 * 16 * 4096^2 bytes. Megatron-LM's own causal kernel reads half of s forward, half
// of the gradient and of the probabilities backward; modules of single operators read all.
TEST(LayerOperators, ACausalSoftmaxKernelReadsUpToTheDiagonal) {
  RankShape shape = shape_of(8, true);
  shape.attention = AttentionKernel::unfused;
  shape.keeps_narrow = false;
  const double scores = 2.0 * 16 * 4096 * 4096;
  const auto softmax = [&](Pass pass) {
    return *find(layer_of(llama(), shape), "attention_softmax", pass);
  };
  EXPECT_DOUBLE_EQ(softmax(Pass::forward).bytes_read.value, 0.5 * scores);
  EXPECT_DOUBLE_EQ(softmax(Pass::forward).bytes_written.value, scores);
  EXPECT_DOUBLE_EQ(softmax(Pass::dgrad).bytes_read.value, scores);
  EXPECT_DOUBLE_EQ(softmax(Pass::dgrad).bytes_written.value, scores);
  shape.elementwise = ElementwiseKernels::modules;
  EXPECT_DOUBLE_EQ(softmax(Pass::forward).bytes_read.value, scores);
  EXPECT_DOUBLE_EQ(softmax(Pass::dgrad).bytes_read.value, 2 * scores);
}

// TransformerEngine pytorch/attention/dot_product_attention/utils.py, get_full_mask, per pair of
// positions: the difference (4 bytes written), two window ends (4 read and 4 written each), two
// comparisons (4 read, 1 written each), and not, and, not on bytes (1, 2 and 1 read, 1 written
// each).
TEST(LayerOperators, TransformerEnginesUnfusedSoftmaxReadsWholeRowsAndAMask) {
  RankShape shape = shape_of(8, true);
  shape.attention = AttentionKernel::unfused;
  const double pairs = 4096.0 * 4096, scores = 2.0 * 16 * pairs;
  const RankGraph graph = layer_of(llama(), shape);
  EXPECT_DOUBLE_EQ(find(graph, "attention_softmax", Pass::forward)->bytes_read.value, scores);
  EXPECT_DOUBLE_EQ(find(graph, "attention_softmax", Pass::dgrad)->bytes_read.value, 2 * scores);
  const Operator& mask = *find(graph, "attention_mask", Pass::forward);
  EXPECT_DOUBLE_EQ(mask.bytes_read.value, (2 * 4 + 2 * 4 + 1 + 2 + 1) * pairs);
  EXPECT_DOUBLE_EQ(mask.bytes_written.value, (4 + 2 * 4 + 2 * 1 + 3 * 1) * pairs);
  EXPECT_EQ(mask.part, Part::core_attention);
}

TEST(LayerOperators, ContextParallelRanksShareAttentionEvenly) {
  const double whole =
      find(layer_of(llama(), shape_of(1, false)), "core_attention", Pass::forward)->flops.value;
  for (const auto kind :
       {ContextParallelKind::ring, ContextParallelKind::all_gather, ContextParallelKind::ulysses}) {
    RankShape shape = shape_of(1, false);
    shape.cp = 4;
    shape.context_parallel = kind;
    const Operator op = *find(layer_of(llama(), shape), "core_attention", Pass::forward);
    EXPECT_DOUBLE_EQ(op.flops.value, whole / 4);
    // The shape agrees with the count, so that either may be used for the cost.
    EXPECT_DOUBLE_EQ(flops(std::get<AttentionShape>(op.shape), Pass::forward).value, whole / 4);
  }
}

// ---- collectives

TEST(LayerCollectives, NoneOnOneRank) {
  EXPECT_THAT(layer_of(llama(), shape_of(1, false)).collectives, IsEmpty());
  EXPECT_THAT(layer_of(llama(), shape_of(1, true)).collectives, IsEmpty());
}

TEST(LayerCollectives, SequenceParallelismGathersAndScatters) {
  const RankGraph graph = layer_of(llama(), shape_of(8, true));
  EXPECT_THAT(
      described(graph),
      ElementsAre("all_gather qkv forward", "reduce_scatter attention_output forward",
                  "all_gather fc1 forward", "reduce_scatter fc2 forward",  //
                  "all_gather fc2 dgrad", "all_gather fc1 dgrad behind fc1 dgrad",
                  "reduce_scatter fc1 dgrad behind fc1 wgrad", "all_gather attention_output dgrad",
                  "all_gather qkv dgrad behind qkv dgrad",
                  "reduce_scatter qkv dgrad behind qkv wgrad"));
  for (const auto& use : graph.collectives) {
    EXPECT_DOUBLE_EQ(use.collective.size.value, 2 * kTokens * kHidden);
    EXPECT_EQ(use.collective.group, ParallelGroup::tp);
  }
}

TEST(LayerCollectives, TensorParallelismAloneReducesTwiceAPass) {
  EXPECT_THAT(described(layer_of(llama(), shape_of(8, false))),
              ElementsAre("all_reduce attention_output forward", "all_reduce fc2 forward",
                          "all_reduce fc1 dgrad behind fc1 wgrad",
                          "all_reduce qkv dgrad behind qkv wgrad"));
}

TEST(LayerCollectives, RingSendsKeysAndValuesBesideTheCore) {
  RankShape shape = shape_of(2, true);
  shape.cp = 4;
  const RankGraph graph = layer_of(llama(), shape);
  const double block = 2 * (kTokens / 4) * 2 * (kKvHeads / 2) * kHeadDim;
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::forward), ElementsAre(block));
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::dgrad), ElementsAre(2 * block));
  const auto lines = described(graph);
  EXPECT_THAT(lines, testing::Contains(
                         "send_recv core_attention forward behind core_attention forward x3"));
  EXPECT_THAT(lines,
              testing::Contains("send_recv core_attention dgrad behind core_attention dgrad x3"));
}

TEST(LayerCollectives, GatheredContextMovesAllKeysAndValues) {
  RankShape shape = shape_of(1, false);
  shape.cp = 4;
  shape.context_parallel = ContextParallelKind::all_gather;
  const double all = 2 * kTokens * 2 * kKvHeads * kHeadDim;
  const RankGraph graph = layer_of(llama(), shape);
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::forward), ElementsAre(all));
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::dgrad), ElementsAre(all, all));
}

TEST(LayerCollectives, UlyssesExchangesQueriesKeysValuesAndContext) {
  RankShape shape = shape_of(1, false);
  shape.cp = 4;
  shape.context_parallel = ContextParallelKind::ulysses;
  const double head = 2 * (kTokens / 4) * kHeadDim;
  const RankGraph graph = layer_of(llama(), shape);
  const auto expected = ElementsAre(kHeads * head, kKvHeads * head, kKvHeads * head, kHeads * head);
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::forward), expected);
  EXPECT_THAT(sizes(graph, ParallelGroup::cp, Pass::dgrad), expected);
}

TEST(LayerCollectives, ExpertsExchangeTopKCopiesOfTheRanksTokens) {
  RankShape shape = shape_of(2, true);
  shape.ep = 4;
  const RankGraph graph = layer_of(mixture(), shape);
  const double copies = kTokens / 2 * 2;
  const double tokens = 2 * copies * 4096, probabilities = 4 * copies, counts = 8 * 8 * 4;
  EXPECT_THAT(sizes(graph, ParallelGroup::ep, Pass::forward),
              ElementsAre(counts, tokens, probabilities, tokens));
  EXPECT_THAT(sizes(graph, ParallelGroup::ep, Pass::dgrad),
              ElementsAre(tokens, tokens, probabilities));
  EXPECT_THAT(sizes(graph, ParallelGroup::etp, Pass::forward), IsEmpty());
}

/// Ranks that hold the experts of a token, on average over all choices of two of eight experts, two
/// on each of four ranks.
double ranks_of_two_experts() {
  int ranks = 0, choices = 0;
  for (int a = 0; a < 8; ++a) {
    for (int b = a + 1; b < 8; ++b, ++choices) ranks += a / 2 == b / 2 ? 1 : 2;
  }
  return static_cast<double>(ranks) / choices;
}

TEST(LayerCollectives, TokensGoOnceToEachRankOfTheirExperts) {
  RankShape shape = shape_of(2, true);
  shape.ep = 4;
  shape.dispatcher = TokenDispatcher::by_rank;
  const RankGraph graph = layer_of(mixture(), shape);
  const double copies = kTokens / 2 * ranks_of_two_experts();
  const double tokens = 2 * copies * 4096, probabilities = 4 * copies, counts = 8 * 8 * 4;
  EXPECT_THAT(sizes(graph, ParallelGroup::ep, Pass::forward),
              Pointwise(testing::DoubleNear(1), {counts, tokens, probabilities, tokens}));
  for (const CollectiveUse& use : graph.collectives) {
    if (use.collective.fan_out == 0) continue;
    EXPECT_EQ(use.collective.fan_out, 2);
    EXPECT_DOUBLE_EQ(use.collective.copies, ranks_of_two_experts());
  }
  // They are copied for the experts where they arrive.
  const Operator& permute = *find(graph, "permute", Pass::forward);
  EXPECT_NEAR(permute.bytes_read.value, tokens, 1);
  EXPECT_DOUBLE_EQ(permute.bytes_written.value, 2 * (kTokens / 2 * 2) * 4096);
  EXPECT_EQ(find(graph, "sort_tokens", Pass::forward), nullptr);
}

/// Ranks of `local` experts that hold one of the two experts of a token, on average over all
/// choices of two of four pairs of experts and then of two experts in them.
double ranks_of_two_groups(int local) {
  int ranks = 0, choices = 0;
  for (int a = 0; a < 4; ++a) {
    for (int b = a + 1; b < 4; ++b) {
      const int open[] = {2 * a, 2 * a + 1, 2 * b, 2 * b + 1};
      for (int i = 0; i < 4; ++i) {
        for (int j = i + 1; j < 4; ++j, ++choices)
          ranks += open[i] / local == open[j] / local ? 1 : 2;
      }
    }
  }
  return static_cast<double>(ranks) / choices;
}

TEST(LayerCollectives, NodeLimitedRoutingKeepsATokenToTheRanksOfItsGroups) {
  RankShape shape = shape_of(2, true);
  shape.dispatcher = TokenDispatcher::by_rank;
  ModelSpec model = mixture();
  for (LayerSpec& kind : model.layer_kinds) {
    if (!kind.moe) continue;
    kind.moe->groups = 4;
    kind.moe->top_groups = 2;
  }
  for (const int ep : {2, 4, 8}) {
    shape.ep = ep;
    for (const CollectiveUse& use : layer_of(model, shape).collectives) {
      if (use.collective.fan_out == 0) continue;
      EXPECT_NEAR(use.collective.copies, ranks_of_two_groups(8 / ep), 1e-12) << ep;
      EXPECT_EQ(use.collective.groups, 4);
      EXPECT_EQ(use.collective.top_groups, 2);
    }
  }
}

TEST(LayerOperators, FusedExpertsAreCastOnlyAtTheirEnds) {
  RankShape shape = shape_of(1, false);
  shape.gemm = GemmPrecision::mxfp8;
  const auto between = [&](bool fused) {
    shape.fuses_experts = fused;
    std::vector<std::string> found;
    for (const Operator& op : layer_of(mixture(), shape).operators) {
      const bool expert = op.part == Part::expert_fc1 || op.part == Part::expert_activation ||
                          op.part == Part::expert_fc2;
      if (expert && op.kind != OperatorKind::grouped_gemm)
        found.push_back(std::string(name(op.part)) + " " + std::string(op.label));
    }
    return found;
  };
  EXPECT_THAT(between(false), SizeIs(10));  // each way: two casts, an activation, two paddings
  EXPECT_THAT(between(true), testing::UnorderedElementsAre("expert_fc1 quantize_input",
                                                           "expert_fc2 quantize_gradient"));
}

// Oracle: bytes of `output + bias * probability` with fp32 probabilities, operation by operation:
// tests/published/megatron_traffic_test.cpp counts them in the real code.
TEST(LayerOperators, ExpertBiasesAreAddedInFp32) {
  ModelSpec model = mixture();
  const RankShape shape = shape_of(1, false);
  const RankGraph plain = layer_of(model, shape);
  model.layer_kinds[0].moe->bias = true;
  const RankGraph graph = layer_of(model, shape);
  const double elements = kTokens * 2 * 4096;
  EXPECT_DOUBLE_EQ(find(graph, "expert_bias", Pass::forward)->bytes().value,
                   (4 + (2 + 4 + 4) + (4 + 4) + (4 + 2)) * elements);
  EXPECT_DOUBLE_EQ(find(graph, "expert_bias", Pass::dgrad)->bytes().value,
                   ((2 + 4) + (4 + 2) + 2 * (4 + 4 + 4) + (2 + 2)) * elements);
  EXPECT_DOUBLE_EQ(graph.parameters.expert - plain.parameters.expert, 8 * (4096 + 2 * 14336));
  EXPECT_DOUBLE_EQ(graph.parameters.dense - plain.parameters.dense, 8);
}

TEST(LayerOperators, RowsOfExpertsArePaddedForEightBitProductsOnly) {
  RankShape shape = shape_of(1, false);
  const auto paddings = [&] {
    int found = 0;
    for (const Operator& op : layer_of(mixture(), shape).operators)
      found += op.label == "pad_rows" || op.label == "unpad_rows" ? 1 : 0;
    return found;
  };
  EXPECT_EQ(paddings(), 0);
  shape.gemm = GemmPrecision::mxfp8;
  EXPECT_EQ(paddings(), 4);
  shape.keeps_narrow = false;
  EXPECT_EQ(paddings(), 0);
}

// Oracle: cuDNN's MXFP8 backward takes four times as long for twice the keys under a window of 128,
// its forward and the one in bf16 twice (cudnn-frontend's benchmark of GPT-OSS attention).
TEST(LayerOperators, NarrowAttentionComesBackOverAllKeys) {
  ModelSpec model = llama();
  model.layer_kinds[0].attention.window = 128;
  RankShape shape = shape_of(1, false);
  const auto core = [&](Pass pass) {
    return *find(layer_of(model, shape), "core_attention", pass);
  };
  const auto window = [&](Pass pass) { return std::get<AttentionShape>(core(pass).shape).window; };
  EXPECT_EQ(window(Pass::dgrad), 128);
  const double forward = core(Pass::forward).flops.value;
  shape.narrow_attention = true;
  EXPECT_EQ(window(Pass::forward), 128);
  EXPECT_EQ(window(Pass::dgrad), 0);
  EXPECT_EQ(core(Pass::dgrad).input, DType::fp8_e4m3);
  EXPECT_EQ(core(Pass::forward).output, DType::bf16);
  EXPECT_DOUBLE_EQ(core(Pass::forward).flops.value, forward);
  model.layer_kinds[0].attention.window = 0;
  EXPECT_DOUBLE_EQ(core(Pass::dgrad).flops.value, 2.5 * core(Pass::forward).flops.value);
}

TEST(LayerCollectives, ExpertTensorParallelRanksPoolTheirTokens) {
  RankShape shape = shape_of(2, true);
  shape.etp = 2;
  const RankGraph graph = layer_of(mixture(), shape);
  const double pooled = kTokens / 2 * 2 * 2;  // T' top_k etp
  EXPECT_THAT(sizes(graph, ParallelGroup::etp, Pass::forward),
              ElementsAre(2 * pooled * 4096, 4 * pooled, 2 * pooled * 4096));
  EXPECT_EQ(gemm_of(graph, "expert_fc1", Pass::forward),
            (GemmShape{.m = 2048, .n = 14336, .k = 4096, .batch = 8}));
}

TEST(LayerCollectives, EveryOverlapNamesAnOperatorOfItsPass) {
  for (const auto& model : {llama(), latent_attention(), mixture(14336)}) {
    for (const bool sp : {true, false}) {
      for (const auto kernel : {AttentionKernel::fused, AttentionKernel::unfused}) {
        RankShape shape = shape_of(4, sp);
        shape.cp = 2;
        shape.attention = kernel;
        const RankGraph graph = layer_of(model, shape);
        for (const auto& use : graph.collectives) {
          if (use.behind_label.empty()) continue;
          const Operator* op = find(graph, use.behind_label, use.behind_pass);
          ASSERT_NE(op, nullptr) << use.behind_label;
          EXPECT_NE(op->kind, OperatorKind::quantize);
        }
      }
    }
  }
}

// ---- embedding and head

TEST(Head, UnfusedLossKeepsAnFp32SoftmaxBesideTheLogits) {
  RankShape shape = shape_of(8, true);
  shape.vocabulary = 131072;
  const RankGraph graph = head_graph(llama(), shape, false);
  const double x = 2 * kTokens * kHidden / 8, logits = 2 * kTokens * 131072 / 8;
  EXPECT_DOUBLE_EQ(saved(graph), 2 * x + 2 * logits);
  EXPECT_DOUBLE_EQ(graph.transient.value, 2 * kTokens * kHidden + logits);
}

TEST(Head, FusedLossOverwritesTheLogits) {
  RankShape shape = shape_of(8, true);
  shape.vocabulary = 131072;
  shape.loss = LossKernel::fused;
  const RankGraph graph = head_graph(llama(), shape, false);
  const double x = 2 * kTokens * kHidden / 8, logits = 2 * kTokens * 131072 / 8;
  EXPECT_DOUBLE_EQ(saved(graph), 2 * x + logits);
  EXPECT_DOUBLE_EQ(graph.transient.value, 2 * 2 * kTokens * kHidden + x);
}

TEST(Head, EagerLossOfAVocabularyInPartsFillsATensorMore) {
  RankShape shape = shape_of(1, false);
  shape.loss = LossKernel::eager_fp32;
  shape.vocabulary = 131072;
  const double cast = 4 * kTokens * 131072;  // the cast logits, as all tensors of the loss
  EXPECT_DOUBLE_EQ(head_graph(llama(), shape, false).transient.value, 2 * cast);
  shape.tp = 8;
  EXPECT_DOUBLE_EQ(head_graph(llama(), shape, false).transient.value, 3 * cast / 8);
  shape.gathers_logits = true;
  EXPECT_DOUBLE_EQ(head_graph(llama(), shape, false).transient.value, 2 * cast);
}

TEST(Head, GathersItsInputAndReducesTheLossThreeTimes) {
  EXPECT_THAT(described(head_graph(llama(), shape_of(8, true), false)),
              ElementsAre("all_gather head forward", "all_reduce loss forward x3",
                          "all_gather head dgrad behind head dgrad",
                          "reduce_scatter head dgrad behind head wgrad"));
}

TEST(Head, HoldsTheTableUnlessItIsTiedAndElsewhere) {
  ModelSpec model = llama();
  const double table = 128256 * kHidden;
  EXPECT_DOUBLE_EQ(head_graph(model, shape_of(1, false), false).parameters.dense, table + kHidden);
  model.tied_embeddings = true;
  EXPECT_DOUBLE_EQ(head_graph(model, shape_of(1, false), false).parameters.dense, kHidden);
  EXPECT_DOUBLE_EQ(head_graph(model, shape_of(1, false), true).parameters.dense, table + kHidden);
}

// Megatron-core 0.16.1 transformer/multi_token_prediction.py: two norms, a projection from twice
// the hidden size, a final norm; models/gpt/gpt_model.py: the output layer and the loss once more.
TEST(Prediction, ProjectsTheJoinedStatesAndRunsTheHeadOnceMore) {
  RankShape shape = shape_of(1, false);
  shape.vocabulary = 128256;
  const RankGraph graph = prediction_graph(llama(), shape, false);
  const auto h = static_cast<std::int64_t>(kHidden), tokens = static_cast<std::int64_t>(kTokens);
  EXPECT_EQ(gemm_of(graph, "joined_projection", Pass::forward),
            (GemmShape{.m = tokens, .n = h, .k = 2 * h}));
  EXPECT_EQ(gemm_of(graph, "head", Pass::wgrad),
            gemm_of(head_graph(llama(), shape, false), "head", Pass::wgrad));
  EXPECT_DOUBLE_EQ(graph.parameters.dense, 2 * kHidden * kHidden + 3 * kHidden);
  EXPECT_DOUBLE_EQ(prediction_graph(llama(), shape, true).parameters.dense - graph.parameters.dense,
                   128256.0 * kHidden);
}

TEST(Prediction, GathersTheProjectionsColumnsOverTensorParallelRanks) {
  const auto used = described(prediction_graph(llama(), shape_of(8, true), false));
  EXPECT_EQ(std::count(used.begin(), used.end(), "all_gather embedding forward"), 2);
  EXPECT_EQ(std::count(used.begin(), used.end(), "all_reduce loss forward x3"), 1);
}

TEST(Embedding, ScattersWhileItReducesUnlessPositionsFollow) {
  ModelSpec model = llama();
  EXPECT_THAT(described(embedding_graph(model, shape_of(8, true))),
              ElementsAre("reduce_scatter embedding forward", "all_gather embedding dgrad"));
  EXPECT_THAT(described(embedding_graph(model, shape_of(8, false))),
              ElementsAre("all_reduce embedding forward"));
  model.position = PositionKind::learned;
  model.learned_positions = 2048;
  const RankGraph graph = embedding_graph(model, shape_of(8, true));
  EXPECT_THAT(described(graph),
              ElementsAre("all_reduce embedding forward", "all_gather embedding dgrad"));
  // The position table is not split over TP.
  EXPECT_DOUBLE_EQ(graph.parameters.dense, 128256 / 8 * kHidden + 2048 * kHidden);
}

TEST(Embedding, KeepsIdsAndADropoutMask) {
  RankShape shape = shape_of(8, true);
  EXPECT_DOUBLE_EQ(saved(embedding_graph(llama(), shape)), 8 * kTokens);
  shape.hidden_dropout = 0.1;
  EXPECT_DOUBLE_EQ(saved(embedding_graph(llama(), shape)), 8 * kTokens + kTokens / 8 * kHidden);
}

TEST(PaddedVocabulary, IsAMultipleOfTheUnitOnEveryRank) {
  EXPECT_EQ(padded_vocabulary(50257, 128, 1), 50304);  // GPT-2's, as Megatron-LM pads it
  EXPECT_EQ(padded_vocabulary(50257, 128, 8), 51200);
  EXPECT_EQ(padded_vocabulary(51200, 128, 8), 51200);
  EXPECT_EQ(padded_vocabulary(1, 1, 1), 1);
}

}  // namespace
}  // namespace foreplan::models
