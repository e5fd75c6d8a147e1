#include "scenarios/plan_columns.hpp"

#include "scenarios/answers/scored_plans.hpp"
#include "scenarios/runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace foreplan::scenarios {
namespace {

Study llama_study() {
  const std::vector<GivenOption> none;
  return Study::make(read_scenario(FOREPLAN_SOURCE_DIR "/scenarios/llama3-8b-8xh100.yaml", none,
                                   Purpose::search)
                         .value())
      .value();
}

TEST(PlanColumnsTest, HoldThePlansOfTheSearchByIndex) {
  const Study study = llama_study();
  const PlanColumns columns = score_plans(study, 2);
  const auto result = study.search().run(study.search_options(1));
  ASSERT_EQ(columns.size(), result.counters.scored);
  EXPECT_TRUE(std::is_sorted(columns.index.begin(), columns.index.end()));
  EXPECT_EQ(std::count(columns.fits.begin(), columns.fits.end(), 1),
            static_cast<std::ptrdiff_t>(result.counters.feasible));
  const PlanNames names(study.model());
  for (const auto& best : result.top.sorted()) {
    const auto at = std::lower_bound(columns.index.begin(), columns.index.end(), best.index);
    ASSERT_TRUE(at != columns.index.end() && *at == best.index);
    const auto i = static_cast<std::size_t>(at - columns.index.begin());
    EXPECT_EQ(columns.step_time_s[i], best.step_time_s);
    EXPECT_EQ(columns.peak_memory_bytes[i], best.peak_bytes);
    EXPECT_EQ(columns.dp[i], best.plan.dp);
    EXPECT_EQ(columns.zero[i], number(best.plan.zero));
    EXPECT_EQ(columns.dp_replicate[i], best.plan.dp_replicate);
    const auto text = [&](const std::vector<std::string>& list, std::int32_t code) {
      return list.at(static_cast<std::size_t>(code));
    };
    EXPECT_EQ(text(names.recompute, columns.recompute[i]), to_text(best.plan.recompute));
    EXPECT_EQ(text(names.precision, columns.precision[i]), name(best.plan.precision));
  }
}

TEST(PlanColumnsTest, CodesOfRecomputeNameEveryDepth) {
  const Study study = llama_study();
  const PlanColumns columns = score_plans(study, 1);
  const PlanNames names(study.model());
  std::set<std::string> seen;
  for (const std::int32_t code : columns.recompute)
    seen.insert(names.recompute.at(static_cast<std::size_t>(code)));
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"none", "full", "full:1", "full:31"}));
  for (const std::string& text : seen)
    EXPECT_EQ(to_text(simulator::parse_recompute(text).value()), text);
}

TEST(ShardTest, EveryChunkIsInExactlyOne) {
  for (const int count : {1, 2, 7, 200}) {
    std::vector<int> holders(128, 0);
    for (int number = 1; number <= count; ++number) {
      const Shard shard = parse_shard(to_text(Shard{number, count})).value();
      EXPECT_EQ(shard.number, number);
      EXPECT_EQ(shard.count, count);
      for (int chunk = 0; chunk < 128; ++chunk)
        holders[static_cast<std::size_t>(chunk)] += shard.holds(chunk) ? 1 : 0;
    }
    EXPECT_THAT(holders, ::testing::Each(1));
  }
}

TEST(ShardTest, OtherTextsAreRefused) {
  for (const char* text : {"", "1", "1/", "/2", "0/2", "3/2", "-1/2", "1/2/3", "a/b", "1/2 "}) {
    EXPECT_FALSE(parse_shard(text)) << text;
  }
}

}  // namespace
}  // namespace foreplan::scenarios
