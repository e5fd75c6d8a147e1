#include "simulator/cost/cluster_cost.hpp"

#include <nlohmann/json.hpp>

namespace foreplan::simulator {
namespace {

using calibration::ClusterTrait;
using calibration::ClusterTraits;

class ClusterCost final : public CostModel {
 public:
  ClusterCost(std::unique_ptr<CostModel> costs, const ClusterTraits& traits)
      : costs_(std::move(costs)), traits_(traits) {}

  [[nodiscard]] std::string name() const override { return costs_->name(); }
  [[nodiscard]] std::string body_json() const override {
    auto body = nlohmann::ordered_json::parse(costs_->body_json());
    for (const auto& info : calibration::kClusterTraits)
      body["cluster"][std::string(info.name)] = traits_[info.trait];
    return body.dump();
  }
  [[nodiscard]] ConditionTable::PassFactors attention_factor(
      AttentionGeneration generation) const override {
    return costs_->attention_factor(generation);
  }
  [[nodiscard]] double slowest_of(int devices) const override {
    return costs_->slowest_of(devices);
  }
  [[nodiscard]] double host_factor() const override {
    return costs_->host_factor() * traits_[ClusterTrait::host];
  }
  [[nodiscard]] bool measured_expert_by_expert(const Operator& op) const override {
    return costs_->measured_expert_by_expert(op);
  }
  [[nodiscard]] Estimate operator_cost(const Operator& op) const override {
    return scaled(costs_->operator_cost(op), ClusterTrait::kernels);
  }
  [[nodiscard]] Estimate collective_cost(const Collective& collective,
                                         const GroupPlacement& placement) const override {
    return scaled(costs_->collective_cost(collective, placement),
                  placement.nodes() == 1 ? ClusterTrait::scale_up : ClusterTrait::scale_out);
  }

 private:
  [[nodiscard]] Estimate scaled(Estimate e, ClusterTrait trait) const {
    e.time_s *= traits_[trait];
    return e;
  }

  std::unique_ptr<CostModel> costs_;
  ClusterTraits traits_;
};

}  // namespace

std::unique_ptr<CostModel> make_cluster_cost(std::unique_ptr<CostModel> costs,
                                             const ClusterTraits& traits) {
  return std::make_unique<ClusterCost>(std::move(costs), traits);
}

}  // namespace foreplan::simulator
