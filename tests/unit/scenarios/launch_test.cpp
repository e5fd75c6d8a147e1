// Launch arguments set exactly the plan: read back, they give its degrees.

#include "scenarios/launch.hpp"

#include "tests/unit/scenarios/questions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

const Flags kMixtral = {{"--model", "mixtral-8x7b"},
                        {"--cluster", "2x8xH100"},
                        {"--sequence-length", "4096 tokens"},
                        {"--global-batch", "256 sequences"}};

/// "--flag value" -> value; an empty one for a switch.
std::map<std::string, std::string> arguments_of(const Flags& question, const Flags& plan) {
  const Study study = planned(question, plan);
  std::map<std::string, std::string> out;
  for (const std::string& argument : launch_arguments(study.scenario().plan.value(), study)) {
    const auto blank = std::min(argument.find(' '), argument.size());
    const bool added = out.emplace(argument.substr(0, blank),
                                   argument.substr(std::min(blank + 1, argument.size())))
                           .second;
    EXPECT_TRUE(added) << argument << " stands twice";
  }
  return out;
}

TEST(MegatronLaunch, NamesEveryDegree) {
  const auto flags = arguments_of(
      kLlama70B, {{"--tp", "4"}, {"--pp", "4"}, {"--vpp", "10"}, {"--micro-batch", "2"}});
  EXPECT_THAT(flags, Contains(Pair("--tensor-model-parallel-size", "4")));
  EXPECT_THAT(flags, Contains(Pair("--pipeline-model-parallel-size", "4")));
  EXPECT_THAT(flags, Contains(Pair("--num-virtual-stages-per-pipeline-rank", "10")));
  EXPECT_THAT(flags, Contains(Pair("--micro-batch-size", "2")));
  EXPECT_THAT(flags, Contains(Pair("--global-batch-size", "512")));
  EXPECT_THAT(flags, Contains(Pair("--seq-length", "8192")));
  EXPECT_THAT(flags, Contains(Pair("--sequence-parallel", "")));
  EXPECT_THAT(flags, Contains(Pair("--use-distributed-optimizer", "")));
  EXPECT_THAT(flags, Contains(Pair("--bf16", "")));
  for (const char* absent :
       {"--context-parallel-size", "--expert-model-parallel-size", "--expert-tensor-parallel-size",
        "--recompute-granularity", "--pipeline-model-parallel-layout", "--fp16"}) {
    EXPECT_THAT(flags, Not(Contains(Key(absent))));
  }
}

TEST(MegatronLaunch, LeavesOutWhatThePlanDoesNotUse) {
  const auto flags = arguments_of(kLlama70B, {{"--tp", "8"},
                                              {"--pp", "8"},
                                              {"--zero", "0"},
                                              {"--sequence-parallel", "false"},
                                              {"--precision", "fp16"}});
  for (const char* absent :
       {"--sequence-parallel", "--use-distributed-optimizer", "--overlap-param-gather",
        "--num-virtual-stages-per-pipeline-rank", "--bf16"}) {
    EXPECT_THAT(flags, Not(Contains(Key(absent))));
  }
  EXPECT_THAT(flags, Contains(Pair("--fp16", "")));
}

TEST(MegatronLaunch, SpellsRecomputationAsTheFrameworkDoes) {
  const auto flags = [](const std::string& policy) {
    return arguments_of(kLlama70B, {{"--tp", "8"}, {"--pp", "4"}, {"--recompute", policy}});
  };
  const auto full = flags("full");
  EXPECT_THAT(full, Contains(Pair("--recompute-granularity", "full")));
  EXPECT_THAT(full, Contains(Pair("--recompute-method", "uniform")));
  EXPECT_THAT(full, Contains(Pair("--recompute-num-layers", "1")));
  const auto some = flags("full:3");
  EXPECT_THAT(some, Contains(Pair("--recompute-method", "block")));
  EXPECT_THAT(some, Contains(Pair("--recompute-num-layers", "3")));
  const auto selective = flags("core_attn+layernorm");
  EXPECT_THAT(selective, Contains(Pair("--recompute-granularity", "selective")));
  EXPECT_THAT(selective, Contains(Pair("--recompute-modules", "core_attn layernorm")));
  EXPECT_THAT(selective, Not(Contains(Key("--recompute-method"))));
}

/// Layers per stage of "Et*5|t*5|t*4L": E the embedding first, L the loss last, t*n layers.
std::vector<int> layers_in(std::string layout) {
  std::erase(layout, '"');
  EXPECT_EQ(layout.front(), 'E');
  EXPECT_EQ(layout.back(), 'L');
  std::vector<int> layers;
  for (std::size_t at = 0; (at = layout.find("t*", at)) != std::string::npos; ++at)
    layers.push_back(std::stoi(layout.substr(at + 2)));
  EXPECT_EQ(std::count(layout.begin(), layout.end(), '|'),
            static_cast<std::ptrdiff_t>(layers.size()) - 1);
  return layers;
}

TEST(MegatronLaunch, SpellsOutAnUnevenPipeline) {
  // 126 layers of Llama 3.1 405B on 16 stages: 14 of 8 and 2 of 7.
  Flags question = kLlama70B;
  question[0].second = "llama3.1-405b";
  question[1].second = "16x8xH100";
  const auto flags = arguments_of(question, {{"--tp", "8"}, {"--pp", "16"}});
  ASSERT_THAT(flags, Contains(Key("--pipeline-model-parallel-layout")));
  const auto layers = layers_in(flags.at("--pipeline-model-parallel-layout"));
  ASSERT_EQ(layers.size(), 16u);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 126);
  EXPECT_EQ(std::count(layers.begin(), layers.end(), 8), 14);
  EXPECT_EQ(layers.front(), 7);  // shares its rank with the embedding
  EXPECT_EQ(layers.back(), 7);   // and with the output projection
}

TEST(MegatronLaunch, SplitsExpertsOnlyAsThePlanDoes) {
  const auto shared = arguments_of(kMixtral, {{"--tp", "2"}, {"--ep", "4"}, {"--etp", "1"}});
  EXPECT_THAT(shared, Contains(Pair("--expert-model-parallel-size", "4")));
  EXPECT_THAT(shared, Contains(Pair("--expert-tensor-parallel-size", "1")));
  // Without expert parallelism the framework would split experts like everything else.
  EXPECT_THAT(arguments_of(kMixtral, {{"--tp", "2"}, {"--etp", "1"}}),
              Contains(Pair("--expert-tensor-parallel-size", "1")));
  EXPECT_THAT(arguments_of(kMixtral, {{"--tp", "2"}, {"--etp", "2"}}),
              Not(Contains(Key("--expert-tensor-parallel-size"))));
}

TEST(MegatronLaunch, NamesContextParallelismAndFp8) {
  const auto flags =
      arguments_of(kLlama70B, {{"--tp", "8"}, {"--cp", "2"}, {"--precision", "fp8"}});
  EXPECT_THAT(flags, Contains(Pair("--context-parallel-size", "2")));
  EXPECT_THAT(flags, Contains(Pair("--fp8-format", "hybrid")));
  EXPECT_THAT(flags, Contains(Pair("--bf16", "")));
}

Flags with(const std::string& framework) {
  Flags question = kLlama70B;
  question.emplace_back("--framework", framework);
  return question;
}

TEST(TorchtitanLaunch, IsItsToml) {
  const Study study =
      planned(with("torchtitan"), {{"--tp", "8"}, {"--zero", "3"}, {"--recompute", "full"}});
  const Launch launch = launch_of(study.scenario().plan.value(), study);
  EXPECT_FALSE(launch.is_command);
  EXPECT_EQ(launch.exporter, "torchtitan");
  for (const char* line :
       {"[parallelism]", "tensor_parallel_degree = 8", "pipeline_parallel_degree = 1",
        "data_parallel_shard_degree = 8", "fsdp_reshard_after_forward = \"always\"",
        "local_batch_size = 1", "global_batch_size = 512", "seq_len = 8192", "mode = \"full\""}) {
    EXPECT_THAT(launch.lines, Contains(line));
  }
  EXPECT_THAT(launch.lines, Not(Contains(HasSubstr("pipeline_parallel_schedule"))));
}

TEST(TorchtitanLaunch, ALocalBatchGoesThroughThePipelineInMicroBatches) {
  // 512 sequences on DP 2: 256 for each rank, 256 micro-batches of one (pipeline_parallel.py).
  const Study study = planned(with("torchtitan"), {{"--tp", "8"}, {"--pp", "4"}});
  const auto lines = launch_arguments(study.scenario().plan.value(), study);
  EXPECT_THAT(lines, Contains("local_batch_size = 256"));
  EXPECT_THAT(lines, Contains("pipeline_parallel_microbatch_size = 1"));
}

struct NamedSchedule {
  Flags plan;
  const char* torch;
};

TEST(TorchtitanLaunch, NamesTheScheduleAsPyTorchDoes) {
  const Flags deep = {{"--tp", "8"}, {"--pp", "4"}, {"--zero", "3"}};
  for (const auto& [plan, torch] : {
           NamedSchedule{{{"--schedule", "1f1b"}}, "1F1B"},
           NamedSchedule{{{"--schedule", "gpipe"}}, "GPipe"},
           NamedSchedule{{{"--vpp", "5"}, {"--schedule", "interleaved"}}, "Interleaved1F1B"},
           NamedSchedule{{{"--vpp", "2"}, {"--schedule", "zb-h1"}}, "InterleavedZeroBubble"},
           NamedSchedule{{{"--vpp", "2"}, {"--schedule", "zbv"}}, "ZBVZeroBubble"},
           NamedSchedule{{{"--vpp", "2"}, {"--schedule", "dualpipev"}}, "DualPipeV"},
       }) {
    Flags flags = deep;
    flags.insert(flags.end(), plan.begin(), plan.end());
    const Study study = planned(with("torchtitan"), flags);
    EXPECT_THAT(launch_arguments(study.scenario().plan.value(), study),
                Contains(fmt::format("pipeline_parallel_schedule = \"{}\"", torch)));
  }
}

struct Unrunnable {
  const char *framework, *schedule, *vpp, *has, *elsewhere;
};

TEST(Launch, SaysWhyAScheduleHasNoArgumentsAndWhatRunsIt) {
  for (const auto& c :
       {Unrunnable{"megatron-core", "zbv", "2", "Megatron-LM pipelines with 1F1B", "torchtitan"},
        Unrunnable{"megatron-core", "zb-h2", "1", "Megatron-LM pipelines with 1F1B", "fork"},
        Unrunnable{"megatron-core", "dualpipe", "1", "Megatron-LM pipelines with 1F1B", "DeepSeek"},
        Unrunnable{"torchtitan", "zb-h1", "1", "with vpp > 1, InterleavedZeroBubble", "fork"}}) {
    const Study study =
        planned(with(c.framework),
                {{"--tp", "8"}, {"--pp", "4"}, {"--vpp", c.vpp}, {"--schedule", c.schedule}});
    const Launch launch = launch_of(study.scenario().plan.value(), study);
    EXPECT_THAT(launch.lines, IsEmpty()) << c.schedule;
    EXPECT_THAT(launch.refusal,
                AllOf(HasSubstr(c.schedule), HasSubstr(c.has), HasSubstr(c.elsewhere)));
  }
}

TEST(Launch, TellsWhyAFrameworkCannotExpressThePlan) {
  const Study study = planned(with("deepspeed"), {{"--tp", "8"}});
  const Launch launch = launch_of(study.scenario().plan.value(), study);
  EXPECT_THAT(launch.lines, IsEmpty());
  EXPECT_THAT(launch.refusal, HasSubstr("DeepSpeed has no sequence parallelism"));
}

TEST(Launch, IsEmptyWhereTheFrameworksFormatIsNotKnown) {
  const Study study = planned(with("composer-fsdp"), {{"--tp", "1"}});
  const Launch launch = launch_of(study.scenario().plan.value(), study);
  EXPECT_THAT(launch.lines, IsEmpty());
  EXPECT_EQ(launch.exporter, "");
  EXPECT_EQ(launch.refusal, "");
}

}  // namespace
}  // namespace foreplan::scenarios
