#pragma once
// What a point is expected to take, before and while points like it are measured; and the order in
// which points are worth their time.

#include "harness/point.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::harness {

/// What a kind of machine does, roughly: good enough to order points by. Not a measurement.
struct NominalSpeed {
  FlopsPerSecond compute{1e12};
  BytesPerSecond memory{1e11};
};

/// Operations and least traffic by the shape alone: each operand and the result once. The exact
/// counts of a kernel are `Runnable::work`.
[[nodiscard]] kernels::Work nominal_work(const kernels::Question& question);

/// Seconds of one launch at these rates: from operations and least traffic of a kernel, from the
/// bytes of a collective, from both of an overlap.
[[nodiscard]] Seconds nominal_time(const Point& point, const NominalSpeed& speed);

/// Highest weight per expected second first; equal ones in an order drawn from their keys, so that
/// all ranks agree and what a budget leaves out is some of everything; of the same question asked
/// twice the first. A point counts `kLaunchesOfAPoint` launches and, however short they are,
/// `kLeastTimeOfAPoint`.
[[nodiscard]] std::vector<Point> by_worth(std::vector<Point> points, const NominalSpeed& speed);
inline constexpr double kLaunchesOfAPoint = 20;
inline constexpr Seconds kLeastTimeOfAPoint{0.05};

/// What points cost so far, by operation: tells whether one more fits.
class Forecast {
 public:
  explicit Forecast(NominalSpeed speed) : speed_(speed) {}

  /// `launch`: one launch; `other`: what the point took beside its launches (buffers, check).
  void learn(const Point& point, Seconds launch, Seconds other);

  /// Expected time of one launch; empty where nothing near this size was seen.
  [[nodiscard]] std::optional<Seconds> launch_time(const Point& point) const;
  /// The least that the point takes: buffers, check, and `launches` launches. Zero if unknown.
  [[nodiscard]] Seconds least_time(const Point& point, double launches) const;

 private:
  /// The largest point seen of an operation, nominal and real; smaller ones are bound by latency
  /// and say nothing of larger ones.
  struct Seen {
    double nominal = 0, launch = 0, other = 0;
  };
  [[nodiscard]] const Seen* near(const Point& point, double nominal) const;

  NominalSpeed speed_;
  std::map<std::string, Seen> seen_;
};

}  // namespace foreplan::harness
