// Reports as JSON: complete, and equal to what they describe.

#include "scenarios/describe.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

#include <set>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;

TEST(Describe, SpellsAPlanAsScenarioFilesDo) {
  const Study study = planned(
      kLlama70B,
      {{"--tp", "4"}, {"--pp", "4"}, {"--vpp", "5"}, {"--recompute", "full:2"}, {"--zero", "0"}});
  const auto plan = describe(study.scenario().plan.value(), study);
  EXPECT_EQ(
      plan.dump(),
      R"({"gpus":64,"tp":4,"pp":4,"vpp":5,"dp":4,"cp":1,"ep":1,"etp":1,"sequence_parallel":true,"dp_replicate":1,"zero":0,)"
      R"("micro_batch":1,"micro_batch_group":0,"recompute":"full:2","precision":"bf16","offload_optimizer":0.0,)"
      R"("offload_parameters":0.0,"offload_activations":0.0,"schedule":"interleaved","framework":"megatron-core"})");
}

TEST(Describe, AddsUpToTheTotals) {
  const Study study = planned(kLlama70B, {{"--tp", "8"}, {"--pp", "4"}, {"--micro-batch", "2"}});
  const auto report = study.model().explain(study.scenario().plan.value());
  const auto out = describe(report, study);
  double seconds = 0, shares = 0, bytes = 0;
  for (const auto& [kind, value] : out["breakdown"].items()) seconds += value.get<double>();
  for (const auto& [basis, value] : out["basis_fraction"].items()) shares += value.get<double>();
  const std::set<std::string> totals = {"stage", "allocated_bytes", "reserved_bytes",
                                        "device_total_bytes"};
  for (const auto& [part, value] : out["memory"].items())
    bytes += totals.contains(part) ? 0 : value.get<double>();
  EXPECT_NEAR(seconds, report.time.step_time_s, 1e-9 * seconds);
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_NEAR(bytes, report.memory.device_total(), 1e-9 * bytes);
  ASSERT_EQ(out["stages"].size(), 4u);
  int layers = 0;
  double fullest = 0;
  for (const auto& stage : out["stages"]) {
    layers += stage["layers"].get<int>();
    fullest = std::max(fullest, stage["memory"]["device_total_bytes"].get<double>());
  }
  EXPECT_EQ(layers, 80);
  EXPECT_EQ(fullest, report.memory.device_total());
}

TEST(Describe, SaysOnWhatTheNearestFitRests) {
  const Study study = planned(kLlama70B, {{"--tp", "8"}, {"--pp", "4"}});
  const auto report = study.model().explain(study.scenario().plan.value());
  const auto out = describe(NearestFit{report, 128, true, true}, study);
  EXPECT_EQ(out["more_gpus"], true);
  EXPECT_EQ(out["assumed_network"], true);
  EXPECT_EQ(out["step_time_s"], report.time.step_time_s);
}

TEST(PlanKey, IsDifferentForDifferentPlans) {
  const std::vector<Flags> plans = {{{"--tp", "8"}},
                                    {{"--tp", "4"}},
                                    {{"--tp", "8"}, {"--pp", "2"}},
                                    {{"--tp", "8"}, {"--cp", "2"}},
                                    {{"--tp", "8"}, {"--pp", "2"}, {"--vpp", "2"}},
                                    {{"--tp", "8"}, {"--micro-batch", "2"}},
                                    {{"--tp", "8"}, {"--zero", "0"}},
                                    {{"--tp", "8"}, {"--dp-replicate", "2"}},
                                    {{"--tp", "8"}, {"--sequence-parallel", "false"}},
                                    {{"--tp", "8"}, {"--recompute", "full"}},
                                    {{"--tp", "8"}, {"--recompute", "full:1"}},
                                    {{"--tp", "8"}, {"--precision", "fp8"}},
                                    {{"--tp", "8"}, {"--schedule", "gpipe"}},
                                    {{"--tp", "8"}, {"--gpus", "32"}},
                                    {{"--tp", "8"}, {"--framework", "torchtitan"}}};
  std::set<std::string> keys;
  for (const Flags& flags : plans) {
    const Study study = planned(kLlama70B, flags);
    keys.insert(plan_key(study.scenario().plan.value(), study));
  }
  EXPECT_EQ(keys.size(), plans.size());
}

}  // namespace
}  // namespace foreplan::scenarios
