// What a framework does around its collectives: host time and copies, and the optimizer's traffic.

#include "simulator/plan/stage_layout.hpp"
#include "simulator/schedule/schedule.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace foreplan::simulator {
namespace {

/// Collectives take 0.4 ms, copies and the optimizer their bytes at 1 GB/s, nothing else any time.
class CopiesByTheByte final : public CostModel {
 public:
  [[nodiscard]] std::string name() const override { return "copies"; }
  [[nodiscard]] std::string body_json() const override { return "{}"; }
  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    const bool counts = op.kind == OperatorKind::copy || op.kind == OperatorKind::optimizer;
    return {counts ? op.bytes().value / 1e9 : 0, 0, Basis::measured};
  }
  [[nodiscard]] Estimate collective_cost(const Collective& /*collective*/,
                                         const GroupPlacement& placement) const override {
    return {placement.size > 1 ? 4e-4 : 0, 0, Basis::measured};
  }
};

class CollectiveSurroundings : public testing::Test {
 protected:
  [[nodiscard]] PipelineCosts costs(const ParallelPlan& plan) const {
    const Job job{&model_, &cluster_, samples::training()};
    const StepModel step(job, cost_, std::span(&framework_, 1), {RecomputePolicy{}});
    PipelineCosts pipeline;
    layout_ = stage_layout(model_, plan.pp, plan.vpp);
    step.pipeline_costs(plan, step.shard_costs(plan), layout_, pipeline);
    return pipeline;
  }
  [[nodiscard]] double step_s(const ParallelPlan& plan) const {
    const Job job{&model_, &cluster_, samples::training()};
    return StepModel(job, cost_, std::span(&framework_, 1), {RecomputePolicy{}})
        .explain(plan)
        .time.step_time_s;
  }
  static ParallelPlan data_parallel() {
    ParallelPlan plan;
    plan.dp = 2;
    return plan;
  }

  models::ModelSpec model_ = samples::dense_model();
  ClusterSpec cluster_ = samples::cluster();
  FrameworkTraits framework_ = samples::plain_framework();
  CopiesByTheByte cost_;
  mutable std::vector<StageLayers> layout_;
};

TEST_F(CollectiveSurroundings, HostTimeOfADataParallelCollectiveIsAddedOncePerCollective) {
  const PipelineCosts before = costs(data_parallel());
  framework_.dp_collective_host_s = 1e-3;
  const PipelineCosts after = costs(data_parallel());
  EXPECT_NEAR(after.stages[0].reduce_s - before.stages[0].reduce_s, 1e-3, 1e-12);
  EXPECT_NEAR(after.layer_traffic[0].gather_s, 4e-4 + 1e-3, 1e-12);
}

TEST_F(CollectiveSurroundings, CopiesReadAndWriteTheWholeUnit) {
  framework_.gather_copies = 1;
  framework_.reduce_copies = 3;
  const PipelineCosts pipeline = costs(data_parallel());
  const Job job{&model_, &cluster_, samples::training()};
  const StepModel step(job, cost_, std::span(&framework_, 1), {RecomputePolicy{}});
  const double parameters = step.shard_costs(data_parallel()).layers[0].dense_parameters;
  const StateRules& rules = framework_.states;
  EXPECT_NEAR(pipeline.layer_traffic[0].gather_s,
              4e-4 + 2 * rules.parameter_bytes * parameters / 1e9, 1e-9);
  EXPECT_NEAR(pipeline.layer_traffic[0].scatter_s,
              4e-4 + 3 * 2 * rules.gradient_bytes * parameters / 1e9, 1e-9);
}

TEST_F(CollectiveSurroundings, AGroupOfOneNeitherWaitsNorCopies) {
  const double before = step_s({});
  framework_.dp_collective_host_s = framework_.tp_collective_host_s = 1;
  framework_.gather_copies = framework_.reduce_copies = 5;
  EXPECT_DOUBLE_EQ(step_s({}), before);
}

TEST_F(CollectiveSurroundings, HostTimeOfATensorParallelCollectiveIsAddedForEveryLayerAndPass) {
  ParallelPlan plan;
  plan.tp = 2;
  const double before = step_s(plan);
  framework_.tp_collective_host_s = 1e-3;
  const auto rounds = static_cast<double>(samples::training().global_batch);
  // Two forward and two backward per layer; embedding 1, head input gradient 1, loss 3.
  const double expected = rounds * (4.0 * model_.layer_count() + 5) * 1e-3;
  EXPECT_NEAR(step_s(plan) - before, expected, 1e-6 * expected);
}

// Exchanges of tokens, 0.4 ms each, hide behind GEMMs of another micro-batch's other pass but for
// the framework's share.
class ExpertTraffic : public CollectiveSurroundings {
 protected:
  ExpertTraffic() {
    gemms_.gemm_s = 1e-3;
    gemms_.collective_s = 4e-4;
    model_ = samples::expert_model();
    framework_.hidden_cost_fraction = 0.25;
  }
  [[nodiscard]] double exposed_s(int pp, int vpp) const {
    ParallelPlan plan;
    plan.pp = pp;
    plan.dp = plan.ep = 2;
    plan.vpp = vpp;
    plan.schedule = static_cast<std::uint8_t>(default_schedule(vpp));
    const Job job{&model_, &cluster_, samples::training()};
    const StepReport report =
        StepModel(job, gemms_, std::span(&framework_, 1), {RecomputePolicy{}}).explain(plan);
    EXPECT_NEAR(report.time.cost.total_s(), report.time.step_time_s, 1e-12);
    return report.time.cost[CostKind::ep];
  }
  samples::FixedCost gemms_;
};

// 32 micro-batches in two chunks: the last stage, which has most to do, runs three of its 64
// forward passes before its first backward pass (two, and one more for the overlap).
TEST_F(ExpertTraffic, HidesBesideTheOtherPassOnceAnInterleavedPipelineIsWarm) {
  const double all = exposed_s(2, 2), without_chunks = exposed_s(2, 1);
  EXPECT_GT(all, 0);
  framework_.overlap_ep_interleaved = true;
  EXPECT_NEAR(exposed_s(2, 2), (1 - 0.75 * 61 / 64) * all, 1e-12);
  EXPECT_DOUBLE_EQ(exposed_s(2, 1), without_chunks);
}

// Without stages the first forward and the last backward of 32 micro-batches are alone.
TEST_F(ExpertTraffic, HidesBesideTheNextMicroBatchInThePrecisionsThatAreNamed) {
  const double all = exposed_s(1, 1);
  framework_.overlap_ep_unpipelined = {Precision::fp8};
  EXPECT_DOUBLE_EQ(exposed_s(1, 1), all);
  framework_.overlap_ep_unpipelined = {Precision::fp8, Precision::bf16};
  EXPECT_NEAR(exposed_s(1, 1), (1 - 0.75 * 31 / 32) * all, 1e-12);
}

TEST_F(ExpertTraffic, IsNotHiddenWhereMegatronRefuses) {
  framework_.overlap_ep_interleaved = true;
  framework_.overlap_ep_unpipelined = {Precision::bf16};
  ParallelPlan alone, staged;
  alone.ep = staged.ep = 2;
  staged.pp = staged.vpp = 2;
  EXPECT_TRUE(overlaps_experts(framework_, alone, 0));
  EXPECT_FALSE(overlaps_experts(framework_, alone, 1));
  EXPECT_TRUE(overlaps_experts(framework_, staged, 1));
  EXPECT_FALSE(overlaps_experts(framework_, staged, 2));
  staged.recompute.granularity = RecomputeGranularity::full;
  EXPECT_FALSE(overlaps_experts(framework_, staged, 0));
  alone.ep = 1;
  EXPECT_FALSE(overlaps_experts(framework_, alone, 0));
}

TEST_F(CollectiveSurroundings, WithoutAMasterCopyTheOptimizerReadsTheParameterItself) {
  framework_.states = {
      .parameter_bytes = 4, .gradient_bytes = 4, .master_bytes = 0, .moment_bytes = 8};
  const PipelineCosts pipeline = costs({});
  const StageCost& stage = pipeline.stages[0];
  // Read: gradient 4, parameter 4, moments 8; written: parameter 4, moments 8.
  EXPECT_NEAR(stage.optimizer_s[0], 28 * stage.dense_parameters / 1e9, 1e-9);
  // The norm reads the gradients once more.
  EXPECT_NEAR(stage.passes_s[0], 4 * stage.dense_parameters / 1e9, 1e-9);
}

TEST_F(CollectiveSurroundings, GradientBuffersAreZeroedWholeAndScaledBeforeTheyAreAveraged) {
  framework_.states.gradient_bytes = 4;
  ParallelPlan alone, plan = data_parallel();
  plan.zero = ZeroStage::optimizer;
  const StageCost before = costs(plan).stages[0], single = costs(alone).stages[0];
  framework_.zeroes_gradients = framework_.scales_gradients = true;
  const StageCost after = costs(plan).stages[0];
  const double parameters = after.dense_parameters;
  for (const bool sharded : {false, true}) {  // the buffer is whole on every rank
    EXPECT_NEAR(after.passes_s[sharded] - before.passes_s[sharded], (4 + 2 * 4) * parameters / 1e9,
                1e-9);
  }
  EXPECT_NEAR(costs(alone).stages[0].passes_s[0] - single.passes_s[0], 4 * parameters / 1e9, 1e-9)
      << "one rank averages nothing";
}

}  // namespace
}  // namespace foreplan::simulator
