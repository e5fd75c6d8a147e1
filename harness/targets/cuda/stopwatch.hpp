#pragma once
// Time of launches in a row by CUDA events, without the host's time per launch and, where asked,
// without what an earlier launch left in the last cache.

#include "core/quantity.hpp"
#include "harness/target.hpp"
#include "harness/targets/cuda/handles.hpp"

#include <functional>
#include <vector>

namespace foreplan::harness::cuda {

/// How launches are put into the stream.
struct LaunchPlan {
  LaunchMode mode = LaunchMode::stream;
  /// Ranks that launch together, and repeat together; null = this one alone.
  RankGroup* ranks = nullptr;
  std::function<void(cudaStream_t)> wait{};  ///< instead of cudaStreamSynchronize
  /// Launches that find their operands out of the cache after one flush; 0 = hot, never flush.
  /// Launches beyond it get a flush of their own, outside of the timed spans.
  int cold_launches = 0;
};

/// Launches are enqueued in spans while the stream is held back, an event before and behind each;
/// times of the spans are added. A span is short enough that the host is never kept waiting by a
/// full queue; where a hold has ended before all of a span was enqueued, spans are halved and the
/// span is run again.
class Stopwatch {
 public:
  /// Flushing needs twice the last cache of this device.
  explicit Stopwatch(cudaStream_t stream);

  /// Runs launch(0), launch(1), ... The number tells which set of operands is next. Infinite where
  /// another rank has failed; throws std::runtime_error where this one does.
  Seconds time(int launches, const LaunchPlan& plan, const std::function<void(int)>& launch);

 private:
  struct Span {
    int first = 0, count = 0;
  };
  void enqueue(const Span& span, const LaunchPlan& plan, const std::function<void(int)>& launch,
               std::size_t at);
  void record(int count, const std::function<void(int)>& launch);
  [[nodiscard]] bool run_spans(const std::vector<Span>& spans, const LaunchPlan& plan,
                               const std::function<void(int)>& launch);
  [[nodiscard]] bool attempt(int launches, const LaunchPlan& plan,
                             const std::function<void(int)>& launch);
  [[nodiscard]] Seconds elapsed(int launches) const;

  cudaStream_t stream_;
  DeviceMemory flushed_;
  std::size_t flush_bytes_ = 0;
  PinnedMemory
      gate_;  ///< [0] ticket of the last span that may run, [1] whether a hold ended by itself
  int ticket_ = 0;
  int longest_span_ = kMostLaunches;
  std::vector<EventOwner> starts_, stops_;
  GraphExecOwner graph_;
  int graph_launches_ = 0;

  /// The queue of a stream takes about a thousand kernels, and a launch may be several.
  static constexpr int kMostLaunches = 128;
};

}  // namespace foreplan::harness::cuda
