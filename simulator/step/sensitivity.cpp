#include "simulator/step/sensitivity.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::simulator {
namespace {

// Large against rounding, small against the point where another stage or stream becomes critical.
constexpr double kDearer = 0.01;

bool same(const Operator& a, const Operator& b) {
  return a.kind == b.kind && a.pass == b.pass && a.shape == b.shape && a.input == b.input &&
         a.output == b.output && a.bytes_read == b.bytes_read && a.bytes_written == b.bytes_written;
}

bool same(const PlacedCollective& a, const PlacedCollective& b) {
  return a.collective.kind == b.collective.kind && a.collective.size == b.collective.size &&
         a.placement == b.placement;
}

bool same(const Dependence& known, const Operator& op) {
  const auto* other = std::get_if<Operator>(&known.what);
  return other != nullptr && same(*other, op);
}

bool same(const Dependence& known, const PlacedCollective& collective) {
  const auto* other = std::get_if<PlacedCollective>(&known.what);
  return other != nullptr && same(*other, collective);
}

/// Lists what it is asked for, and can make one of the listed costs dearer. For one thread.
class WatchedCost final : public CostModel {
 public:
  explicit WatchedCost(const CostModel& cost) : cost_(cost) {}

  [[nodiscard]] std::string name() const override { return cost_.name(); }
  [[nodiscard]] std::string body_json() const override { return cost_.body_json(); }
  [[nodiscard]] ConditionTable::PassFactors attention_factor(
      AttentionGeneration generation) const override {
    return cost_.attention_factor(generation);
  }
  [[nodiscard]] double slowest_of(int devices) const override { return cost_.slowest_of(devices); }
  [[nodiscard]] double host_factor() const override { return cost_.host_factor(); }
  [[nodiscard]] bool measured_expert_by_expert(const Operator& op) const override {
    return cost_.measured_expert_by_expert(op);
  }
  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    return watch(op, cost_.operator_cost(op));
  }
  [[nodiscard]] Estimate collective_cost(const Collective& collective,
                                         const GroupPlacement& placement) const override {
    const Estimate estimate = cost_.collective_cost(collective, placement);
    if (placement.size <= 1) return estimate;
    return watch(PlacedCollective{collective, placement}, estimate);
  }

  std::ptrdiff_t dearer = -1;  ///< position in `asked`; -1 = none
  mutable std::vector<Dependence> asked;

 private:
  template <class What>
  Estimate watch(const What& what, Estimate estimate) const {
    const auto known = std::find_if(asked.begin(), asked.end(),
                                    [&](const Dependence& d) { return same(d, what); });
    const std::ptrdiff_t position = known - asked.begin();
    if (known == asked.end()) asked.push_back({what, estimate, {}});
    if (position == dearer) estimate.time_s *= 1 + kDearer;
    return estimate;
  }

  const CostModel& cost_;
};

double largest_share(const Dependence& d) {
  return *std::max_element(d.share.begin(), d.share.end());
}

}  // namespace

std::vector<Dependence> dependences(const StepModel& model,
                                    const std::vector<ParallelPlan>& plans) {
  WatchedCost cost(model.cost());
  const StepModel watched(model.job(), cost, model.frameworks(),
                          {model.policies().begin(), model.policies().end()});
  std::vector<double> plain_s;
  for (const ParallelPlan& plan : plans) plain_s.push_back(watched.explain(plan).time.step_time_s);
  const std::size_t count = cost.asked.size();
  for (std::size_t i = 0; i < count; ++i) {
    cost.dearer = static_cast<std::ptrdiff_t>(i);
    for (std::size_t p = 0; p < plans.size(); ++p) {
      const double time_s = watched.explain(plans[p]).time.step_time_s;
      cost.asked[i].share.push_back(std::max(0.0, (time_s / plain_s[p] - 1) / kDearer));
    }
  }
  std::vector<Dependence> out = std::move(cost.asked);
  std::erase_if(out, [](const Dependence& d) { return d.share.empty(); });
  std::stable_sort(out.begin(), out.end(), [](const Dependence& a, const Dependence& b) {
    return largest_share(a) > largest_share(b);
  });
  return out;
}

}  // namespace foreplan::simulator
