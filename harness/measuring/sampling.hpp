#pragma once
// The measuring loop of one point: warm-up, pilot, batches, and when there are enough of them.

#include "harness/measuring/statistics.hpp"
#include "harness/target.hpp"
#include "results/bench_rows.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace foreplan::harness {

/// When a point is done. The defaults serve GPUs and hosts alike.
struct Rules {
  /// A sample is a batch of launches at least this long. CUDA events resolve about half a
  /// microsecond, so that its rounding is below 0.1 %.
  Seconds batch{500e-6};
  /// Launches before anything is kept: caches, clocks and lazy loading settle.
  Seconds warm_up{10e-3};
  std::int64_t most_launches_per_batch = 10'000;
  double noise = 0.005;  ///< of the median, at which a point is done
  std::int64_t fewest_samples = 10;
  std::int64_t most_samples = 500;
  Seconds point_limit{2};  ///< sampling of one point ends here, done or not
  /// After so many throttled samples in a row the point is given up.
  int most_throttled = 20;
  /// Pause after a throttled sample, doubled with each one that follows.
  Seconds cool_down{20e-3};
  Seconds longest_cool_down{1};
};
/// As stored with a run.
[[nodiscard]] std::string rules_json(const Rules& rules);

/// Below this many samples a point is not called measured, whatever ends it.
inline constexpr std::int64_t kLeastSamples = 5;

/// What a sampling may use up, and who may end it.
struct Bounds {
  Seconds run_end{0};  ///< on the session's clock
  const std::atomic<bool>* interrupted = nullptr;
};

enum class SamplingEnd : std::uint8_t {
  sampled,     ///< there are statistics
  too_long,    ///< `kLeastSamples` launches do not fit into the point's limit
  throttled,   ///< the machine does not reach its clocks
  cut_off,     ///< budget or interruption came before `kLeastSamples`: nothing is known
  rank_failed  ///< another rank failed
};

struct Sampling {
  SamplingEnd end = SamplingEnd::cut_off;
  results::StoppedBy stopped_by = results::StoppedBy::noise;
  Statistics statistics;       ///< of `kept`, seconds per launch
  std::vector<double> kept;    ///< in order of time
  std::int64_t throttled = 0;  ///< samples dropped, clocks held down
  std::int64_t outlying = 0;   ///< samples dropped, far from the others
  std::int64_t warm_up_launches = 0, launches_per_batch = 0;
  Seconds longest_launch;  ///< seen so far, also where there are no statistics
  DeviceState before, after;
};

/// Runs the point until it is done. All ranks call it together and return alike: a sample is the
/// slowest rank's time, and rank 0's clock decides. What `Runnable::run` throws goes through, after
/// the other ranks were told.
[[nodiscard]] Sampling sample(Runnable& runnable, Target& target, Clock& clock, const Rules& rules,
                              const Bounds& bounds);

}  // namespace foreplan::harness
