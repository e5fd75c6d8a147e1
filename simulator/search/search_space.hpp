#pragma once
// The set of plans that a search looks through.

#include "simulator/frameworks/traits.hpp"
#include "simulator/plan/validity.hpp"

#include <string>
#include <vector>

namespace foreplan::simulator {

/// Among the candidates of `dp_replicate`: one copy of the states per scale-up domain, or one in
/// all where a copy's ranks fill no whole domains.
inline constexpr int kReplicaPerDomain = 0;

/// Candidate values of every dimension. `dp` is not listed: it follows from the GPU count. The
/// space is the product of the lists; combinations that a rule or the framework forbids are
/// counted, not scored.
struct SearchSpace {
  std::vector<int> gpus;
  std::vector<int> tp, pp, vpp, cp, ep, etp, micro_batch;
  std::vector<int> dp_replicate = {1};
  std::vector<bool> sequence_parallel;
  std::vector<ZeroStage> zero;
  /// Distinct policies; at most `kMaxPolicies` besides the depths of `full`.
  std::vector<RecomputePolicy> recompute;
  /// Also try `full:N` for every N below the layers of a chunk.
  bool every_full_depth = false;
  std::vector<Precision> precision;
  /// Sizes of the groups that interleaved schedules deal to a chunk; 0 = pp.
  std::vector<int> micro_batch_group = {0};
  /// Shares that stay in host memory; nothing is offloaded unasked.
  std::vector<double> offload_optimizer = {0}, offload_parameters = {0}, offload_activations = {0};
  std::vector<int> schedules;  ///< positions in schedules(); empty = the default of each shape
};

/// The space that a practitioner would declare for this job: TP inside the scale-up domain, every
/// divisor for PP, the framework's ZeRO stages, recompute none / per module / full at every depth,
/// 16-bit (and FP8 where `precision` says so), CP from 16k tokens on, EP over the experts, states
/// shared out over all data-parallel ranks.
[[nodiscard]] SearchSpace default_space(const Job& job,
                                        const std::vector<FrameworkTraits>& frameworks,
                                        std::vector<Precision> precision);

/// Policies of the space without depths of `full`: what a StepModel must be built with.
[[nodiscard]] std::vector<RecomputePolicy> distinct_policies(const SearchSpace& space);

}  // namespace foreplan::simulator
