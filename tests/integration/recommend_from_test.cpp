// recommend --from: a better plan for the job of a launch file. Oracles: the same question without
// a file, and simulate of the same file.

#include "tests/integration/program.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace foreplan::testing_program {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

class RecommendFrom : public ::testing::Test {
 protected:
  RecommendFrom() {
    std::string name = ::testing::TempDir() + "foreplan_from_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    const Outcome made =
        run("export " + question_ + " --tp 8 --recompute full --to megatron --out train.sh");
    if (made.exit_code != 0) throw std::runtime_error(made.err);
  }
  ~RecommendFrom() override { fs::remove_all(folder_); }

  [[nodiscard]] Outcome run(const std::string& line) const {
    return run_program({.arguments = shell_words(line), .folder = folder_});
  }
  [[nodiscard]] Json answer(const std::string& line) const {
    const Outcome done = run(line + " --json");
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out);
  }

  fs::path folder_;
  const std::string question_ =
      "--model llama3-8b --cluster 1x8xH100 --sequence-length \"4096 tokens\" "
      "--global-batch \"64 sequences\"";
  const std::string from_ = "recommend --from train.sh --cluster 1x8xH100";
};

TEST_F(RecommendFrom, GivesTheBestPlanOfTheSameQuestionAndComparesTheJobWithIt) {
  const Json found = answer(from_), asked = answer("recommend " + question_);
  EXPECT_EQ(found["best"]["plan"], asked["best"]["plan"]);
  EXPECT_EQ(found["best"]["step_time_s"], asked["best"]["step_time_s"]);
  EXPECT_EQ(found["plans_enumerated"], asked["plans_enumerated"]);
  const Json now = answer("simulate --from train.sh --cluster 1x8xH100");
  EXPECT_EQ(found["job"]["plan"], now["plan"]);
  EXPECT_EQ(found["job"]["step_time_s"], now["step_time_s"]);
  EXPECT_EQ(found["job"]["feasible"], true);
  EXPECT_EQ(found["left_out"], now["left_out"]);
  const double gain = now["step_time_s"].get<double>() / asked["best"]["step_time_s"].get<double>();
  EXPECT_GT(gain, 1);
  EXPECT_DOUBLE_EQ(found["job"]["step_time_over_best"].get<double>(), gain);
  EXPECT_FALSE(asked.contains("job"));
  const Outcome text = run(from_);
  EXPECT_THAT(text.out, HasSubstr("The job as it is\n  TP8"));
  EXPECT_THAT(text.out, HasSubstr(fmt::format("step time over the best plan's: {:.2f}", gain)));
}

TEST_F(RecommendFrom, OptionsNarrowTheSearchAndPrecisionWidensIt) {
  std::vector<int> degrees;
  const Json narrow = answer(from_ + " --tp 4 --top 5");
  for (const Json& found : narrow["top"]) degrees.push_back(found["plan"]["tp"]);
  EXPECT_EQ(degrees.size(), 5U);
  EXPECT_THAT(degrees, Each(4));
  EXPECT_EQ(answer(from_)["best"]["plan"]["precision"], "bf16");
  EXPECT_EQ(answer(from_ + " --precision bf16,fp8")["best"]["plan"]["precision"], "fp8");
  const Json small = answer(from_ + " --objective memory"), fast = answer(from_);
  EXPECT_LT(small["best"]["memory"]["device_total_bytes"],
            fast["best"]["memory"]["device_total_bytes"]);
}

TEST_F(RecommendFrom, WhatTheFileLeavesOpenDescribesTheJobAndDoesNotNarrow) {
  write_file(folder_ / "fsdp.yaml",
             "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_machines: 1\n"
             "num_processes: 8\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n"
             "  fsdp_reshard_after_forward: true\n");
  const Json found = answer("recommend --from fsdp.yaml " + question_ + " --micro-batch 1");
  EXPECT_EQ(found["job"]["plan"]["micro_batch"], 1);
  const Json asked = answer("recommend " + question_ + " --framework accelerate-fsdp");
  EXPECT_EQ(found["plans_enumerated"], asked["plans_enumerated"]);
}

TEST_F(RecommendFrom, TheBestPlanIsToldAsSuch) {
  const Json found = answer(from_), &best = found["best"]["plan"];
  std::string options = " --recompute " + best["recompute"].get<std::string>();
  for (const auto& [option, key] : {std::pair{"--tp", "tp"},
                                    {"--pp", "pp"},
                                    {"--vpp", "vpp"},
                                    {"--zero", "zero"},
                                    {"--micro-batch", "micro_batch"},
                                    {"--sequence-parallel", "sequence_parallel"}}) {
    options += std::string(" ") + option + " " + best[key].dump();
  }
  const Outcome made = run("export " + question_ + options + " --to megatron --out best.sh");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(run("recommend --from best.sh --cluster 1x8xH100").out,
              HasSubstr("it is the best plan of the space"));
}

TEST_F(RecommendFrom, AJobThatDoesNotFitIsToldSoBesideOneThatDoes) {
  ASSERT_EQ(run("export --model llama3-70b --cluster 8x8xH100 --sequence-length \"4096 tokens\" "
                "--global-batch \"256 sequences\" --tp 2 --to megatron --out large.sh")
                .exit_code,
            0);
  const Outcome done = run("recommend --from large.sh --cluster 8x8xH100");
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("does not fit: "));
  EXPECT_THAT(done.out, HasSubstr("Best plan"));
}

TEST_F(RecommendFrom, BadInputIsRefusedWithItsPlace) {
  write_file(folder_ / "s.yaml", "model: llama3-8b\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {from_ + " --sequence-length \"8192 tokens\"",
       "--sequence-length: the launch file says this; change it there"},
      {from_ + " --framework torchtitan", "--framework: the launch file says this"},
      {from_ + " --gpus 16", "--gpus: 16 GPUs, but the cluster has 8"},
      {from_ + " --tp x", "--tp: must be an integer from 1 to 65536"},
      {"recommend --from train.sh --tp 2", "--cluster: is needed with --from"},
      {"recommend --from none.sh --cluster 8xH100", "none.sh: cannot be read as a launch file"},
      {"recommend s.yaml --from train.sh --cluster 8xH100",
       "--from: a launch file takes the place of the scenario"}};
  for (const auto& [line, said] : cases) {
    const Outcome refused = run(line + " --trace step.json");
    EXPECT_EQ(refused.exit_code, 2) << line;
    EXPECT_THAT(refused.out, IsEmpty()) << line;
    EXPECT_THAT(refused.err, HasSubstr(said)) << line;
    EXPECT_FALSE(fs::exists(folder_ / "step.json")) << line;
  }
}

}  // namespace
}  // namespace foreplan::testing_program
