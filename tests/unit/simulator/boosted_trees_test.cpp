#include "simulator/calibration/gemm/boosted_trees.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace foreplan::simulator::calibration {
namespace {

struct Sample {
  std::vector<TreeFeatures> features;
  std::vector<double> target, weight;
};

// Two features matter, by a step and a slope; the others are noise.
Sample step_and_slope(int rows, std::uint32_t seed) {
  std::mt19937 random(seed);
  auto uniform = [&] { return float(random() % 10000) / 10000.0f; };
  Sample s;
  for (int i = 0; i < rows; ++i) {
    TreeFeatures f;
    for (float& x : f) x = uniform();
    f[3] = std::floor(8 * f[3]) / 8;  // as sizes do: else the step may lie inside of a bin
    s.features.push_back(f);
    s.target.push_back((f[3] >= 0.5f ? 0.2 : -0.1) + 0.1 * double(f[7]));
    s.weight.push_back(1);
  }
  return s;
}

struct Fitted {
  FeatureGrid grid;
  BoostedTrees trees;
};

Fitted fit(const Sample& s, const BoostingOptions& options = {}) {
  const FeatureGrid grid = FeatureGrid::of(s.features);
  std::vector<TreeBins> bins;
  for (const TreeFeatures& f : s.features) bins.push_back(grid.bins(f));
  return {grid, BoostedTrees::fit(bins, s.target, s.weight, grid, options)};
}

// Node by node from the stored state: the definition of the sum.
double walked(const BoostedTrees::State& s, const TreeBins& bins) {
  const std::size_t depth = std::size_t(s.depth), trees = s.feature.size() / depth;
  double sum = 0;
  for (std::size_t t = 0; t < trees; ++t) {
    std::size_t leaf = 0;
    for (std::size_t level = 0; level < depth; ++level) {
      const std::size_t node = t * depth + level;
      if (bins[std::size_t(s.feature[node])] > s.cut[node]) leaf |= std::size_t{1} << level;
    }
    sum += double(BoostedTrees::kLeafUnit) * s.leaf[(t << depth) + leaf];
  }
  return sum;
}

TEST(BoostedTrees, LearnAStepAndASlopeAndIgnoreNoise) {
  const Fitted fitted = fit(step_and_slope(1000, 1));
  const Sample fresh = step_and_slope(500, 2);
  double square = 0;
  for (std::size_t i = 0; i < fresh.target.size(); ++i) {
    const double error = fitted.trees.at(fitted.grid.bins(fresh.features[i])) - fresh.target[i];
    square += error * error;
  }
  // The target's own deviation is 0.15.
  EXPECT_LT(std::sqrt(square / double(fresh.target.size())), 0.015);
}

TEST(BoostedTrees, FastSumEqualsWalkingEveryTree) {
  for (int trees : {1, 63, 64, 65, 200}) {
    const Fitted fitted = fit(step_and_slope(200, 3), {.trees = trees, .depth = 4});
    for (const TreeFeatures& f : step_and_slope(100, 4).features) {
      const TreeBins bins = fitted.grid.bins(f);
      EXPECT_NEAR(fitted.trees.at(bins), walked(fitted.trees.state(), bins), 1e-7) << trees;
    }
  }
}

TEST(BoostedTrees, AnOutlierMovesTheSumLittle) {
  Sample s = step_and_slope(500, 5);
  const Fitted clean = fit(s);
  s.target[17] += 20;
  const Fitted soiled = fit(s);
  double shift = 0;
  for (const TreeFeatures& f : s.features) {
    shift += std::abs(soiled.trees.at(soiled.grid.bins(f)) - clean.trees.at(clean.grid.bins(f)));
  }
  EXPECT_LT(shift / double(s.features.size()), 0.02);
}

TEST(BoostedTrees, TheSameSamplesGiveTheSameTrees) {
  const Sample s = step_and_slope(300, 6);
  const BoostedTrees::State a = fit(s).trees.state(), b = fit(s).trees.state();
  EXPECT_EQ(a.feature, b.feature);
  EXPECT_EQ(a.cut, b.cut);
  EXPECT_EQ(a.leaf, b.leaf);
}

TEST(BoostedTrees, StatesThatIndexOutsideAreUnsound) {
  const BoostedTrees::State good{.depth = 1, .feature = {0}, .cut = {3}, .leaf = {-5, 5}};
  EXPECT_TRUE(BoostedTrees::sound(good));
  auto broken = [&](auto change) {
    BoostedTrees::State s = good;
    change(s);
    return !BoostedTrees::sound(s);
  };
  EXPECT_TRUE(broken([](auto& s) { s.feature = {kTreeFeatures}; }));
  EXPECT_TRUE(broken([](auto& s) { s.feature = {-1}; }));
  EXPECT_TRUE(broken([](auto& s) { s.cut = {FeatureGrid::kBins}; }));
  EXPECT_TRUE(broken([](auto& s) { s.leaf = {1}; }));
  EXPECT_TRUE(broken([](auto& s) { s.leaf = {1, 40000}; }));
  EXPECT_TRUE(broken([](auto& s) { s.cut = {}; }));
  EXPECT_TRUE(broken([](auto& s) { s.depth = 9; }));
}

TEST(FeatureGrid, BinIsTheNumberOfCutsBelow) {
  FeatureGrid::Cuts cuts(kTreeFeatures);
  cuts[2] = {1.0f, 2.0f, 4.0f};
  const FeatureGrid grid(cuts);
  TreeFeatures f{};
  for (const auto& [value, bin] :
       {std::pair{0.5f, 0}, {1.0f, 0}, {1.5f, 1}, {4.0f, 2}, {9.0f, 3}}) {
    f[2] = value;
    EXPECT_EQ(grid.bins(f)[2], bin) << value;
  }
  EXPECT_EQ(grid.bins(f)[0], 0);
  EXPECT_EQ(grid.cuts(), cuts);
}

TEST(FeatureGrid, ACutLiesBetweenItsNeighboursAndHasFewDigits) {
  TreeFeatures low{}, high{};
  low[0] = 100, high[0] = 104;          // mean 101.98...
  low[1] = 2, high[1] = 20000;          // mean 200
  low[2] = 1.0f, high[2] = 1.0000001f;  // neighbours among the floats
  const std::vector<TreeFeatures> samples = {low, high};
  const FeatureGrid grid = FeatureGrid::of(samples);
  EXPECT_EQ(grid.cuts()[0], std::vector<float>{102.0f});
  EXPECT_EQ(grid.cuts()[1], std::vector<float>{200.0f});
  for (std::size_t f = 0; f < 3; ++f) {
    EXPECT_EQ(grid.bins(low)[f], 0) << f;
    EXPECT_EQ(grid.bins(high)[f], 1) << f;
  }
  EXPECT_TRUE(grid.cuts()[3].empty());  // one value alone asks nothing
}

}  // namespace
}  // namespace foreplan::simulator::calibration
