#include "harness/targets/cuda/stopwatch.hpp"

#include "harness/launch/together.hpp"

#include <algorithm>
#include <vector>

namespace foreplan::harness::cuda {
namespace {

std::size_t last_cache_bytes() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Stopwatch::Stopwatch(cudaStream_t stream)
    : stream_(stream), flush_bytes_(2 * last_cache_bytes()), gate_(pinned_memory(2 * sizeof(int))) {
  flushed_ = device_memory(std::max<std::size_t>(flush_bytes_, 1));
  auto* const gate = static_cast<int*>(gate_.get());
  gate[0] = gate[1] = 0;
}

Seconds Stopwatch::time(int launches, const LaunchPlan& plan,
                        const std::function<void(int)>& launch) {
  while (true) {
    const Attempt tried = together(plan.ranks, [&] { return attempt(launches, plan, launch); });
    if (tried == Attempt::elsewhere_failed) return kNever;
    if (tried == Attempt::good) return elapsed(launches);
    longest_span_ = std::max(1, longest_span_ / 2);
  }
}

/// False when a hold ended too early; not of single launches, which cannot be shortened.
bool Stopwatch::attempt(int launches, const LaunchPlan& plan,
                        const std::function<void(int)>& launch) {
  graph_.reset();
  int step = std::min(longest_span_, launches);
  if (plan.cold_launches > 0) step = std::min(step, plan.cold_launches);
  if (plan.mode == LaunchMode::graph) record(step, launch);
  std::vector<Span> spans;
  for (int first = 0; first < launches; first += step) {
    spans.push_back({first, std::min(step, launches - first)});
  }
  return run_spans(spans, plan, launch) || longest_span_ == 1;
}

Seconds Stopwatch::elapsed(int launches) const {
  const auto used = static_cast<std::size_t>(ticket_);
  double milliseconds = 0;
  // A graph is replayed whole: what the last replay did too much is taken off in proportion.
  const double scale = graph_ ? launches / (static_cast<double>(used) * graph_launches_) : 1;
  for (std::size_t i = 0; i < used; ++i) {
    float span = 0;
    check(cudaEventElapsedTime(&span, starts_[i].get(), stops_[i].get()), "cudaEventElapsedTime");
    milliseconds += static_cast<double>(span);
  }
  return Seconds{milliseconds * scale * 1e-3};
}

void Stopwatch::record(int count, const std::function<void(int)>& launch) {
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    for (int i = 0; i < count; ++i) launch(i);
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  const GraphOwner owned(graph);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  graph_.reset(made);
  graph_launches_ = count;
}

void Stopwatch::enqueue(const Span& span, const LaunchPlan& plan,
                        const std::function<void(int)>& launch, std::size_t at) {
  auto* const gate = static_cast<int*>(gate_.get());
  if (plan.cold_launches > 0) {
    flush(flushed_.get(), flush_bytes_, static_cast<unsigned>(at + 1), stream_);
  }
  hold(gate, ticket_ + 1, gate + 1, stream_);
  check(cudaEventRecord(starts_[at].get(), stream_), "cudaEventRecord");
  if (graph_) {
    check(cudaGraphLaunch(graph_.get(), stream_), "cudaGraphLaunch");
  } else {
    for (int i = 0; i < span.count; ++i) launch(span.first + i);
  }
  check(cudaEventRecord(stops_[at].get(), stream_), "cudaEventRecord");
}

bool Stopwatch::run_spans(const std::vector<Span>& spans, const LaunchPlan& plan,
                          const std::function<void(int)>& launch) {
  while (starts_.size() < spans.size()) {
    starts_.push_back(make_event());
    stops_.push_back(make_event());
  }
  auto* const gate = static_cast<volatile int*>(gate_.get());
  gate[0] = 0;
  gate[1] = 0;
  ticket_ = 0;
  try {
    for (std::size_t at = 0; at < spans.size(); ++at) {
      enqueue(spans[at], plan, launch, at);
      gate[0] = ++ticket_;
    }
  } catch (...) {
    gate[0] = ticket_ + 1;
    throw;
  }
  plan.wait ? plan.wait(stream_) : check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return gate[1] == 0;
}

}  // namespace foreplan::harness::cuda
