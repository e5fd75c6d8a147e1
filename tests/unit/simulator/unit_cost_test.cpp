// A unit costed by hand: one operator or two, a collective, launches.

#include "simulator/step/unit_cost.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace foreplan::simulator {
namespace {

Operator kernel(OperatorKind kind, Pass pass, Part part, std::string_view label, double flop = 0) {
  Operator op;
  op.kind = kind;
  op.pass = pass;
  op.part = part;
  op.label = label;
  op.flops = Flops{flop};
  return op;
}

/// fc1 and its activation: a GEMM forward and two backward, an elementwise kernel each way.
models::RankGraph small_graph() {
  models::RankGraph graph;
  graph.operators = {
      kernel(OperatorKind::gemm, Pass::forward, Part::fc1, "fc1", 100),
      kernel(OperatorKind::activation, Pass::forward, Part::activation, "act", 7),
      kernel(OperatorKind::activation, Pass::dgrad, Part::activation, "act", 7),
      kernel(OperatorKind::gemm, Pass::dgrad, Part::fc1, "fc1", 100),
      kernel(OperatorKind::gemm, Pass::wgrad, Part::fc1, "fc1", 100),
  };
  graph.saved = {{"input", Part::residual, Bytes{1000}, true},
                 {"fc1_output", Part::fc1, Bytes{300}, false},
                 {"activation_output", Part::activation, Bytes{20}, false}};
  graph.boundary = Bytes{1000};
  graph.transient = Bytes{50};
  graph.parameters = {.dense = 11, .expert = 13, .fp8_cached = 17, .tensors = {7, 4}};
  return graph;
}

class UnitCosting : public testing::Test {
 protected:
  UnitCosting() {
    cost_.gemm_s = 1e-3;
    cost_.bandwidth_s = 1e-4;
    cost_.collective_s = 4e-4;
    context_.cost = &cost_;
    context_.framework = &framework_;
    context_.groups.fill(GroupPlacement{8, 8, 1});
    context_.policies = policies_;
  }
  [[nodiscard]] UnitCost costed(const models::RankGraph& graph) const {
    return cost_unit(graph, context_);
  }
  /// The graph with one collective in a pass, hidden behind an operator where that is named.
  static models::RankGraph with_collective(ParallelGroup group, Pass pass,
                                           std::string_view behind = {},
                                           Pass behind_pass = Pass::wgrad, int count = 1) {
    models::RankGraph graph = small_graph();
    graph.collectives = {{{CollectiveKind::all_reduce, group, Bytes{64}},
                          pass,
                          Part::fc1,
                          behind,
                          behind_pass,
                          count}};
    return graph;
  }

  samples::FixedCost cost_;
  FrameworkTraits framework_ = samples::plain_framework();
  std::vector<RecomputePolicy> policies_ = {
      {},
      {RecomputeGranularity::full, 0, 0},
      {RecomputeGranularity::selective, part_bit(Part::activation), 0}};
  UnitContext context_;
};

TEST_F(UnitCosting, PassesAddTheirKernelsByKind) {
  const UnitCost unit = costed(small_graph());
  EXPECT_DOUBLE_EQ(unit.forward_s, 1.1e-3);
  EXPECT_DOUBLE_EQ(unit.backward_s, 2.1e-3);
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::gemm], 1e-3);
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::elementwise], 1e-4);
  EXPECT_DOUBLE_EQ(unit.backward[CostKind::gemm], 2e-3);
  EXPECT_DOUBLE_EQ(unit.forward.basis_s[static_cast<std::size_t>(Basis::measured)], 1.1e-3);
}

TEST_F(UnitCosting, ErrorsOfOneKindAddAndKindsAreIndependent) {
  const UnitCost unit = costed(small_graph());
  EXPECT_DOUBLE_EQ(unit.backward.error_s[static_cast<std::size_t>(CostKind::gemm)], 2 * 1e-4);
  EXPECT_DOUBLE_EQ(unit.backward.total_error_s(), std::hypot(2 * 1e-4, 3e-5));
}

TEST_F(UnitCosting, CountsAreTakenOver) {
  const UnitCost unit = costed(small_graph());
  EXPECT_EQ(unit.tensor_flops, 300);  // GEMMs and attention only
  EXPECT_EQ(unit.full_saved_bytes, 1320);
  EXPECT_EQ(unit.transient_bytes, 50);
  EXPECT_EQ(unit.dense_parameters, 11);
  EXPECT_EQ(unit.expert_parameters, 13);
  EXPECT_EQ(unit.fp8_copy_bytes, 0);
  context_.narrow_weight_bytes = 2;  // row-wise and column-wise copies of one byte
  EXPECT_EQ(costed(small_graph()).fp8_copy_bytes, 34);
}

TEST_F(UnitCosting, WeightGradientsArePartOfBackward) {
  EXPECT_DOUBLE_EQ(costed(small_graph()).weight_s, 1e-3);
  EXPECT_EQ(costed(small_graph()).split_s, 0);
  framework_.host_time_per_kernel_s = 1e-2;  // every kernel waits for its launch
  const UnitCost waiting = costed(small_graph());
  EXPECT_DOUBLE_EQ(waiting.weight_s, waiting.backward_s * (1e-3 / 2.1e-3));
}

TEST_F(UnitCosting, PuttingWeightGradientsOffExposesWhatTheyHide) {
  framework_.overlap_tp_backward = true;
  framework_.hidden_cost_fraction = 0.25;
  const auto beside = [&](Pass pass) {
    return costed(with_collective(ParallelGroup::tp, Pass::dgrad, "fc1", pass)).split_s;
  };
  EXPECT_DOUBLE_EQ(beside(Pass::wgrad), 0.75 * 4e-4);
  EXPECT_EQ(beside(Pass::dgrad), 0);
}

// Qi et al. 2024, section 2.3, table 1: the weight gradients of a layer need 32 s b h bytes.
TEST_F(UnitCosting, WeightGradientsHoldBothOperands) {
  models::ModelSpec model = samples::dense_model();
  models::LayerSpec layer = samples::dense_layer();
  layer.attention.kv_heads = layer.attention.heads;
  layer.ffn = models::FeedForwardSpec{.hidden = 4 * model.hidden,
                                      .activation = models::ActivationKind::gelu};
  models::RankShape shape;
  shape.micro_batch = 2;
  shape.sequence_length = 512;
  const double sbh = 512.0 * 2 * static_cast<double>(model.hidden);
  EXPECT_EQ(costed(models::layer_graph(model, layer, shape)).weight_held_bytes, 32 * sbh);
}

TEST_F(UnitCosting, ElementwiseTrafficScalesElementwiseKernelsOnly) {
  framework_.elementwise_traffic = 3;
  const UnitCost unit = costed(small_graph());
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::elementwise], 3e-4);
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::gemm], 1e-3);
}

// Twice the traffic is twice the time of the test's kernels, which take what their bytes take.
TEST_F(UnitCosting, WhatStandsBetweenExpertsOneByOneMovesMore) {
  models::RankGraph graph = small_graph();
  for (Operator& op : graph.operators) {
    if (op.part == Part::activation) op.part = Part::expert_activation;
  }
  framework_.elementwise_traffic = 1.3;
  const double fused = costed(graph).forward[CostKind::elementwise];
  context_.experts_one_by_one = true;
  EXPECT_DOUBLE_EQ(costed(graph).forward[CostKind::elementwise], fused * 2.1 / 1.3);
  EXPECT_DOUBLE_EQ(costed(small_graph()).forward[CostKind::elementwise], fused);
}

// Oracle: a cost model whose every GEMM takes one millisecond, whatever its size.
TEST_F(UnitCosting, ExpertsOneByOneTakeAsManyGemms) {
  models::RankGraph graph = small_graph();
  for (Operator& op : graph.operators) {
    if (op.kind != OperatorKind::gemm) continue;
    op.kind = OperatorKind::grouped_gemm;
    op.shape = GemmShape{.m = 64, .n = 32, .k = 16, .batch = 4};
  }
  const UnitCost together = costed(graph);
  context_.experts_one_by_one = true;
  const UnitCost one_by_one = costed(graph);
  EXPECT_DOUBLE_EQ(one_by_one.forward[CostKind::gemm], 4 * together.forward[CostKind::gemm]);
  EXPECT_DOUBLE_EQ(one_by_one.backward[CostKind::gemm], 4 * together.backward[CostKind::gemm]);
  EXPECT_DOUBLE_EQ(one_by_one.forward[CostKind::elementwise],
                   together.forward[CostKind::elementwise]);
  EXPECT_DOUBLE_EQ(one_by_one.tensor_flops, together.tensor_flops);
}

// Oracle: of 4 destinations chosen at random, 4 (1 - (3/4)^4) nodes of four are occupied.
TEST_F(UnitCosting, OneCopyOfATokenGoesToEachNode) {
  cost_.collective_s = 0;
  cost_.per_byte_s = 1;
  models::RankGraph graph = small_graph();
  Collective tokens{CollectiveKind::all_to_all, ParallelGroup::ep, Bytes{300}, 4, 3};
  const auto exchanged = [&](GroupPlacement placement) {
    context_.groups.fill(placement);
    graph.collectives = {{tokens, Pass::forward, Part::permute, {}, Pass::wgrad, 1}};
    return costed(graph).forward[CostKind::ep];
  };
  EXPECT_DOUBLE_EQ(exchanged({32, 32, 1}), 300) << "one node: a copy to each rank";
  EXPECT_DOUBLE_EQ(exchanged({32, 8, 1}), 100 * 4 * (1 - std::pow(0.75, 4)));
  tokens.fan_out = 0;
  EXPECT_DOUBLE_EQ(exchanged({32, 8, 1}), 300);
}

/// Nodes that hold one of two choices, on average: they fall at random into two of four groups that
/// are chosen at random, `per_node` groups to a node.
double nodes_of_two_groups(int per_node) {
  int nodes = 0, cases = 0;
  for (int a = 0; a < 4; ++a) {
    for (int b = a + 1; b < 4; ++b) {
      for (const int first : {a, b}) {
        for (const int second : {a, b}) {
          nodes += first / per_node == second / per_node ? 1 : 2;
          ++cases;
        }
      }
    }
  }
  return static_cast<double>(nodes) / cases;
}

// Oracle: all choices counted; on eight nodes two of a group's four halves are as good as four
// nodes, 4 (1 - (3/4)^2) of which are occupied.
TEST_F(UnitCosting, NodeLimitedRoutingSendsATokenToTheNodesOfItsGroups) {
  cost_.collective_s = 0;
  cost_.per_byte_s = 1;
  models::RankGraph graph = small_graph();
  const Collective tokens{CollectiveKind::all_to_all, ParallelGroup::ep, Bytes{200}, 2, 2, 4, 2};
  const auto exchanged = [&](int nodes) {
    context_.groups.fill({8 * nodes, 8, 1});
    graph.collectives = {{tokens, Pass::forward, Part::permute, {}, Pass::wgrad, 1}};
    return costed(graph).forward[CostKind::ep];
  };
  EXPECT_NEAR(exchanged(2), 100 * nodes_of_two_groups(2), 1e-9);
  EXPECT_NEAR(exchanged(4), 100 * nodes_of_two_groups(1), 1e-9);
  EXPECT_NEAR(exchanged(8), 100 * 4 * (1 - 0.75 * 0.75), 1e-9);
}

TEST_F(UnitCosting, HostThatLaunchesInTimeCostsLittle) {
  framework_.host_time_per_kernel_s = 1e-5;  // two launches: 20 us beside 1.1 ms
  const UnitCost unit = costed(small_graph());
  EXPECT_GT(unit.forward[CostKind::host], 0);
  EXPECT_LT(unit.forward[CostKind::host], 1e-4 * unit.forward_s);
}

TEST_F(UnitCosting, SlowHostSetsTheTime) {
  framework_.host_time_per_kernel_s = 0.1;
  EXPECT_NEAR(costed(small_graph()).forward_s, 0.2, 1e-6);
  EXPECT_NEAR(costed(small_graph()).backward_s, 0.3, 1e-6);
}

TEST_F(UnitCosting, HostAndDeviceCombineAsAFourNorm) {
  framework_.host_time_per_kernel_s = 0.5 * 1.1e-3;  // as long as the device in forward
  const UnitCost unit = costed(small_graph());
  EXPECT_NEAR(unit.forward_s, std::pow(2, 0.25) * 1.1e-3, 1e-15);
  const double host = 3 * 0.5 * 1.1e-3;
  EXPECT_NEAR(unit.backward_s, std::pow(std::pow(2.1e-3, 4) + std::pow(host, 4), 0.25), 1e-15);
}

TEST_F(UnitCosting, ExposedCollectiveAddsItsTimeToItsKind) {
  const UnitCost tp = costed(with_collective(ParallelGroup::tp, Pass::forward));
  EXPECT_DOUBLE_EQ(tp.forward[CostKind::tp], 4e-4);
  EXPECT_DOUBLE_EQ(tp.forward_s, 1.5e-3);
  EXPECT_DOUBLE_EQ(tp.backward_s, 2.1e-3);
  EXPECT_DOUBLE_EQ(costed(with_collective(ParallelGroup::ep, Pass::dgrad)).backward[CostKind::ep],
                   4e-4);
  EXPECT_DOUBLE_EQ(costed(with_collective(ParallelGroup::etp, Pass::dgrad)).backward[CostKind::ep],
                   4e-4);
  EXPECT_DOUBLE_EQ(costed(with_collective(ParallelGroup::cp, Pass::dgrad)).backward[CostKind::cp],
                   4e-4);
}

TEST_F(UnitCosting, TensorParallelCollectivesTakeTheirSkew) {
  framework_.tp_collective_skew = 1.5;
  EXPECT_DOUBLE_EQ(costed(with_collective(ParallelGroup::tp, Pass::forward)).forward[CostKind::tp],
                   6e-4);
  EXPECT_DOUBLE_EQ(costed(with_collective(ParallelGroup::cp, Pass::dgrad)).backward[CostKind::cp],
                   4e-4);
}

TEST_F(UnitCosting, ComputeBoundKernelsWaitForTheSlowestDevice) {
  context_.slowest = 1.1;
  const UnitCost unit = costed(small_graph());
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::gemm], 1.1e-3);
  EXPECT_DOUBLE_EQ(unit.forward[CostKind::elementwise], 1e-4);
}

TEST_F(UnitCosting, OverlapHidesACollectiveBehindItsOperator) {
  const auto graph = with_collective(ParallelGroup::tp, Pass::dgrad, "fc1");
  EXPECT_DOUBLE_EQ(costed(graph).backward[CostKind::tp], 4e-4);  // the framework does not overlap
  framework_.overlap_tp_backward = true;
  EXPECT_DOUBLE_EQ(costed(graph).backward[CostKind::tp], 0);
  framework_.hidden_cost_fraction = 0.25;
  EXPECT_DOUBLE_EQ(costed(graph).backward[CostKind::tp], 1e-4);
}

TEST_F(UnitCosting, WhatSticksOutOfTheOperatorIsExposed) {
  framework_.overlap_tp_backward = true;
  const auto thrice = with_collective(ParallelGroup::tp, Pass::dgrad, "fc1", Pass::wgrad, 3);
  EXPECT_NEAR(costed(thrice).backward[CostKind::tp], 3 * 4e-4 - 1e-3, 1e-15);
  framework_.hidden_cost_fraction = 0.25;
  EXPECT_NEAR(costed(thrice).backward[CostKind::tp], 3 * 4e-4 - 0.75 * 1e-3, 1e-15);
}

TEST_F(UnitCosting, ContextParallelOverlapIsATraitOfItsOwn) {
  const auto graph = with_collective(ParallelGroup::cp, Pass::dgrad, "fc1");
  framework_.overlap_tp_backward = true;
  EXPECT_DOUBLE_EQ(costed(graph).backward[CostKind::cp], 4e-4);
  framework_.overlap_cp = true;
  EXPECT_DOUBLE_EQ(costed(graph).backward[CostKind::cp], 0);
}

// Oracle: two pieces of a scatter, of which one is made while the other is sent: half of its
// product hides it. The gather is read by the product itself or, where its bytes are others, by a
// cast.
TEST_F(UnitCosting, AsynchronousTensorParallelismHidesAPieceBehindTheProductOfAnother) {
  context_.groups.fill(GroupPlacement{2, 2, 1});
  models::RankGraph graph = small_graph();
  Operator& product = graph.operators.front();
  product.shape = GemmShape{.m = 8, .n = 4, .k = 2};
  product.input = product.output = DType::bf16;
  const auto tp_s = [&](CollectiveKind kind, double bytes) {
    graph.collectives = {
        {{kind, ParallelGroup::tp, Bytes{bytes}}, Pass::forward, Part::fc1, {}, Pass::forward}};
    return costed(graph).forward[CostKind::tp];
  };
  const double gathered = 8 * 2 * 2, scattered = 8 * 4 * 2;
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::all_gather, gathered), 4e-4);
  framework_.keeps_gathered_input = framework_.overlap_tp_backward = true;
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::all_gather, gathered), 0);
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::all_gather, 2 * gathered), 4e-4);
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::reduce_scatter, scattered), cost_.bandwidth_s);
  cost_.gemm_s = 4e-4;  // half of it is less than the gather
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::all_gather, gathered), 2e-4);
  graph.operators.push_back(product);  // two products make what would be scattered
  EXPECT_DOUBLE_EQ(tp_s(CollectiveKind::reduce_scatter, scattered), 4e-4);
}

TEST_F(UnitCosting, NoPolicyRecomputesNothing) {
  const PolicyCost none = costed(small_graph()).policies[0];
  EXPECT_EQ(none.saved_bytes, 1320);
  EXPECT_EQ(none.recompute_s, 0);
  EXPECT_EQ(none.tensor_flops, 0);
}

TEST_F(UnitCosting, FullPolicyKeepsTheBorderAndRepeatsTheForward) {
  const UnitCost unit = costed(with_collective(ParallelGroup::tp, Pass::forward));
  const PolicyCost& full = unit.policies[1];
  EXPECT_EQ(full.saved_bytes, 1000);
  EXPECT_DOUBLE_EQ(full.recompute_s, unit.forward_s);
  EXPECT_DOUBLE_EQ(full.extra[CostKind::recompute], 1.1e-3);
  EXPECT_DOUBLE_EQ(full.extra[CostKind::tp], 4e-4);  // collectives repeat too
  EXPECT_EQ(full.tensor_flops, 100);
}

// Oracle: recomputation of a layer counted over gloo, torch 2.13: six of seven products and one of
// two reduce-scatters run again, none whose result backward does not read.
TEST_F(UnitCosting, FullPolicyMayEndWithTheLastTensorThatBackwardReads) {
  models::RankGraph graph = with_collective(ParallelGroup::tp, Pass::forward);
  const double before_s = costed(graph).policies[1].recompute_s;
  graph.operators.push_back(kernel(OperatorKind::gemm, Pass::forward, Part::fc2, "fc2", 100));
  graph.collectives.push_back(graph.collectives.front());
  graph.collectives.back().part = Part::fc2;
  EXPECT_GT(costed(graph).policies[1].recompute_s, before_s);
  framework_.recomputes_last_product = false;
  EXPECT_DOUBLE_EQ(costed(graph).policies[1].recompute_s, before_s);
  EXPECT_EQ(costed(graph).policies[1].tensor_flops, 100);
}

// Oracle: the same count: products that are rebuilt find their shared input gathered again, but
// what was scattered is kept.
TEST_F(UnitCosting, RebuildingByOperatorGathersInputsAgainThatWereNotKept) {
  models::RankGraph graph = small_graph();
  Collective gather{CollectiveKind::all_gather, ParallelGroup::tp, Bytes{1}};
  graph.collectives = {{gather, Pass::forward, Part::qkv, {}, Pass::forward}};
  gather.kind = CollectiveKind::reduce_scatter;
  graph.collectives.push_back({gather, Pass::forward, Part::fc2, {}, Pass::forward});
  policies_[2] = {RecomputeGranularity::selective, kEverySecondMatmul};
  EXPECT_EQ(costed(graph).policies[2].extra[CostKind::tp], 0);
  framework_.keeps_gathered_input = true;
  EXPECT_DOUBLE_EQ(costed(graph).policies[2].extra[CostKind::tp], 4e-4);
}

TEST_F(UnitCosting, SelectivePolicyRepeatsItsPartsAndDropsTheirTensors) {
  const PolicyCost selective = costed(small_graph()).policies[2];
  EXPECT_EQ(selective.saved_bytes, 1300);
  EXPECT_DOUBLE_EQ(selective.recompute_s, 1e-4);
  EXPECT_EQ(selective.tensor_flops, 0);
}

TEST(CostVectorTest, SumsTimesErrorsAndBases) {
  CostVector one, sum;
  one.add(CostKind::gemm, {2, 0.5, Basis::datasheet}, 3);
  EXPECT_EQ(one[CostKind::gemm], 6);
  EXPECT_EQ(one.total_error_s(), 3);
  sum.add(one, 2);
  sum.add(CostKind::tp, {8, 1, Basis::measured});
  EXPECT_EQ(sum.total_s(), 20);
  EXPECT_EQ(sum.total_error_s(), 10);  // hypot(6, 8)
  EXPECT_EQ(sum.basis_s[static_cast<std::size_t>(Basis::datasheet)], 12);
}

}  // namespace
}  // namespace foreplan::simulator
