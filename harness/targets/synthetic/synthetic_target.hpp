#pragma once
// A made-up device whose answers are known: for tests of the harness, and to rehearse a run. Its
// rows are marked as synthetic and never enter a calibration unasked.

#include "core/result.hpp"
#include "harness/target.hpp"
#include "harness/targets/target_kind.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::harness {

/// Times and faults of the made-up device. A launch takes `launch` + max(flops / compute, bytes /
/// memory); a collective `alpha` + bus factor * bytes / beta; both times exp(noise * N(0, 1)).
struct SyntheticSpec {
  std::string device = "synthetic";
  FlopsPerSecond compute{1e13};
  BytesPerSecond memory{1e12};
  Seconds launch{2e-6};
  Seconds alpha{10e-6};
  BytesPerSecond beta{1e11};
  double noise = 0.01;
  double outliers = 0;  ///< share of batches that take `kOutlierFactor` times as long
  /// After so many batches the device is hot: the next `throttled_batches` are slower by
  /// `kThrottleFactor` and say so. 0 = never.
  std::int64_t throttle_every = 0;
  std::int64_t throttled_batches = 5;
  Seconds preparation{0};     ///< of every point
  int ranks = 1;              ///< that it claims; all run in this process
  std::string crash{};        ///< launches of points with this text in their key lose the device
  std::string die{};          ///< they end the process without a word
  std::string wrong{};        ///< their results are wrong
  std::string unsupported{};  ///< they are not supported
  std::uint64_t seed = 1;
};

class SyntheticTarget final : public Target {
 public:
  /// Time passes by `clock.pause`: really with the system's clock, at once with a manual one.
  SyntheticTarget(SyntheticSpec spec, Clock& clock);

  [[nodiscard]] std::string device() const override { return spec_.device; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const override;
  [[nodiscard]] DeviceState state() override;
  [[nodiscard]] RankGroup& ranks() override { return ranks_; }
  [[nodiscard]] Result<std::unique_ptr<Runnable>> prepare(const Point& point) override;
  [[nodiscard]] bool is_lost() const override { return lost_; }

  /// Without noise: what a measurement shall find.
  [[nodiscard]] Seconds true_time(const Point& point) const;

  static constexpr double kOutlierFactor = 3;
  static constexpr double kThrottleFactor = 1.5;

 private:
  class Launch;
  class Ranks final : public RankGroup {
   public:
    explicit Ranks(int size) : size_(size) {}
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return size_; }
    void barrier() override {}
    [[nodiscard]] double maximum(double value) override { return value; }
    [[nodiscard]] double from_root(double value) override { return value; }

   private:
    int size_;
  };

  /// Runs one batch; throws when the point is one that crashes.
  Seconds run(const std::string& key, Seconds launch, int launches);
  [[nodiscard]] bool throttled() const;

  SyntheticSpec spec_;
  Clock& clock_;
  Ranks ranks_;
  std::mt19937_64 random_;
  std::int64_t batches_ = 0;
  bool lost_ = false;
};

[[nodiscard]] TargetKind synthetic_kind();

/// Reads the settings behind `synthetic:`; each is a field of SyntheticSpec by name, quantities
/// with their unit.
[[nodiscard]] Result<SyntheticSpec> read_synthetic(const TargetRequest& request);

}  // namespace foreplan::harness
