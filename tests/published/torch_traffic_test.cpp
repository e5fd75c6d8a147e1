// Bytes on the wire against what FSDP2 sent between four real processes
// (scripts/make_torch_traffic.py, tests/data/torch_traffic).

#include "models/hf_config.hpp"
#include "simulator/step/step_model.hpp"
#include "tests/published/golden_rows.hpp"
#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace foreplan::simulator {
namespace {

const std::string kData = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/";

struct Row {
  std::string collective;
  double bytes = 0;
  int ranks = 0, times = 0;
};

std::vector<Row> counted(int replicas, int shards) {
  std::vector<Row> rows;
  for (const auto& fields : golden_rows(kData + "torch_traffic/fsdp2.csv")) {
    if (std::stoi(fields.at(0)) != replicas || std::stoi(fields.at(1)) != shards) continue;
    rows.push_back(
        {fields.at(2), std::stod(fields.at(3)), std::stoi(fields.at(4)), std::stoi(fields.at(5))});
  }
  return rows;
}

/// A byte a second, and nothing else takes time.
class BytesAsSeconds final : public CostModel {
 public:
  mutable std::vector<std::tuple<std::string, double, int>> sent;

  [[nodiscard]] std::string name() const override { return "bytes"; }
  [[nodiscard]] std::string body_json() const override { return "{}"; }
  [[nodiscard]] Estimate operator_cost(const Operator& /*op*/) const override {
    return {0, 0.1, Basis::measured};
  }
  [[nodiscard]] Estimate collective_cost(const Collective& collective,
                                         const GroupPlacement& placement) const override {
    sent.emplace_back(name(collective.kind), collective.size.value, placement.size);
    constexpr double kGradientNorm = 4;  // no part of forward and backward
    const bool sends = placement.size > 1 && collective.size.value != kGradientNorm;
    return {sends ? collective.size.value : 0, 0.1, Basis::measured};
  }

 private:
  static std::string name(CollectiveKind kind) { return std::string(foreplan::name(kind)); }
};

void compare(int replicas, int shards) {
  const auto model = models::read_hf_config(kData + "torch_counts/llama_gqa.json");
  ASSERT_TRUE(model) << to_text(model.error());
  auto framework = find_framework("torchtitan");
  ASSERT_TRUE(framework) << to_text(framework.error());
  // One collective after the other, so that their times add up.
  framework->overlap_grad_reduce = framework->overlap_param_gather = false;
  framework->replica_reduction = ReplicaReduction::in_line;
  framework->host_time_per_kernel_s = 0;
  const std::vector<FrameworkTraits> frameworks = {*framework};
  const ClusterSpec cluster = samples::cluster(1);
  TrainingSetup training = samples::training(4);
  training.sequence_length = 32;
  const BytesAsSeconds cost;
  const StepModel step({&*model, &cluster, training}, cost, frameworks, {{}});
  ParallelPlan plan;
  plan.dp = replicas * shards;
  plan.dp_replicate = replicas;
  plan.zero = ZeroStage::parameters;

  double total = 0;
  const double step_time_s = step.explain(plan).time.step_time_s;
  for (const Row& row : counted(replicas, shards)) {
    total += row.bytes * row.times;
    bool found = false;
    for (const auto& sent : cost.sent)
      found = found || sent == std::tuple(row.collective, row.bytes, row.ranks);
    EXPECT_TRUE(found) << row.collective << " of " << row.bytes << " bytes over " << row.ranks;
  }
  EXPECT_GT(total, 0);
  EXPECT_NEAR(step_time_s, total, 1e-9 * total);
}

TEST(TorchTraffic, FullShardingSendsWhatIsPriced) { compare(1, 4); }

TEST(TorchTraffic, HybridShardingSendsWhatIsPriced) { compare(2, 2); }

}  // namespace
}  // namespace foreplan::simulator
