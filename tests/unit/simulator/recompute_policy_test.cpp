// Recompute policies and plans as text.

#include "simulator/plan/parallel_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foreplan::simulator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string mistake(std::string_view text) {
  const auto policy =
      parse_recompute(text, Place{.file = "plan.yaml", .line = 7, .key = "recompute"});
  return policy ? "accepted as " + to_text(*policy) : to_text(policy.error());
}

PartSet parts_of_modules(std::initializer_list<std::string_view> names) {
  PartSet set = 0;
  for (const auto& module : recompute_modules()) {
    for (const auto wanted : names) {
      if (module.name == wanted) set |= module.parts;
    }
  }
  return set;
}

TEST(RecomputePolicy, NoneKeepsEverything) {
  EXPECT_EQ(parse_recompute("none"), RecomputePolicy{});
  EXPECT_EQ(to_text(RecomputePolicy{}), "none");
}

TEST(RecomputePolicy, FullMayNameLayersPerChunk) {
  EXPECT_EQ(parse_recompute("full"), (RecomputePolicy{RecomputeGranularity::full, 0, 0}));
  EXPECT_EQ(parse_recompute("full:4"), (RecomputePolicy{RecomputeGranularity::full, 0, 4}));
  EXPECT_EQ(parse_recompute("full:10000"), (RecomputePolicy{RecomputeGranularity::full, 0, 10000}));
}

TEST(RecomputePolicy, EveryModuleReadsBackAsWritten) {
  ASSERT_EQ(recompute_modules().size(), 9U);
  for (const auto& module : recompute_modules()) {
    const auto policy = parse_recompute(module.name);
    ASSERT_TRUE(policy) << to_text(policy.error());
    EXPECT_EQ(policy->granularity, RecomputeGranularity::selective);
    EXPECT_EQ(policy->parts, module.parts);
    EXPECT_EQ(to_text(*policy), module.name);
  }
}

TEST(RecomputePolicy, EveryUnionOfModulesReadsBackAsTheSameParts) {
  const auto& modules = recompute_modules();
  for (unsigned chosen = 1; chosen < 1U << modules.size(); ++chosen) {
    RecomputePolicy policy{RecomputeGranularity::selective, 0, 0};
    for (std::size_t i = 0; i < modules.size(); ++i) {
      if ((chosen >> i & 1U) != 0) policy.parts |= modules[i].parts;
    }
    const std::string text = to_text(policy);
    EXPECT_EQ(parse_recompute(text), policy) << text;
  }
}

TEST(RecomputePolicy, FullWithDepthReadsBack) {
  for (const int depth : {1, 2, 31, 10000}) {
    const RecomputePolicy policy{RecomputeGranularity::full, 0, depth};
    EXPECT_EQ(parse_recompute(to_text(policy)), policy);
  }
}

TEST(RecomputePolicy, ModulesJoinInAnyOrder) {
  const PartSet expected = parts_of_modules({"core_attn", "layernorm"});
  EXPECT_EQ(parse_recompute("core_attn+layernorm")->parts, expected);
  EXPECT_EQ(parse_recompute("layernorm+core_attn")->parts, expected);
  EXPECT_EQ(parse_recompute("layernorm+layernorm+core_attn")->parts, expected);
}

TEST(RecomputePolicy, ASlipOfTheKeyboardIsToldTheNearestModule) {
  EXPECT_THAT(mistake("core_atn"),
              AllOf(HasSubstr("plan.yaml:7"), HasSubstr("recompute"), HasSubstr("\"core_atn\""),
                    HasSubstr("did you mean \"core_attn\"")));
  EXPECT_THAT(mistake("layernorn"), HasSubstr("did you mean \"layernorm\""));
  EXPECT_THAT(mistake("ful"), HasSubstr("did you mean \"full\""));
  EXPECT_THAT(mistake("core_attn+mlp_ac"), HasSubstr("did you mean \"mlp_act\""));
}

TEST(RecomputePolicy, AnUnknownWordListsWhatIsAllowed) {
  EXPECT_THAT(mistake("everything"), AllOf(HasSubstr("\"everything\""),
                                           HasSubstr("none, full, full:N, core_attn, layernorm"),
                                           testing::Not(HasSubstr("did you mean"))));
}

TEST(RecomputePolicy, NoneAndFullDoNotJoinWithModules) {
  EXPECT_THAT(mistake("none+core_attn"), HasSubstr("unknown recompute policy \"none\""));
  EXPECT_THAT(mistake("core_attn+full"), HasSubstr("unknown recompute policy \"full\""));
}

TEST(RecomputePolicy, EmptyWordsAreMistakes) {
  EXPECT_THAT(mistake(""), HasSubstr("empty recompute policy"));
  EXPECT_THAT(mistake("+"), HasSubstr("unknown recompute policy \"\""));
  EXPECT_THAT(mistake("+core_attn"), HasSubstr("unknown recompute policy \"\""));
  EXPECT_THAT(mistake("core_attn+"), HasSubstr("unknown recompute policy \"\""));
  EXPECT_THAT(mistake("core_attn++layernorm"), HasSubstr("unknown recompute policy \"\""));
}

TEST(RecomputePolicy, DepthsOutsideOneToTenThousandAreMistakes) {
  for (const auto* text : {"full:0", "full:-1", "full:", "full:x", "full:2x", "full:10001",
                           "full:99999999999999999999", "full: 2", "full:1.5"}) {
    EXPECT_THAT(mistake(text), AllOf(HasSubstr(text), HasSubstr("N from 1 to 10000"))) << text;
  }
}

TEST(RecomputePolicy, WordsAreExact) {
  EXPECT_THAT(mistake("Full"), HasSubstr("unknown recompute policy"));
  EXPECT_THAT(mistake(" full"), HasSubstr("unknown recompute policy"));
}

TEST(ParallelPlanText, NamesTheDegreesThatMatter) {
  ParallelPlan plan;
  EXPECT_EQ(to_text(plan), "TP1 PP1 DP1 MBS1 ZeRO-0 recompute=none bf16");
  plan.tp = 8;
  plan.pp = 4;
  plan.vpp = 5;
  plan.dp = 2;
  plan.sequence_parallel = true;
  plan.zero = ZeroStage::optimizer;
  plan.recompute = {RecomputeGranularity::full, 0, 2};
  plan.precision = Precision::fp8;
  EXPECT_EQ(to_text(plan), "TP8 PP4 VPP5 DP2 MBS1 SP ZeRO-1 recompute=full:2 fp8");
  plan.cp = 2;
  plan.ep = 4;
  plan.etp = 2;
  plan.micro_batch = 3;
  EXPECT_EQ(to_text(plan), "TP8 PP4 VPP5 DP2 CP2 EP4 ETP2 MBS3 SP ZeRO-1 recompute=full:2 fp8");
}

TEST(ParallelPlanRanks, WorldIsTheProductOfTheRankDegrees) {
  ParallelPlan plan;
  plan.tp = 8;
  plan.pp = 3;
  plan.dp = 5;
  plan.cp = 2;
  plan.vpp = 7;  // chunks and experts share ranks
  plan.ep = 10;
  EXPECT_EQ(plan.world_size(), 240);
  EXPECT_EQ(plan.expert_dp(), 8);  // tp*cp*dp = 80 ranks over ep 10
}

}  // namespace
}  // namespace foreplan::simulator
