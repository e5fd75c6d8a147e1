// The shipped scenarios are answered, and the answers are ones that a practitioner would believe.

#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cctype>

namespace foreplan::testing_program {
namespace {

using Json = nlohmann::json;

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(FOREPLAN_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ShippedScenario : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedScenario, IsAnsweredWithAPlanThatFits) {
  const Outcome outcome = run_program({.arguments = {"recommend", GetParam(), "--json"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json out = Json::parse(outcome.out);
  const Json& best = out["best"];
  const Json& cluster = out["question"]["cluster"];
  EXPECT_LE(best["plan"]["tp"].get<int>(), cluster["scale_up_size"].get<int>());
  const double limit = best["usable_memory_bytes"].get<double>() *
                       (1 - out["question"]["memory_headroom_fraction"].get<double>());
  for (const Json& report : out["top"])
    EXPECT_LE(report["memory"]["device_total_bytes"].get<double>(), limit);
  // Nobody has trained above 70 % of the peak with causal attention counted as it is computed.
  EXPECT_GT(best["mfu_causal_fraction"].get<double>(), 0.10);
  EXPECT_LT(best["mfu_causal_fraction"].get<double>(), 0.70);
}

std::string stem(const ::testing::TestParamInfo<std::string>& scenario) {
  std::string name = fs::path(scenario.param).stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ShippedScenario, ::testing::ValuesIn(shipped()), stem);

TEST(ShippedScenarios, Llama70BOn64H100IsPlannedAsPublishedRunsAre) {
  const Outcome outcome = run_program(
      {.arguments = {"recommend", FOREPLAN_SOURCE_DIR "/scenarios/llama3-70b-64xh100.yaml",
                     "--json"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json best = Json::parse(outcome.out)["best"];
  EXPECT_LE(best["plan"]["tp"].get<int>(), 8);
  EXPECT_GT(best["plan"]["tp"].get<int>() * best["plan"]["pp"].get<int>(),
            1);  // 70B at 16-18 bytes needs more than one GPU
  EXPECT_GT(best["headroom_bytes"].get<double>(), 0.03 * best["usable_memory_bytes"].get<double>());
  // The range of Megatron-LM, torchtitan and NeMo reports of 70B-class models on H100 in BF16.
  EXPECT_GT(best["mfu_fraction"].get<double>(), 0.35);
  EXPECT_LT(best["mfu_fraction"].get<double>(), 0.60);
}

TEST(ShippedScenarios, HalfTheNetworkIsNeverFaster) {
  const auto step = [](const std::string& name) {
    const Outcome outcome = run_program(
        {.arguments = {"recommend", FOREPLAN_SOURCE_DIR "/scenarios/" + name, "--json"}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out)["best"]["step_time_s"].get<double>();
  };
  EXPECT_GT(step("llama3-70b-64xh100-half-network.yaml"), step("llama3-70b-64xh100.yaml"));
}

}  // namespace
}  // namespace foreplan::testing_program
