#include "harness/session/session.hpp"

#include "core/units_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace foreplan::harness {

Session::Session(Target& target, Clock& clock, Journal* journal, std::vector<Point> points,
                 const SessionOptions& options)
    : target_(target),
      clock_(clock),
      journal_(journal),
      points_(by_worth(std::move(points), options.speed)),
      options_(options),
      runner_(target, clock, options.rules, options.check),
      forecast_(options.speed),
      start_(clock.now()) {}

Session::Plan Session::plan_of_root(const Point& point, const std::string& point_key) {
  if (journal_ != nullptr && journal_->has(point_key)) return Plan::stored;
  if (options_.interrupted != nullptr && options_.interrupted->load()) return Plan::stop;
  const Seconds left = options_.budget - elapsed();
  const auto launch = forecast_.launch_time(point);
  if (launch && *launch * static_cast<double>(kLeastSamples) > options_.rules.point_limit) {
    return Plan::over_limit;
  }
  // Warm-up, pilot and the fewest samples; a point that is cut off before them was a waste.
  constexpr double kFewestLaunches = 3 + static_cast<double>(kLeastSamples);
  if (left <= Seconds{0} || forecast_.least_time(point, kFewestLaunches) > left) {
    return Plan::no_time;
  }
  if (journal_ != nullptr && journal_->begin(point_key) >= kMostAttempts) return Plan::crashed;
  return Plan::measure;
}

Session::Plan Session::plan(const Point& point, const std::string& point_key) {
  double decision = 0;
  if (target_.ranks().rank() == 0) {
    decision = static_cast<double>(plan_of_root(point, point_key));
  }
  return static_cast<Plan>(target_.ranks().from_root(decision));
}

Visit Session::settle(const Point& point, Outcome outcome) {
  if (journal_ != nullptr) journal_->record(point, outcome, clock_.utc_seconds());
  return {.kind = Visit::Kind::done, .outcome = std::move(outcome)};
}

Visit Session::visit(std::size_t index) {
  const Point& point = points_[index];
  const std::string point_key = key(point);
  Visit visit;
  if (target_.is_lost()) {
    visit.kind = Visit::Kind::device_lost;
    count(visit);
    return visit;
  }
  Outcome outcome;
  switch (plan(point, point_key)) {
    case Plan::stored: visit.kind = Visit::Kind::stored_before; break;
    case Plan::no_time: visit.kind = Visit::Kind::out_of_budget; break;
    case Plan::stop: visit.kind = Visit::Kind::interrupted; break;
    case Plan::over_limit:
      outcome.disposition = Disposition::over_limit;
      outcome.message = fmt::format("by the points before it, one launch takes about {}",
                                    readable(*forecast_.launch_time(point)));
      visit = settle(point, std::move(outcome));
      break;
    case Plan::crashed:
      outcome.message = fmt::format("the process ended in it {} times", kMostAttempts);
      visit = settle(point, std::move(outcome));
      break;
    case Plan::measure: {
      const Bounds bounds{.run_end = start_ + options_.budget, .interrupted = options_.interrupted};
      auto measured = runner_.measure(point, bounds);
      if (!measured) {
        visit.kind = options_.interrupted != nullptr && options_.interrupted->load()
                         ? Visit::Kind::interrupted
                         : Visit::Kind::out_of_budget;
        break;
      }
      const Sampling& s = measured->sampling;
      if (s.warm_up_launches > 0) {
        const double launches =
            static_cast<double>(s.warm_up_launches) +
            static_cast<double>(s.kept.size()) * static_cast<double>(s.launches_per_batch);
        const Seconds launch =
            s.end == SamplingEnd::sampled ? Seconds{s.statistics.median} : s.longest_launch;
        forecast_.learn(point, launch, max(Seconds{0}, measured->spent - launches * launch));
      }
      visit = settle(point, std::move(*measured));
      break;
    }
  }
  count(visit);
  return visit;
}

void Session::count(const Visit& visit) {
  switch (visit.kind) {
    case Visit::Kind::stored_before: ++counts_.stored_before; return;
    case Visit::Kind::out_of_budget:
    case Visit::Kind::interrupted:
    case Visit::Kind::device_lost: ++counts_.not_reached; return;
    case Visit::Kind::done: break;
  }
  counts_.samples_throttled += visit.outcome.sampling.throttled;
  counts_.samples_outlying += visit.outcome.sampling.outlying;
  switch (visit.outcome.disposition) {
    case Disposition::measured: ++counts_.measured; break;
    case Disposition::not_supported: ++counts_.not_supported; break;
    case Disposition::failed: ++counts_.failed; break;
    case Disposition::wrong_result: ++counts_.wrong_result; break;
    case Disposition::over_limit: ++counts_.over_limit; break;
  }
}

void Session::run() {
  for (std::size_t i = 0; i < points_.size(); ++i) visit(i);
  finish_if_complete();
}

bool Session::complete() const {
  return journal_ != nullptr && std::all_of(points_.begin(), points_.end(),
                                            [&](const Point& p) { return journal_->has(key(p)); });
}

void Session::finish_if_complete() {
  if (complete()) journal_->finish(clock_.utc_seconds());
}

}  // namespace foreplan::harness
