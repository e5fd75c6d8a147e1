#include "simulator/calibration/gemm/boosted_trees.hpp"

#include "core/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

namespace foreplan::simulator::calibration {
namespace {

constexpr int kMostDepth = 8;
constexpr int kLargestLeaf = std::numeric_limits<std::int16_t>::max();

// The mean, with as few digits as still tell a <= cut < b: a file keeps it exactly and short.
float between(float a, float b) {
  const float mean = a > 0 && b > 0 ? std::sqrt(a) * std::sqrt(b) : (a + b) / 2;
  for (int digits = 3; digits < std::numeric_limits<float>::max_digits10; ++digits) {
    const float cut = std::stof(fmt::format("{:.{}g}", mean, digits));
    if (a <= cut && cut < b) return cut;
  }
  return mean;
}

std::vector<float> cuts_of(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  std::vector<float> distinct(values);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<float> cuts;
  if (distinct.size() <= std::size_t(FeatureGrid::kBins)) {
    for (std::size_t i = 0; i + 1 < distinct.size(); ++i) {
      cuts.push_back(between(distinct[i], distinct[i + 1]));
    }
    return cuts;
  }
  for (int i = 1; i < FeatureGrid::kBins; ++i) {
    const float low = values[std::size_t(i) * values.size() / FeatureGrid::kBins];
    const auto high = std::upper_bound(distinct.begin(), distinct.end(), low);
    if (high != distinct.end()) cuts.push_back(between(low, *high));
  }
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// Grows trees one after the other on the gradients that the earlier ones left.
class Grower {
 public:
  Grower(std::span<const TreeBins> bins, std::span<const double> target,
         std::span<const double> weight, const FeatureGrid& grid, const BoostingOptions& options)
      : bins_(bins), target_(target), weight_(weight), grid_(grid), options_(options) {
    predicted_.assign(bins.size(), 0.0);
    gradient_.assign(bins.size(), 0.0);
    curvature_.assign(bins.size(), 0.0);
    leaf_.assign(bins.size(), 0);
    const std::size_t histogram = (std::size_t{1} << options.depth) * FeatureGrid::kBins;
    sums_.resize(histogram);
  }

  void grow(BoostedTrees::State& out) {
    choose_rows();
    std::fill(leaf_.begin(), leaf_.end(), 0);
    for (int level = 0; level < options_.depth; ++level) {
      const Question q = best_question(level);
      out.feature.push_back(q.feature);
      out.cut.push_back(q.cut);
      for (std::size_t i = 0; i < bins_.size(); ++i) {
        leaf_[i] |= int(bins_[i][std::size_t(q.feature)] > q.cut) << level;
      }
    }
    append_leaves(out);
  }

 private:
  struct Sum {
    double gradient = 0, curvature = 0;
    void add(double g, double c) { gradient += g, curvature += c; }
    [[nodiscard]] double gain(double prior) const {
      return gradient * gradient / (curvature + prior);
    }
  };
  struct Question {
    int feature = 0, cut = 0;
    double gain = -1;
  };

  bool chance(double share) { return double(random_() % 1000) < share * 1000; }

  // Rows of this tree, with gradient and curvature of the soft-L1 loss.
  void choose_rows() {
    rows_.clear();
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      if (!chance(options_.row_share)) continue;
      rows_.push_back(i);
      const double r = target_[i] - predicted_[i];
      const double slope = std::sqrt(1 + r * r / (options_.loss_scale * options_.loss_scale));
      gradient_[i] = weight_[i] * r / slope;
      curvature_[i] = weight_[i] / slope;
    }
  }

  Question best_question(int level) {
    Question best;
    for (int f = 0; f < kTreeFeatures; ++f) {
      const bool last_chance = f == kTreeFeatures - 1 && best.gain < 0;
      if ((chance(options_.column_share) || last_chance) && grid_.count(f) > 0) ask(f, level, best);
    }
    return best;
  }

  // Tries every cut of one feature, the same in all leaves of the level.
  void ask(int feature, int level, Question& best) {
    constexpr std::size_t kBins = FeatureGrid::kBins;
    const std::size_t leaves = std::size_t{1} << level;
    std::fill_n(sums_.begin(), leaves * kBins, Sum{});
    for (std::size_t i : rows_) {
      sums_[std::size_t(leaf_[i]) * kBins + bins_[i][std::size_t(feature)]].add(gradient_[i],
                                                                                curvature_[i]);
    }
    const int cuts = grid_.count(feature);
    std::array<double, kBins> gain{};
    for (std::size_t l = 0; l < leaves; ++l) {
      const Sum* sum = &sums_[l * kBins];
      Sum all, low;
      for (int b = 0; b <= cuts; ++b) all.add(sum[b].gradient, sum[b].curvature);
      for (int b = 0; b < cuts; ++b) {
        low.add(sum[b].gradient, sum[b].curvature);
        const Sum high{all.gradient - low.gradient, std::max(all.curvature - low.curvature, 0.0)};
        gain[std::size_t(b)] += low.gain(options_.leaf_prior) + high.gain(options_.leaf_prior);
      }
    }
    for (int b = 0; b < cuts; ++b) {
      if (gain[std::size_t(b)] > best.gain) best = {feature, b, gain[std::size_t(b)]};
    }
  }

  void append_leaves(BoostedTrees::State& out) {
    const std::size_t leaves = std::size_t{1} << options_.depth;
    std::vector<Sum> sums(leaves);
    for (std::size_t i : rows_) sums[std::size_t(leaf_[i])].add(gradient_[i], curvature_[i]);
    const std::size_t first = out.leaf.size();
    for (const Sum& s : sums) {
      const double value = options_.rate * s.gradient / (s.curvature + options_.leaf_prior);
      const double steps = std::round(value / double(BoostedTrees::kLeafUnit));
      out.leaf.push_back(int(std::clamp(steps, -double(kLargestLeaf), double(kLargestLeaf))));
    }
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      predicted_[i] += double(BoostedTrees::kLeafUnit) * out.leaf[first + std::size_t(leaf_[i])];
    }
  }

  std::span<const TreeBins> bins_;
  std::span<const double> target_, weight_;
  const FeatureGrid& grid_;
  const BoostingOptions& options_;
  std::mt19937 random_{7};
  std::vector<std::size_t> rows_;
  std::vector<double> predicted_, gradient_, curvature_;
  std::vector<int> leaf_;
  std::vector<Sum> sums_;
};

}  // namespace

FeatureGrid FeatureGrid::of(std::span<const TreeFeatures> samples) {
  Cuts cuts(kTreeFeatures);
  for (std::size_t f = 0; f < kTreeFeatures; ++f) {
    std::vector<float> values;
    for (const TreeFeatures& s : samples) values.push_back(s[f]);
    cuts[f] = cuts_of(std::move(values));
  }
  return FeatureGrid(cuts);
}

void FeatureGrid::assign(const Cuts& cuts) {
  FOREPLAN_ASSERT(cuts.size() == kTreeFeatures, "one list of cuts per feature");
  for (std::size_t f = 0; f < kTreeFeatures; ++f) {
    FOREPLAN_ASSERT(cuts[f].size() < kBins, "more cuts than bins");
    cuts_[f].fill(std::numeric_limits<float>::infinity());
    std::copy(cuts[f].begin(), cuts[f].end(), cuts_[f].begin());
    counts_[f] = int(cuts[f].size());
  }
}

FeatureGrid::Cuts FeatureGrid::cuts() const {
  Cuts cuts(kTreeFeatures);
  for (std::size_t f = 0; f < kTreeFeatures; ++f) {
    cuts[f].assign(cuts_[f].begin(), cuts_[f].begin() + counts_[f]);
  }
  return cuts;
}

TreeBins FeatureGrid::bins(const TreeFeatures& features) const {
  TreeBins bins;
  for (std::size_t f = 0; f < kTreeFeatures; ++f) {
    // No branches: the compiler compares four cuts at a time.
    int above = 0;
    for (int c = 0; c < kBins; ++c) above += features[f] > cuts_[f][std::size_t(c)];
    bins[f] = std::uint8_t(std::min(above, kBins - 1));
  }
  return bins;
}

bool BoostedTrees::sound(const State& s) {
  if (s.depth < 0 || s.depth > kMostDepth || s.feature.size() != s.cut.size()) return false;
  if (s.depth == 0) return s.feature.empty() && s.leaf.empty();
  const std::size_t trees = s.feature.size() / std::size_t(s.depth);
  auto within = [](const std::vector<int>& v, int low, int high) {
    return std::all_of(v.begin(), v.end(), [&](int x) { return x >= low && x <= high; });
  };
  return s.feature.size() == trees * std::size_t(s.depth) && s.leaf.size() == trees << s.depth &&
         within(s.feature, 0, kTreeFeatures - 1) && within(s.cut, 0, FeatureGrid::kBins - 1) &&
         within(s.leaf, -kLargestLeaf, kLargestLeaf);
}

BoostedTrees::BoostedTrees(State state) : state_(std::move(state)) {
  FOREPLAN_ASSERT(sound(state_), "trees of unequal depth or questions outside the grid");
  if (state_.depth == 0) return;
  const std::size_t depth = std::size_t(state_.depth), trees = state_.feature.size() / depth;
  chunks_ = (trees + kChunk - 1) / kChunk;
  leaf_.assign((chunks_ * kChunk) << depth, 0);
  std::copy(state_.leaf.begin(), state_.leaf.end(), leaf_.begin());
  used_ = state_.feature;
  std::sort(used_.begin(), used_.end());
  used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
  answers_.assign(used_.size() * FeatureGrid::kBins * chunks_, Answers{});
  for (std::size_t node = 0; node < state_.feature.size(); ++node) {
    const auto at = std::lower_bound(used_.begin(), used_.end(), state_.feature[node]);
    const std::size_t slot = std::size_t(at - used_.begin()), tree = node / depth;
    for (std::size_t bin = std::size_t(state_.cut[node]) + 1; bin < FeatureGrid::kBins; ++bin) {
      Answers& a = answers_[(slot * FeatureGrid::kBins + bin) * chunks_ + tree / kChunk];
      auto* bytes = reinterpret_cast<unsigned char*>(a.data());
      bytes[tree % kChunk] = static_cast<unsigned char>(bytes[tree % kChunk] | 1u << node % depth);
    }
  }
}

BoostedTrees BoostedTrees::fit(std::span<const TreeBins> bins, std::span<const double> target,
                               std::span<const double> weight, const FeatureGrid& grid,
                               const BoostingOptions& options) {
  State state;
  state.depth = options.depth;
  Grower grower(bins, target, weight, grid, options);
  for (int t = 0; t < options.trees; ++t) grower.grow(state);
  return BoostedTrees(std::move(state));
}

double BoostedTrees::at(const TreeBins& bins) const {
  std::array<const Answers*, kTreeFeatures> rows;
  for (std::size_t u = 0; u < used_.size(); ++u) {
    const std::size_t bin = bins[std::size_t(used_[u])];
    rows[u] = &answers_[(u * FeatureGrid::kBins + bin) * chunks_];
  }
  // Four sums, so that additions of neighbouring trees need not wait for each other.
  std::array<int, 4> sums{};
  const std::size_t leaves = std::size_t{1} << state_.depth;
  const std::int16_t* leaf = leaf_.data();
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    Answers all{};
    for (std::size_t u = 0; u < used_.size(); ++u) {
      // Written out, so that the words stay in registers at -O2 too: halves the time.
      const Answers& row = rows[u][chunk];
      all = {all[0] | row[0], all[1] | row[1], all[2] | row[2], all[3] | row[3],
             all[4] | row[4], all[5] | row[5], all[6] | row[6], all[7] | row[7]};
    }
    std::array<unsigned char, kChunk> index;
    std::memcpy(index.data(), all.data(), sizeof index);
    for (std::size_t t = 0; t < kChunk; t += sums.size(), leaf += sums.size() * leaves) {
      sums[0] += leaf[index[t]];
      sums[1] += leaf[leaves + index[t + 1]];
      sums[2] += leaf[2 * leaves + index[t + 2]];
      sums[3] += leaf[3 * leaves + index[t + 3]];
    }
  }
  return double(kLeafUnit) * (sums[0] + sums[1] + sums[2] + sums[3]);
}

}  // namespace foreplan::simulator::calibration
