#pragma once
// The plans that no other plan beats in step time, peak memory and GPUs at once.

#include "simulator/plan/parallel_plan.hpp"

#include <cstdint>
#include <vector>

namespace foreplan::simulator {

/// A scored plan. `index` numbers the plans of a space; equal scores are ordered by it, which makes
/// every result independent of the number of threads.
struct Candidate {
  double step_time_s = 0;
  double peak_bytes = 0;
  int gpus = 0;
  std::uint64_t index = 0;
  ParallelPlan plan;
};

/// Faster first; ties by memory, GPUs, index.
[[nodiscard]] bool better(const Candidate& a, const Candidate& b);

/// The k best candidates seen.
class TopK {
 public:
  explicit TopK(std::size_t k) : k_(k) {}
  void offer(const Candidate& candidate);
  void merge(const TopK& other);
  /// Best first.
  [[nodiscard]] std::vector<Candidate> sorted() const;

 private:
  std::size_t k_;
  std::vector<Candidate> heap_;  ///< worst of the kept on top
};

/// Pareto front, minimising time, memory and GPUs.
class ParetoFront {
 public:
  /// Kept if no member is at least as good in all three (of two equals the lower index stays).
  void offer(const Candidate& candidate);
  void merge(const ParetoFront& other);
  /// By GPUs, then time.
  [[nodiscard]] std::vector<Candidate> sorted() const;

 private:
  std::vector<Candidate> members_;
};

}  // namespace foreplan::simulator
