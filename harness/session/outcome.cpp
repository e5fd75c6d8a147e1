#include "harness/session/outcome.hpp"

#include "core/units_text.hpp"

#include <fmt/format.h>

#include <exception>

namespace foreplan::harness {
namespace {

/// Points that run the same code share this text.
std::string kernel_of(const Point& point) {
  if (const auto* q = std::get_if<kernels::Question>(&point.question)) {
    return fmt::format("{} {} {} {} {} {}", q->op, name(q->pass), name(q->input), name(q->output),
                       name(point.selection), point.variant);
  }
  if (const auto* c = std::get_if<CollectivePoint>(&point.question)) {
    return fmt::format("{} {} {} {}", name(c->kind), name(c->dtype), c->group_size, c->stride);
  }
  return key(point);
}

const CollectivePoint* collective_of(const Point& point) {
  if (const auto* overlap = std::get_if<OverlapPoint>(&point.question)) return &overlap->collective;
  return std::get_if<CollectivePoint>(&point.question);
}

std::string too_long(const Sampling& sampling, const Rules& rules) {
  return fmt::format("one launch takes {}, so that {} do not fit into the {} of a point",
                     readable(sampling.longest_launch), kLeastSamples, print(rules.point_limit));
}

}  // namespace

int ranks_of_group(const CollectivePoint& point, int all_ranks) {
  return point.group_size > 0 ? point.group_size : all_ranks;
}

int nodes_of_group(int group_size, int stride, int ranks_per_node) {
  int nodes = 0, last = -1;
  for (int i = 0; i < group_size; ++i) {
    const int node = i * stride / ranks_per_node;
    if (node != last) ++nodes;
    last = node;
  }
  return nodes;
}

std::string misfit(const Point& point, const RankGroup& ranks) {
  const CollectivePoint* c = collective_of(point);
  if (c == nullptr) return {};
  const int size = ranks_of_group(*c, ranks.size());
  if (size < 2)
    return "a collective needs at least two ranks; start several (mpirun, srun, torchrun)";
  if (size * c->stride > ranks.size() || ranks.size() % (size * c->stride) != 0) {
    return fmt::format("groups of {} ranks with stride {} do not divide the run's {} ranks", size,
                       c->stride, ranks.size());
  }
  const int nodes = nodes_of_group(size, c->stride, ranks.ranks_per_node());
  if (c->nodes > 0 && nodes != c->nodes) {
    return fmt::format("groups span {} node{} here, the point asks for {}", nodes,
                       nodes == 1 ? "" : "s", c->nodes);
  }
  return {};
}

bool PointRunner::passes_check(Outcome& outcome, const Point& point, Runnable& runnable) {
  const std::string kernel = kernel_of(point);
  if (check_ == CheckPolicy::once_per_kernel && right_.contains(kernel)) return true;
  Check check;
  std::exception_ptr failure;
  try {
    check = runnable.check();
  } catch (...) {
    failure = std::current_exception();
  }
  const bool others_right = target_.ranks().maximum(failure || !check.right ? 1 : 0) == 0;
  if (failure) std::rethrow_exception(failure);
  outcome.check = check;
  if (others_right) {
    right_.insert(kernel);
    return true;
  }
  outcome.disposition = Disposition::wrong_result;
  outcome.message = check.right ? "the result is wrong on another rank" : check.message;
  if (outcome.message.empty()) outcome.message = "the result differs from the reference";
  return false;
}

void PointRunner::measure_into(Outcome& outcome, const Point& point, const Bounds& bounds,
                               bool& known) {
  outcome.disposition = Disposition::not_supported;
  outcome.message = misfit(point, target_.ranks());
  if (!outcome.message.empty()) return;
  outcome.disposition = Disposition::failed;
  auto prepared = target_.prepare(point);
  // A rank that cannot take part must not leave the others waiting.
  const bool all_prepared = target_.ranks().maximum(prepared ? 0 : 1) == 0;
  if (!all_prepared) {
    outcome.disposition = Disposition::not_supported;
    outcome.message = prepared ? "another rank cannot do it" : prepared.error().front().message;
    return;
  }
  Runnable& runnable = **prepared;
  outcome.identity = runnable.identity();
  outcome.work = runnable.work();
  if (!passes_check(outcome, point, runnable)) return;
  outcome.sampling = sample(runnable, target_, clock_, rules_, bounds);
  switch (outcome.sampling.end) {
    case SamplingEnd::sampled:
      outcome.disposition = Disposition::measured;
      outcome.message.clear();
      break;
    case SamplingEnd::too_long:
      outcome.disposition = Disposition::over_limit;
      outcome.message = too_long(outcome.sampling, rules_);
      break;
    case SamplingEnd::throttled:
      outcome.message = fmt::format("the machine does not hold its clocks: {} samples throttled",
                                    outcome.sampling.throttled);
      break;
    case SamplingEnd::rank_failed: outcome.message = "another rank failed"; break;
    case SamplingEnd::cut_off: known = false; break;
  }
}

std::optional<Outcome> PointRunner::measure(const Point& point, const Bounds& bounds) {
  const Seconds start = clock_.now();
  Outcome outcome;
  outcome.ranks = target_.ranks().size();
  outcome.ranks_per_node = target_.ranks().ranks_per_node();
  bool known = true;
  try {
    measure_into(outcome, point, bounds, known);
  } catch (const std::exception& failure) {
    outcome.disposition = Disposition::failed;
    outcome.message = failure.what();
    if (outcome.message.empty()) outcome.message = "failed without saying why";
  }
  outcome.spent = clock_.now() - start;
  if (!known) return std::nullopt;
  return outcome;
}

}  // namespace foreplan::harness
