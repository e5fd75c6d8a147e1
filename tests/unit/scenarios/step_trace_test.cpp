// The trace of a step, read back as a viewer reads it.

#include "scenarios/step_trace.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using nlohmann::json;

struct Slice {
  std::int64_t start = 0, end = 0;  ///< ns
  std::string category, name;
};

std::int64_t ns(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

/// One trace with its report.
struct Traced {
  simulator::StepReport report;
  json trace;
  std::map<std::pair<int, int>, std::vector<Slice>> threads;  ///< by pid and tid, in file order

  explicit Traced(const Flags& plan, const Flags& job = kLlama70B) {
    const Study study = planned(job, plan);
    report = study.model().explain(study.scenario().plan.value());
    trace = json::parse(step_trace(report, study));
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const std::int64_t start = ns(event.at("ts"));
      threads[{event.at("pid"), event.at("tid")}].push_back(
          {start, start + ns(event.at("dur")), event.at("cat"), event.at("name")});
    }
  }
};

const std::vector<Flags> kPlans = {
    {{"--tp", "8"}},
    {{"--tp", "8"}, {"--pp", "4"}},
    {{"--tp", "8"}, {"--pp", "2"}, {"--cp", "2"}, {"--global-batch", "64 sequences"}},
    {{"--tp", "4"}, {"--pp", "4"}, {"--vpp", "5"}, {"--recompute", "layernorm"}},
    {{"--tp", "8"}, {"--pp", "8"}, {"--schedule", "gpipe"}, {"--global-batch", "32 sequences"}},
    {{"--framework", "torchtitan"}, {"--tp", "8"}, {"--pp", "4"}, {"--vpp", "5"}},
    {{"--tp", "8"}, {"--pp", "4"}, {"--vpp", "2"}, {"--schedule", "zbv"}},
    {{"--tp", "8"}, {"--pp", "4"}, {"--schedule", "dualpipe"}},
};

class StepTrace : public ::testing::TestWithParam<Flags> {};

TEST_P(StepTrace, HasAProcessPerStageAndNamesEveryThreadOnce) {
  const Traced traced(GetParam());
  std::map<int, std::string> processes, threads;
  for (const json& event : traced.trace.at("traceEvents")) {
    if (event.at("name") == "process_name") {
      EXPECT_TRUE(processes.emplace(event.at("pid"), event.at("args").at("name")).second);
    }
    if (event.at("name") == "thread_name") {
      EXPECT_TRUE(threads.emplace(event.at("tid"), event.at("args").at("name")).second)
          << "a thread id may stand in one process only";
    }
  }
  EXPECT_EQ(processes.size(), traced.report.stages.size());
  for (const auto& [key, slices] : traced.threads) {
    EXPECT_TRUE(processes.contains(key.first));
    EXPECT_TRUE(threads.contains(key.second));
  }
}

TEST_P(StepTrace, EventsComeInOrderOfTime) {
  const Traced traced(GetParam());
  std::int64_t last = 0;
  for (const json& event : traced.trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    const std::int64_t at = ns(event.at("ts"));
    ASSERT_GE(at, last) << event.dump();
    last = at;
  }
}

// Viewers draw a slice inside the one that encloses it; two that cross cannot be drawn.
TEST_P(StepTrace, SlicesOfAThreadNestOrFollowEachOther) {
  const Traced traced(GetParam());
  for (const auto& [key, slices] : traced.threads) {
    std::vector<std::int64_t> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back() <= slice.start) open.pop_back();
      ASSERT_TRUE(open.empty() || slice.end <= open.back())
          << "thread " << key.second << ": " << slice.name << " at " << slice.start << " ns";
      open.push_back(slice.end);
    }
  }
}

TEST_P(StepTrace, TimesOfAStageAddUpToTheStepAndDoNotOverlap) {
  const Traced traced(GetParam());
  const double whole_s = traced.trace.at("otherData").at("traced_s");
  std::map<int, std::vector<Slice>> stages;
  for (const auto& [key, slices] : traced.threads) {
    for (const Slice& slice : slices)
      if (slice.category == "time") stages[key.first].push_back(slice);
  }
  ASSERT_EQ(stages.size(), traced.report.stages.size());
  for (auto& [pid, slices] : stages) {
    std::sort(slices.begin(), slices.end(),
              [](const Slice& a, const Slice& b) { return a.start < b.start; });
    std::int64_t sum = 0, now = 0;
    for (const Slice& slice : slices) {
      ASSERT_GE(slice.start, now) << slice.name;
      now = slice.end;
      sum += slice.end - slice.start;
    }
    // Slices that round to nothing, and half a nanosecond at each border of waiting.
    const double rounding_s = 1e-9 * static_cast<double>(slices.size());
    EXPECT_NEAR(static_cast<double>(sum) * 1e-9, whole_s, rounding_s) << "stage " << pid - 1;
  }
}

TEST_P(StepTrace, SlicesOfTheBusiestStageAddUpToTheBreakdown) {
  const Traced traced(GetParam());
  std::map<std::string, double> sum;
  double slices_seen = 0;
  for (const auto& [key, slices] : traced.threads) {
    if (key.first != traced.report.time.critical_stage + 1) continue;
    for (const Slice& slice : slices) {
      if (slice.category != "time") continue;
      sum[slice.name] += static_cast<double>(slice.end - slice.start) * 1e-9;
      ++slices_seen;
    }
  }
  for (int k = 0; k < simulator::kCostKindCount; ++k) {
    const auto kind = static_cast<simulator::CostKind>(k);
    if (kind == simulator::CostKind::bubble) continue;
    if (kind == simulator::CostKind::pp && traced.report.time.transfer_hidden) continue;
    // The model has no experts whose traffic a forward and a backward could hide.
    EXPECT_NEAR(sum[std::string(name(kind))], traced.report.time.cost[kind], 1e-9 * slices_seen)
        << name(kind);
  }
}

TEST_P(StepTrace, EveryFlowLeadsFromASendToLaterWork) {
  const Traced traced(GetParam());
  std::map<int, json> sent, received;
  for (const json& event : traced.trace.at("traceEvents")) {
    if (event.at("ph") != "s" && event.at("ph") != "f") continue;
    auto& side = event.at("ph") == "s" ? sent : received;
    EXPECT_TRUE(side.emplace(event.at("id"), event).second);
  }
  // Each micro-batch crosses every border between chunks on different stages once each way. A V
  // turns on one stage; where two ranks hold every stage, each copy works through half of them.
  const auto& plan = traced.report.plan;
  const auto& schedule = simulator::schedule_of(plan);
  const auto worked = simulator::worked_shape(
      schedule, {plan.pp, plan.vpp, static_cast<int>(traced.report.time.micro_batches)});
  const int turns = schedule.placement == simulator::ChunkPlacement::v_shaped ? 1 : 0;
  const int borders = plan.pp > 1 ? worked.pp * worked.vpp - 1 - turns : 0;
  EXPECT_EQ(sent.size(), static_cast<std::size_t>(2 * borders) *
                             static_cast<std::size_t>(traced.report.time.micro_batches));
  ASSERT_EQ(sent.size(), received.size());
  const auto begins_a_slice = [&](const json& event) {
    const auto& slices = traced.threads.at({event.at("pid"), event.at("tid")});
    return std::any_of(slices.begin(), slices.end(), [&](const Slice& slice) {
      return slice.start == ns(event.at("ts")) && slice.end > slice.start;
    });
  };
  int looked_at = 0;
  for (const auto& [id, start] : sent) {
    const json& end = received.at(id);
    ASSERT_GE(ns(end.at("ts")), ns(start.at("ts")));
    ASSERT_NE(end.at("pid"), start.at("pid"));
    ASSERT_EQ(end.at("bp"), "e");
    if (++looked_at > 200) continue;  // the search below is slow
    EXPECT_TRUE(begins_a_slice(start)) << start.dump();
    EXPECT_TRUE(begins_a_slice(end)) << end.dump();
  }
}

TEST_P(StepTrace, CountsTheMemoryOfEveryStageUpToThePeak) {
  const Traced traced(GetParam());
  std::map<int, double> highest;
  for (const json& event : traced.trace.at("traceEvents")) {
    if (event.at("ph") != "C") continue;
    double& most = highest[event.at("pid")];
    most = std::max(most, event.at("args").at("GiB").get<double>());
  }
  ASSERT_EQ(highest.size(), traced.report.stages.size());
  double peak = 0;
  for (const auto& [pid, most] : highest) peak = std::max(peak, most);
  EXPECT_NEAR(peak, traced.report.memory.device_total() / kGiB, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Plans, StepTrace, ::testing::ValuesIn(kPlans));

TEST(StepTraceFacts, SayWhatWasAskedAndAnswered) {
  const Traced traced(Flags{{"--tp", "8"}, {"--pp", "4"}});
  const json& facts = traced.trace.at("otherData");
  EXPECT_EQ(facts.at("plan"), to_text(traced.report.plan));
  EXPECT_EQ(facts.at("step_time_s"), traced.report.time.step_time_s);
  EXPECT_EQ(facts.at("scenario"), "llama3-70b on 8x8xH100-SXM5-80GB");
}

}  // namespace
}  // namespace foreplan::scenarios
