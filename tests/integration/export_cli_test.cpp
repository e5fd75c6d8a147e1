// The verb export as a person runs it: files, stored runs, refusals that write nothing.

#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace foreplan::testing_program {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ExportVerb : public ::testing::Test {
 protected:
  ExportVerb() {
    std::string name = ::testing::TempDir() + "foreplan_export_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~ExportVerb() override { fs::remove_all(folder_); }

  [[nodiscard]] Outcome run(const std::string& line) const {
    return run_program({.arguments = shell_words(line), .folder = folder_});
  }
  [[nodiscard]] std::string written(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
  const std::string question_ =
      "--model llama3-8b --cluster 1x8xH100 --sequence-length \"4096 tokens\" "
      "--global-batch \"64 sequences\"";
};

TEST_F(ExportVerb, WritesAFileThatSimulateReadsAsTheSamePlan) {
  const Outcome made =
      run("export " + question_ + " --tp 2 --pp 2 --micro-batch 2 --to megatron --out train.sh");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, IsEmpty());
  EXPECT_THAT(made.err, HasSubstr("note: data, tokenizer, learning rate"));
  EXPECT_THAT(written("train.sh"), StartsWith("#!/bin/bash"));
  const Json direct =
      Json::parse(run("simulate " + question_ + " --tp 2 --pp 2 --micro-batch 2 --json").out);
  const Json through = Json::parse(run("simulate --from train.sh --cluster 1x8xH100 --json").out);
  EXPECT_EQ(through["plan"], direct["plan"]);
  EXPECT_EQ(through["step_time_s"], direct["step_time_s"]);
  EXPECT_EQ(through["memory"], direct["memory"]);
}

TEST_F(ExportVerb, TakesTheFormatsOwnFrameworkWhereNoneIsNamed) {
  const Outcome made = run("export " + question_ + " --tp 1 --to torchtitan --json");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const Json out = Json::parse(made.out);
  EXPECT_EQ(out["plan"]["framework"], "torchtitan");
  EXPECT_EQ(out["plan"]["zero"], 3);
  const Outcome named =
      run("export " + question_ + " --framework megatron-core --tp 1 --to torchtitan");
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_THAT(named.err, HasSubstr("--framework: the plan is one of megatron-core"));
}

TEST_F(ExportVerb, ConvertsALaunchFileOfTheSameFramework) {
  write_file(folder_ / "train.toml",
             "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\n"
             "[activation_checkpoint]\nmode = \"full\"\n");
  const Outcome made = run("export --from train.toml --cluster 1x8xH100 --to torchtitan");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("data_parallel_shard_degree = 8"));
}

TEST_F(ExportVerb, WritesAStoredPlan) {
  ASSERT_EQ(run("sweep " + question_ + " --db runs.db --top 3").exit_code, 0);
  const Json shown = Json::parse(run("show --db runs.db --run 1 --json").out);
  const Json& second = shown["plans"][1];
  const Json by_rank =
      Json::parse(run("export --db runs.db --run 1 --rank 2 --to megatron --json").out);
  EXPECT_EQ(by_rank["plan"], second["plan"]);
  const Outcome by_key = run("export --db runs.db --run 1 --plan \"" +
                             second["key"].get<std::string>() + "\" --to megatron");
  EXPECT_EQ(by_key.out, by_rank["text"].get<std::string>());
  EXPECT_THAT(run("export --db runs.db --run 1 --rank 9 --to megatron").err,
              HasSubstr("--rank: run 1 has 3 ranked plans"));
  EXPECT_THAT(run("export --db runs.db --run 7 --to megatron").err, HasSubstr("no run 7"));
  EXPECT_THAT(run("export --db runs.db --to megatron").err, HasSubstr("--run: names no run"));
  EXPECT_THAT(run("export --db runs.db --run 1 --tp 2 --to megatron").err,
              HasSubstr("exported as it is"));
}

TEST_F(ExportVerb, ARefusalWritesNothing) {
  for (const std::string line :
       {"--tp 3 --to megatron", "--tp 2 --recompute op_sac --to megatron", "--tp 2 --to acelerate",
        "--tp 2 --pp 2 --zero 1 --to deepspeed", "--tp 2 --to accelerate"}) {
    const Outcome refused = run("export " + question_ + " " + line + " --out out.txt");
    EXPECT_EQ(refused.exit_code, 2) << line;
    EXPECT_THAT(refused.out, IsEmpty()) << line;
    EXPECT_THAT(refused.err, StartsWith("foreplan: ")) << line;
    EXPECT_FALSE(fs::exists(folder_ / "out.txt")) << line;
  }
}

TEST_F(ExportVerb, AFullDiskLeavesTheOldFile) {
  write_file(folder_ / "train.sh", "old");
  const Outcome failed = run_program(
      {.arguments = shell_words("export " + question_ + " --tp 2 --to megatron --out train.sh"),
       .folder = folder_,
       .most_file_bytes = 100});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.err, HasSubstr("--out: cannot be written"));
  EXPECT_EQ(written("train.sh"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "train.sh.part"));
}

}  // namespace
}  // namespace foreplan::testing_program
