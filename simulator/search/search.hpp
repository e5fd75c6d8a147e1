#pragma once
// Every valid plan of a space, scored; the best, the front, and what was done to find them.

#include "simulator/search/front.hpp"
#include "simulator/search/search_space.hpp"
#include "simulator/step/step_model.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace foreplan::simulator {

/// Counts of plans per logarithmic bin (10 bins a decade, from 1 ms to 10^5 s) of step time and of
/// peak memory (from 1 MiB in powers of 2^(1/4)).
struct ScoreHistogram {
  static constexpr int kTimeBins = 80;
  static constexpr int kMemoryBins = 80;
  std::array<std::uint64_t, kTimeBins> time{};
  std::array<std::uint64_t, kMemoryBins> memory{};
  void add(double step_time_s, double peak_bytes);
  void merge(const ScoreHistogram& other);
  /// Lower edge of a bin; the last bin is open.
  [[nodiscard]] static double time_edge_s(int bin);
  [[nodiscard]] static double memory_edge_bytes(int bin);
};

struct SearchCounters {
  std::uint64_t enumerated = 0;  ///< combinations of the space
  std::uint64_t scored = 0;      ///< of those, valid and priced
  std::uint64_t feasible = 0;    ///< of those, within memory, the host's too
};

/// A plan that was priced, and whether it stays within the memory limit.
struct ScoredPlan {
  Candidate candidate;
  bool fits = false;
};

/// What a judge says of scored plans, one entry per plan in each list.
struct Judgement {
  std::vector<double> objective;      ///< what `top` is ordered by; empty = as without a judge
  std::vector<std::uint8_t> allowed;  ///< 0 = may not be chosen; empty = all may
};

/// Judges the scored plans of a block at once. Called concurrently; what it throws ends the search.
using Judge = std::function<Judgement(std::size_t block, std::span<const ScoredPlan>)>;

struct SearchOptions {
  std::size_t top_k = 10;
  double memory_headroom = 0.03;  ///< share of usable memory to leave free
  int threads = 0;                ///< 0 = all cores
  /// Replaces step time as what `top` is ordered by (e.g. distance to a wished plan). Optional;
  /// called concurrently.
  std::function<double(const ParallelPlan&, const StepScore&)> objective;
  /// Optional; a plan that it does not allow counts as infeasible.
  Judge judge;
};

struct SearchResult {
  TopK top{10};              ///< feasible plans by step time (or the given objective)
  ParetoFront front;         ///< feasible plans
  TopK smallest{1};          ///< the plan that needs least memory, feasible or not (by peak bytes)
  ScoreHistogram histogram;  ///< all scored plans
  SearchCounters counters;
  explicit SearchResult(std::size_t top_k) : top(top_k) {}
  void merge(const SearchResult& other);
};

/// A search over one space. Work is cut into blocks that share operator costs; blocks are
/// independent and numbered, so any set of them can run anywhere and merge to the same result.
class Search {
 public:
  /// Everything referred to must outlive the search.
  Search(const StepModel& model, const SearchSpace& space);

  [[nodiscard]] std::size_t block_count() const { return blocks_.size(); }
  /// Prices one block. `every`, if given, also receives each scored plan in order.
  using Visitor = std::function<void(const Candidate&, bool feasible)>;
  [[nodiscard]] SearchResult run_block(std::size_t block, const SearchOptions& options,
                                       const Visitor& every = {}) const;
  /// Blocks [first, last) on the threads of the options; the same result for any number of threads.
  /// `progress` is called now and then with the blocks done so far.
  [[nodiscard]] SearchResult run(std::size_t first, std::size_t last, const SearchOptions& options,
                                 const std::function<void(std::size_t)>& progress = {}) const;
  [[nodiscard]] SearchResult run(const SearchOptions& options) const {
    return run(0, block_count(), options);
  }

 private:
  struct Block {
    ParallelPlan plan;  ///< the dimensions that ShardCosts depends on
    int gpus = 0;
  };
  struct Shape {
    int pp = 1, vpp = 1;
    int micro_batch_group = 0;
    int schedule = 0;
    std::vector<StageLayers> layout;
    int largest_chunk = 1;
  };
  struct BlockRun;

  void add_shape(int pp, int vpp, int schedule, int micro_batch_group);

  const StepModel& model_;
  const SearchSpace& space_;
  PartSet model_parts_ = 0;
  std::vector<Offload> offloads_;  ///< every combination
  std::vector<Block> blocks_;
  std::vector<Shape> shapes_;            ///< (pp, vpp, schedule) that the model's layers can fill
  std::uint64_t impossible_shapes_ = 0;  ///< those with more chunks than layers
};

/// Bytes that a plan may use: usable memory less the headroom.
[[nodiscard]] double memory_limit(const StepModel& model, const SearchOptions& options);

}  // namespace foreplan::simulator
