// Hybrids of state-space, attention and feed-forward layers under a plan.

#include "models/catalogue.hpp"
#include "simulator/plan/stage_layout.hpp"
#include "simulator/plan/validity.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foreplan::simulator {
namespace {

using testing::HasSubstr;

models::ModelSpec super() {
  auto model = models::find_model("nemotron-3-super");
  EXPECT_TRUE(model.has_value());
  return model ? std::move(*model) : models::ModelSpec{};
}

TEST(HybridModel, StagesHoldTheLayersOfTheirPartOfThePattern) {
  // MEMEMEM*EMEMEMEM*EMEMEM | EM*EMEMEMEMEM*EMEMEMEM | EM*EMEMEMEMEM*EMEMEMEM |
  // EM*EMEMEM*EMEMEMEME, the last one layer shorter; kinds in the order M, E, *.
  const models::ModelSpec model = super();
  const auto stages = stage_layout(model, 4, 1);
  std::array<int, 3> sum{};
  for (const StageLayers& stage : stages) {
    for (std::size_t kind = 0; kind < 3; ++kind) sum[kind] += stage.repeats * stage.layers[kind];
  }
  EXPECT_EQ(sum, (std::array<int, 3>{40, 40, 8}));
  EXPECT_EQ(stages.front().layers[2], 2);
}

TEST(HybridModel, TheModuleForFurtherTokensIsAttentionAndExperts) {
  const models::ModelSpec model = super();
  const auto plain = stage_layout(model, 1, 1);
  const auto further = stage_layout(model, 1, 1, TrainingSetup{.mtp_depth = 2, .chunks = {}});
  EXPECT_EQ(further.front().layers[0], plain.front().layers[0]);
  EXPECT_EQ(further.front().layers[1], plain.front().layers[1] + 2);
  EXPECT_EQ(further.front().layers[2], plain.front().layers[2] + 2);
}

// Megatron-LM core/ssm/mamba_mixer.py: ngroups (8) must be evenly divisible by tp_size;
// mamba_context_parallel.py: nheads (128) by tp_size * cp_size.
TEST(HybridModel, GroupsAndHeadsOfStateSpacesBoundTheDegrees) {
  const models::ModelSpec model = super();
  const ClusterSpec cluster = samples::cluster();
  Job job{&model, &cluster, {}};
  job.training.sequence_length = 8192;
  job.training.global_batch = 64;
  ParallelPlan plan;
  plan.sequence_parallel = true;
  plan.tp = 16;
  plan.dp = 1;
  EXPECT_EQ(violated(plan, job) == Rule::state_space_splits, cluster.devices() >= 16);
  EXPECT_THAT(explain(Rule::state_space_splits, plan, job), HasSubstr("128 heads in 8 groups"));
  plan.tp = 2;
  EXPECT_NE(violated(plan, job), Rule::state_space_splits);
}

}  // namespace
}  // namespace foreplan::simulator
