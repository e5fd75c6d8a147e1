// The resolved question: the same for the same question, another for any other.

#include "scenarios/scenario.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <set>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;

Flags with(const std::string& flag, const std::string& value) {
  Flags flags = kLlama70B;
  std::erase_if(flags, [&](const auto& given_flag) { return given_flag.first == flag; });
  flags.emplace_back(flag, value);
  return flags;
}

std::string resolved(const Flags& flags) { return resolved_json(asked(std::nullopt, flags)); }

TEST(ResolvedQuestion, IsTheSameHoweverItIsAsked) {
  const std::string file =
      "scenario: llama3-70b on 8x8xH100-SXM5-80GB\nmodel: llama3-70b\ncluster: 64xH100\n"
      "training:\n  global_batch: 4Mi tokens\n  sequence_length: 8Ki tokens\n";
  EXPECT_EQ(resolved_json(asked(file)), resolved(kLlama70B));
  EXPECT_EQ(resolved(kLlama70B), resolved(kLlama70B));
  EXPECT_TRUE(nlohmann::json::accept(resolved(kLlama70B)));
}

TEST(ResolvedQuestion, ChangesWithEveryOption) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"--model", "llama2-70b"},
      {"--cluster", "8x8xH200"},
      {"--sequence-length", "4096 tokens"},
      {"--global-batch", "256 sequences"},
      {"--hidden-dropout", "10 %"},
      {"--attention-dropout", "10 %"},
      {"--expert-imbalance", "1.2"},
      {"--framework", "torchtitan"},
      {"--profile", "calibrated"},
      {"--precision", "fp8"},
      {"--gpus", "32"},
      {"--tp", "8"},
      {"--pp", "4"},
      {"--vpp", "1"},
      {"--cp", "2"},
      {"--ep", "2"},
      {"--etp", "2"},
      {"--micro-batch", "3"},
      {"--sequence-parallel", "true"},
      {"--dp-replicate", "1,auto"},
      {"--zero", "0"},
      {"--recompute", "none"},
      {"--micro-batch-group", "8"},
      {"--offload-optimizer", "0.5"},
      {"--offload-parameters", "1"},
      {"--offload-activations", "0.25"},
      {"--schedule", "gpipe"},
      {"--headroom", "7 %"},
      {"--objective", "memory"},
      // Only read here: any text serves.
      {"--hooks", FOREPLAN_SOURCE_DIR "/tests/python/hooks_test.py"},
      {"--top", "3"}};
  // What stands in for a sequence length where the model makes pictures.
  const std::vector<std::pair<std::string, std::string>> of_media = {
      {"--image", "1280x720"}, {"--frames", "17"}, {"--text-tokens", "128"}};
  EXPECT_EQ(changes.size() + of_media.size(), options().size()) << "an option has no case here";
  std::set<std::string> seen = {resolved(kLlama70B)};
  for (const auto& [flag, value] : changes)
    EXPECT_TRUE(seen.insert(resolved(with(flag, value))).second) << flag;
  Flags video = with("--model", "wan2.1-1.3b");
  std::erase_if(video, [](const auto& flag) { return flag.first == "--sequence-length"; });
  EXPECT_TRUE(seen.insert(resolved(video)).second);
  for (const auto& [flag, value] : of_media) {
    Flags changed = video;
    changed.emplace_back(flag, value);
    EXPECT_TRUE(seen.insert(resolved(changed)).second) << flag;
  }
}

TEST(ResolvedQuestion, ChangesWithEveryRateOfTheCluster) {
  const auto question = [](const std::string& cluster) {
    return resolved_json(
        asked("scenario: x\nmodel: llama3-8b\ncluster:\n" + cluster +
              "training: {sequence_length: 8192 tokens, global_batch: 64 sequences}\n"));
  };
  const std::string base = "  name: c\n  device: H100\n  nodes: 4\n  devices_per_node: 8\n";
  std::set<std::string> seen = {question(base)};
  for (const std::string change :
       {"  network: {nic_bandwidth: 100 Gbit/s}\n", "  network: {nics_per_node: 4}\n",
        "  network: {latency: 9 us}\n", "  network: {rail_aligned: false}\n",
        "  scale_up: {bandwidth: 300 GB/s}\n", "  scale_up: {latency: 3 us}\n",
        "  scale_up: {size: 4}\n", "  scale_up: {switched: false}\n", "  scale: {compute: 50 %}\n",
        "  scale: {memory_bandwidth: 50 %}\n"}) {
    EXPECT_TRUE(seen.insert(question(base + change)).second) << change;
  }
}

TEST(ResolvedQuestion, TellsModelsApartThatCountTheSame) {
  // A sliding window changes the work and no parameter.
  const auto question = [](const std::string& window) {
    const ScenarioFile file(
        "model: ./config.json\ncluster: 8xH100\n"
        "training: {sequence_length: 8192 tokens, global_batch: 64 sequences}\n");
    file.write("config.json",
               R"({"model_type": "mistral", "hidden_size": 1024, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 4096, "vocab_size": 1000,
        "sliding_window": )" +
                   window + "}");
    Scenario scenario = asked(file.path(), {});
    scenario.model.name = "same";  // the name holds the folder
    scenario.title = "same";
    EXPECT_GT(models::parameter_count(scenario.model), 0);
    return resolved_json(scenario);
  };
  EXPECT_EQ(question("1024"), question("1024"));
  EXPECT_NE(question("1024"), question("2048"));
}

}  // namespace
}  // namespace foreplan::scenarios
