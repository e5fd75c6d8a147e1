// Predictions of published runs do not fall behind. Oracle: the measured times and peaks of
// results/runs; the figures are those of docs/accuracy.md with a tenth of tolerance.

#include "core/document_tree.hpp"
#include "scenarios/runs/score_runs.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace foreplan::scenarios {
namespace {

/// Scores of a shipped table by source.
std::map<std::string, SourceScore> scores_of(const std::string& table) {
  const std::string file = std::string(FOREPLAN_SOURCE_DIR) + "/results/runs/" + table;
  const auto text = read_text_file(file);
  EXPECT_TRUE(text.has_value());
  const auto runs = read_runs(*text, file);
  EXPECT_TRUE(runs.has_value());
  const auto scored = predict_runs(runs->runs, "best");
  EXPECT_TRUE(scored.has_value());
  std::map<std::string, SourceScore> scores;
  for (SourceScore& score : score_runs(*scored, runs->skipped)) {
    scores.emplace(score.source, std::move(score));
  }
  return scores;
}

constexpr double kTolerance = 1.1;

TEST(TrainingRuns, ArePredictedAsWellAsRecorded) {
  const auto scores = scores_of("training_runs.csv");
  const std::map<std::string, double> recorded = {
      {"all", 0.092},           {"llm-foundry", 0.041},
      {"korthikanti22", 0.021}, {"kempnerforge-mfu", 0.052},
      {"simumax-b200", 0.071},  {"mlperf-v5.1", 0.078},
      {"nemo-24.07", 0.065},    {"bloom-prequel", 0.072},
      {"internevo", 0.041},     {"megatron-bridge-perf", 0.100},
      {"megatron-sc21", 0.039}, {"torchtitan-202412", 0.108},
      {"torchao-e2e", 0.254},   {"torchtitan-202506-asynctp", 0.050}};
  for (const auto& [source, mape] : recorded) {
    EXPECT_LE(scores.at(source).time.mape, kTolerance * mape) << source;
  }
  EXPECT_GE(scores.at("all").time.n, 670);
  const std::map<std::string, double> memory = {
      {"all", 0.067},         {"kempnerforge-mfu", 0.006}, {"bloom-prequel", 0.053},
      {"flagperf", 0.104},    {"internevo-mem", 0.087},    {"torchtitan-202412", 0.016},
      {"torchao-e2e", 0.024}, {"simumax-b200", 0.0012},    {"torchtitan-nvfp4", 0.048}};
  for (const auto& [source, mape] : memory) {
    EXPECT_LE(scores.at(source).memory.mape, kTolerance * mape) << source;
  }
  EXPECT_GE(scores.at("all").memory.coverage_90, 0.85);
}

TEST(TrainingRuns, OfOneNodeAndManyAreRankedAsWellAsRecorded) {
  const auto scores = scores_of("training_runs_vtrain.csv");
  EXPECT_LE(scores.at("vtrain-single").time.mape, kTolerance * 0.075);
  EXPECT_LE(scores.at("vtrain-multi").time.mape, kTolerance * 0.103);
  EXPECT_GE(scores.at("vtrain-single").regret.rho, 0.9);
  EXPECT_LE(scores.at("vtrain-multi").regret.mean, 0.01);
}

TEST(TrainingRuns, OfDiffusionTransformersArePredictedAsWellAsRecorded) {
  const auto scores = scores_of("dit_runs.csv");
  EXPECT_EQ(scores.at("mlperf-v5.1-flux1").time.n, 9);
  EXPECT_LE(scores.at("mlperf-v5.1-flux1").time.mape, kTolerance * 0.097);
  EXPECT_EQ(scores.at("all").time.n, 10);
}

}  // namespace
}  // namespace foreplan::scenarios
