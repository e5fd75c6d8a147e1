#include "harness/measuring/sampling.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

namespace foreplan::harness {
namespace {

using results::StoppedBy;

/// Verdicts that ranks agree on by taking the largest.
enum class Verdict : std::uint8_t { go_on, noise, sample_limit, point_limit, budget, interruption };

constexpr std::int64_t kFewestWarmUps = 2;

class Sampler {
 public:
  Sampler(Runnable& runnable, Target& target, Clock& clock, const Rules& rules,
          const Bounds& bounds)
      : runnable_(runnable),
        target_(target),
        clock_(clock),
        rules_(rules),
        bounds_(bounds),
        point_end_(clock.now() + rules.point_limit) {}

  Sampling run() {
    out_.before = target_.state();
    if (!warm_up()) return finish();
    std::vector<double> samples;
    bool throttled_before = out_.before.throttled;
    Verdict verdict = Verdict::go_on;
    while (verdict == Verdict::go_on) {
      const auto per_launch = batch(out_.launches_per_batch);
      if (!per_launch) return finish();
      out_.after = target_.state();
      // The clocks are read between batches: a sample is doubtful if either end was throttled.
      const bool throttled = out_.after.throttled || throttled_before;
      throttled_before = out_.after.throttled;
      if (agreed(throttled)) {
        if (!cool_down()) return finish();
      } else {
        in_a_row_ = 0;
        samples.push_back(*per_launch);
      }
      verdict = agreed_verdict(samples);
    }
    return conclude(samples, verdict);
  }

 private:
  [[nodiscard]] bool agreed(bool any) { return target_.ranks().maximum(any ? 1 : 0) > 0; }

  Sampling finish() { return std::move(out_); }

  /// Time per launch of the slowest rank; empty when another rank failed.
  std::optional<double> batch(std::int64_t launches) {
    constexpr double kFailed = std::numeric_limits<double>::infinity();
    target_.ranks().barrier();
    double seconds = kFailed;
    std::exception_ptr failure;
    try {
      seconds = runnable_.run(static_cast<int>(launches)).value;
    } catch (...) {
      failure = std::current_exception();
    }
    seconds = target_.ranks().maximum(seconds);
    if (failure) std::rethrow_exception(failure);
    if (seconds == kFailed) {
      out_.end = SamplingEnd::rank_failed;
      return std::nullopt;
    }
    const double per_launch = seconds / static_cast<double>(launches);
    out_.longest_launch = max(out_.longest_launch, Seconds{per_launch});
    return per_launch;
  }

  /// Warms up and finds, from its launches, how many make a batch. False: the point ends here.
  bool warm_up() {
    double total = 0, fastest = std::numeric_limits<double>::infinity();
    std::int64_t launches = 1;
    do {
      const auto per_launch = batch(launches);
      if (!per_launch) return false;
      out_.warm_up_launches += launches;
      total += *per_launch * static_cast<double>(launches);
      fastest = std::min(fastest, *per_launch);
      // The first launch may load code and choose algorithms: it alone does not tell.
      const double bound = out_.warm_up_launches < kFewestWarmUps
                               ? fastest
                               : fastest * static_cast<double>(kLeastSamples);
      if (bound > rules_.point_limit.value) {
        out_.end = SamplingEnd::too_long;
        return false;
      }
      launches = launches_for(fastest);
      if (limit_reached() >= Verdict::budget) return false;
    } while (
        out_.warm_up_launches < kFewestWarmUps ||
        (total < rules_.warm_up.value && out_.warm_up_launches < rules_.most_launches_per_batch));
    out_.launches_per_batch = launches;
    return true;
  }

  [[nodiscard]] std::int64_t launches_for(double per_launch) const {
    const double wanted = std::ceil(rules_.batch.value / std::max(per_launch, 1e-12));
    return static_cast<std::int64_t>(
        std::clamp(wanted, 1.0, static_cast<double>(rules_.most_launches_per_batch)));
  }

  /// Lets the machine cool, longer each time. False when it does not help.
  bool cool_down() {
    ++out_.throttled;
    if (++in_a_row_ >= rules_.most_throttled) {
      out_.end = SamplingEnd::throttled;
      return false;
    }
    const Seconds pause{std::ldexp(rules_.cool_down.value, in_a_row_ - 1)};
    clock_.pause(min(pause, rules_.longest_cool_down));
    return true;
  }

  /// Limits of time, by the clock of rank 0, and the wish of any rank to stop.
  Verdict limit_reached() {
    Verdict own = Verdict::go_on;
    if (target_.ranks().rank() == 0) {
      const Seconds now = clock_.now();
      if (now >= point_end_) own = Verdict::point_limit;
      if (now >= bounds_.run_end) own = Verdict::budget;
    }
    if (bounds_.interrupted != nullptr && bounds_.interrupted->load()) own = Verdict::interruption;
    return static_cast<Verdict>(target_.ranks().maximum(static_cast<double>(own)));
  }

  /// The samples are alike on all ranks, so that what follows from them is too.
  Verdict agreed_verdict(const std::vector<double>& samples) {
    const auto count = std::ssize(samples);
    if (const Verdict limit = limit_reached(); limit != Verdict::go_on) return limit;
    if (count >= rules_.most_samples) return Verdict::sample_limit;
    if (count >= rules_.fewest_samples) {
      const Trimmed trimmed = without_outliers(samples);
      if (std::ssize(trimmed.kept) >= rules_.fewest_samples &&
          summarize(trimmed.kept).noise <= rules_.noise) {
        return Verdict::noise;
      }
    }
    return Verdict::go_on;
  }

  Sampling conclude(const std::vector<double>& samples, Verdict verdict) {
    Trimmed trimmed = without_outliers(samples);
    out_.kept = std::move(trimmed.kept);
    out_.outlying = static_cast<std::int64_t>(trimmed.dropped);
    if (std::ssize(out_.kept) < kLeastSamples) {
      out_.end = verdict != Verdict::point_limit ? SamplingEnd::cut_off
                 : out_.throttled > 0            ? SamplingEnd::throttled
                                                 : SamplingEnd::too_long;
      return finish();
    }
    switch (verdict) {
      case Verdict::go_on:
      case Verdict::noise: out_.stopped_by = StoppedBy::noise; break;
      case Verdict::sample_limit: out_.stopped_by = StoppedBy::sample_limit; break;
      case Verdict::point_limit: out_.stopped_by = StoppedBy::point_limit; break;
      case Verdict::budget: out_.stopped_by = StoppedBy::budget; break;
      case Verdict::interruption: out_.stopped_by = StoppedBy::interruption; break;
    }
    out_.statistics = summarize(out_.kept);
    out_.end = SamplingEnd::sampled;
    return finish();
  }

  Runnable& runnable_;
  Target& target_;
  Clock& clock_;
  const Rules& rules_;
  const Bounds& bounds_;
  Seconds point_end_;
  int in_a_row_ = 0;
  Sampling out_;
};

}  // namespace

std::string rules_json(const Rules& rules) {
  return nlohmann::ordered_json{{"batch_s", rules.batch.value},
                                {"warm_up_s", rules.warm_up.value},
                                {"most_launches_per_batch", rules.most_launches_per_batch},
                                {"noise_fraction", rules.noise},
                                {"fewest_samples", rules.fewest_samples},
                                {"most_samples", rules.most_samples},
                                {"point_limit_s", rules.point_limit.value},
                                {"most_throttled", rules.most_throttled}}
      .dump();
}

Sampling sample(Runnable& runnable, Target& target, Clock& clock, const Rules& rules,
                const Bounds& bounds) {
  return Sampler(runnable, target, clock, rules, bounds).run();
}

}  // namespace foreplan::harness
