#include "simulator/memory/state_memory.hpp"

namespace foreplan::simulator {

StateBytes state_memory(const StateRules& rules, ZeroStage zero, double elements, int shards) {
  const auto sharded_from = [&](ZeroStage first) { return zero >= first ? 1.0 / shards : 1.0; };
  return {
      .parameters = rules.parameter_bytes * elements * sharded_from(ZeroStage::parameters),
      .gradients = (rules.gradient_bytes + rules.computed_gradient_bytes) * elements *
                   sharded_from(ZeroStage::gradients),
      .optimizer =
          (rules.master_bytes + rules.moment_bytes) * elements * sharded_from(ZeroStage::optimizer),
  };
}

}  // namespace foreplan::simulator
