// What torchtitan's files say of FP8 recipes and of tensor parallelism's collectives, read and
// written. Oracle: torchtitan 0.2.2 components/quantization/float8.py (recipes, and that none goes
// with the gather in FP8) and distributed/tensor_parallel.py (a compiled model for asynchronous
// tensor parallelism).

#include "scenarios/export/exporter.hpp"
#include "scenarios/jobs/launch_file.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using simulator::Precision;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<Scenario> read(std::string_view more) {
  const ScenarioFile file("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + std::string(more));
  std::vector<std::string> notices;
  return read_launch(file.path(), given({{"--cluster", "1x8xH100"}}), notices);
}

constexpr std::string_view kFloat8 =
    "converters = [\"quantize.linear.float8\"]\n[training]\nseq_len = 2048\n"
    "[quantize.linear.float8]\n";

Scenario float8(std::string_view settings) {
  auto read_back = read(std::string(kFloat8) + std::string(settings));
  if (!read_back) throw std::invalid_argument(to_text(read_back.error()));
  return std::move(*read_back);
}

std::string written(const Scenario& scenario) {
  const auto config = export_plan(kTorchtitanExporter, *scenario.plan, scenario);
  EXPECT_TRUE(config.has_value()) << (config ? "" : to_text(config.error()));
  return config ? config->text : "";
}

TEST(TorchtitanFloat8, RecipesArePrecisionsAndComeBackAsTheyWere) {
  const std::pair<std::string, Precision> recipes[] = {
      {"rowwise", Precision::fp8_rowwise}, {"rowwise_with_gw_hp", Precision::fp8_rowwise_gw_hp}};
  for (const auto& [name, precision] : recipes) {
    const std::string line = "recipe_name = \"" + name + "\"\n";
    const Scenario s = float8(line + "[activation_checkpoint]\nmode = \"full\"\n");
    EXPECT_EQ(s.plan->precision, precision);
    EXPECT_THAT(written(s), HasSubstr(line));
  }
  const Scenario tensorwise =
      float8("recipe_name = \"tensorwise\"\n[activation_checkpoint]\nmode = \"full\"\n");
  EXPECT_EQ(tensorwise.plan->precision, Precision::fp8_current);
  EXPECT_THAT(written(tensorwise), Not(HasSubstr("recipe_name")));
  EXPECT_THAT(to_text(read(std::string(kFloat8) + "recipe_name = \"columnwise\"\n").error()),
              HasSubstr("allowed: tensorwise, rowwise, rowwise_with_gw_hp"));
}

TEST(TorchtitanFloat8, WeightsMayBeGatheredQuantisedWhereNoRecipeIsNamed) {
  constexpr std::string_view kGather = "enable_fsdp_float8_all_gather = true\n";
  const Scenario s = float8(std::string(kGather) + "[activation_checkpoint]\nmode = \"full\"\n");
  EXPECT_TRUE(s.frameworks.front().gathers_narrow_weights);
  EXPECT_THAT(written(s), HasSubstr(std::string(kGather)));
  EXPECT_THAT(
      to_text(read(std::string(kFloat8) + "recipe_name = \"rowwise\"\n" + std::string(kGather))
                  .error()),
      HasSubstr("does not combine this with a recipe_name"));
}

TEST(TorchtitanAsyncTensorParallelism, IsReadAndWrittenForCompiledModels) {
  const std::string settings =
      "[training]\nseq_len = 2048\n[activation_checkpoint]\nmode = \"full\"\n"
      "[parallelism]\ntensor_parallel_degree = 4\nenable_async_tensor_parallel = true\n";
  const auto compiled = read(settings + "[compile]\nenable = true\n");
  ASSERT_TRUE(compiled.has_value()) << to_text(compiled.error());
  EXPECT_TRUE(compiled->frameworks.front().overlap_tp_backward);
  EXPECT_THAT(written(*compiled), HasSubstr("enable_async_tensor_parallel = true\n"));
  for (const char* eager : {"", "[compile]\nenable = true\ncomponents = [\"loss\"]\n"}) {
    const auto refused = read(settings + eager);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(to_text(refused.error()), HasSubstr("needs compile.enable with \"model\""));
  }
}

}  // namespace
}  // namespace foreplan::scenarios
