#pragma once
// Gradient-boosted oblivious trees: every node of one level asks the same question, so a tree is a
// table that a few bits index, and a sum over hundreds of trees costs some hundred nanoseconds.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace foreplan::simulator::calibration {

inline constexpr int kTreeFeatures = 28;
using TreeFeatures = std::array<float, kTreeFeatures>;
using TreeBins = std::array<std::uint8_t, kTreeFeatures>;

/// Cuts each feature into at most 32 intervals of about equally many samples.
class FeatureGrid {
 public:
  static constexpr int kBins = 32;
  using Cuts = std::vector<std::vector<float>>;  ///< per feature, ascending, fewer than kBins

  FeatureGrid() { assign(Cuts(kTreeFeatures)); }
  explicit FeatureGrid(const Cuts& cuts) { assign(cuts); }
  /// Cuts lie at the geometric mean of neighbours where both are positive: features are ratios and
  /// sizes.
  static FeatureGrid of(std::span<const TreeFeatures> samples);

  [[nodiscard]] TreeBins bins(const TreeFeatures& features) const;
  [[nodiscard]] int count(int feature) const { return counts_[std::size_t(feature)]; }
  [[nodiscard]] Cuts cuts() const;

 private:
  void assign(const Cuts& cuts);
  std::array<std::array<float, kBins>, kTreeFeatures> cuts_{};  ///< padded with infinity
  std::array<int, kTreeFeatures> counts_{};
};

struct BoostingOptions {
  int trees = 256;
  int depth = 5;            ///< questions per tree, at most 8
  double rate = 0.1;        ///< share of each tree's advice that is taken
  double leaf_prior = 0.5;  ///< samples that say "no change" in every leaf
  double loss_scale =
      0.05;  ///< residual at which the loss turns from square to linear: a usual one
  double column_share = 0.25, row_share = 0.7;  ///< seen by each level and each tree
};

/// Sum of trees over binned features. Deterministic.
class BoostedTrees {
 public:
  /// Leaves are whole multiples of this, in the unit of the target.
  static constexpr float kLeafUnit = 1e-4f;
  struct State {
    int depth = 0;
    std::vector<int> feature, cut;  ///< trees x depth; the answer is yes where bin > cut
    std::vector<int> leaf;          ///< trees x 2^depth, in kLeafUnit
  };

  BoostedTrees() = default;
  /// `state` must be sound().
  explicit BoostedTrees(State state);
  [[nodiscard]] static bool sound(const State& state);
  /// Soft-L1 gradient boosting (Friedman 2001; oblivious trees as in Prokhorenkova et al. 2018)
  /// with Newton leaves. `weight`: relative trust of each sample.
  static BoostedTrees fit(std::span<const TreeBins> bins, std::span<const double> target,
                          std::span<const double> weight, const FeatureGrid& grid,
                          const BoostingOptions& options);

  [[nodiscard]] double at(const TreeBins& bins) const;
  [[nodiscard]] const State& state() const { return state_; }

 private:
  static constexpr std::size_t kChunk = 64;  ///< trees that are answered together
  using Answers = std::array<std::uint64_t, kChunk / 8>;

  State state_;
  std::size_t chunks_ = 0;
  std::vector<int> used_;         ///< features that some tree asks about
  std::vector<Answers> answers_;  ///< [used feature][bin][chunk]: one byte of answers per tree
  std::vector<std::int16_t> leaf_;
};

}  // namespace foreplan::simulator::calibration
