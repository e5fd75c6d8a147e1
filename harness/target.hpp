#pragma once
// What the harness measures on: a machine of one kind (a GPU, a CPU, a made-up device of the
// tests).

#include "core/quantity.hpp"
#include "core/result.hpp"
#include "harness/point.hpp"
#include "kernels/kernel.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::harness {

/// The ranks that measure together; a lone process is a group of one.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Ranks that share a node; consecutive ones do.
  [[nodiscard]] virtual int ranks_per_node() const { return size(); }
  /// There are more ranks on a node than processors for them, so that they take turns.
  [[nodiscard]] virtual bool is_crowded() const { return false; }
  virtual void barrier() = 0;
  /// The largest of what the ranks say, on all of them: a collective lasts as long as its last
  /// rank.
  [[nodiscard]] virtual double maximum(double value) = 0;
  /// What rank 0 says, on all ranks: one rank decides when to stop.
  [[nodiscard]] virtual double from_root(double value) = 0;
};

/// Clocks and heat at one moment. Empty = the machine does not say.
struct DeviceState {
  std::optional<double> sm_clock_hz, memory_clock_hz, temperature_celsius, power_w;
  bool throttled = false;  ///< clocks held below what was asked, by heat or by power
};

/// How well the last outputs agree with the reference.
struct Check {
  bool right = false;
  double worst = 0;     ///< largest error over its allowance; <= 1 is right
  std::string message;  ///< first element that is wrong, or why nothing could be compared
};

/// One point with its buffers, ready to run.
class Runnable {
 public:
  virtual ~Runnable() = default;
  /// Elapsed time of `launches` launches in a row by the target's own clock (CUDA events, steady
  /// clock). Throws std::runtime_error where the device fails.
  [[nodiscard]] virtual Seconds run(int launches) = 0;
  /// Runs once from fresh inputs and compares with the reference.
  [[nodiscard]] virtual Check check() = 0;
  [[nodiscard]] virtual kernels::Work work() const = 0;
  /// Kernel or library that does it, with version and algorithm.
  struct Identity {
    std::string library, library_version, algorithm;
  };
  [[nodiscard]] virtual Identity identity() const = 0;
};

/// A machine of one kind. Facts of its environment become provenance (examples: driver, clocks
/// policy, topology, library versions).
class Target {
 public:
  virtual ~Target() = default;
  [[nodiscard]] virtual std::string device() const = 0;  ///< DeviceSpec name
  /// Writes FOLDER/NAME.yaml, unless it is there, where no catalogue can know this machine.
  /// Returns the file; empty = the catalogue has the device. Throws std::runtime_error where it
  /// cannot be written.
  [[nodiscard]] virtual std::filesystem::path describe(const std::filesystem::path& /*folder*/) {
    return {};
  }
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> environment() const = 0;
  [[nodiscard]] virtual DeviceState state() = 0;
  [[nodiscard]] virtual RankGroup& ranks() = 0;
  /// Fails, in words, where this machine cannot do the point: it is recorded as not supported.
  [[nodiscard]] virtual Result<std::unique_ptr<Runnable>> prepare(const Point& point) = 0;
  /// True after a failure that no later launch of this process can survive (a sticky error).
  [[nodiscard]] virtual bool is_lost() const { return false; }
};

/// A lone process.
class SingleRank final : public RankGroup {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void barrier() override {}
  [[nodiscard]] double maximum(double value) override { return value; }
  [[nodiscard]] double from_root(double value) override { return value; }
};

/// Time for budgets, apart from the target's clock; tests bring their own.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Seconds now() = 0;  ///< since any fixed moment, never backwards
  [[nodiscard]] virtual std::int64_t utc_seconds() = 0;
  virtual void pause(Seconds time) = 0;
};

}  // namespace foreplan::harness
