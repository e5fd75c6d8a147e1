#include "simulator/step/step_timeline.hpp"

#include <algorithm>

namespace foreplan::simulator {

Stream stream_of(CostKind kind) {
  switch (kind) {
    case CostKind::tp: return Stream::tp;
    case CostKind::cp: return Stream::cp;
    case CostKind::ep: return Stream::ep;
    case CostKind::pp: return Stream::pp;
    case CostKind::dp: return Stream::dp;
    case CostKind::offload: return Stream::host;
    case CostKind::gemm:
    case CostKind::attention:
    case CostKind::elementwise:
    case CostKind::recompute:
    case CostKind::host:
    case CostKind::optimizer:
    case CostKind::bubble: break;
  }
  return Stream::compute;
}

int StepTimeline::rank_of(int stage) const {
  return schedule->copies > 1 ? std::min(stage, stages - 1 - stage) : stage;
}

const std::vector<TimedSlot>& StepTimeline::slots(int stage) const {
  return pipeline.stages[static_cast<std::size_t>(rank_of(stage))];
}

StepTimeline step_timeline(const StepReport& report) {
  const ParallelPlan& plan = report.plan;
  StepTimeline step;
  step.schedule = &schedule_of(plan);
  step.stages = plan.pp;
  step.worked = worked_shape(*step.schedule, pipeline_shape(plan, report.time.micro_batches));
  std::vector<std::vector<ChunkTime>> times;
  for (int rank = 0; rank < step.worked.pp; ++rank) {
    const StageReport& stage = report.stages[static_cast<std::size_t>(rank)];
    // Exposed messages are part of the slots.
    ChunkTime chunk = stage.chunk;
    chunk.forward_s += stage.forward[CostKind::pp] / step.worked.vpp;
    chunk.backward_s += stage.backward[CostKind::pp] / step.worked.vpp;
    times.emplace_back(static_cast<std::size_t>(step.worked.vpp), chunk);
  }
  const double delay_s = report.time.transfer_hidden ? report.time.transfer_s : 0.0;
  step.pipeline = run_schedule(*step.schedule, step.worked, times, delay_s);
  step.end_s = step.pipeline.end_s + report.time.end_traffic_s +
               report.time.cost[CostKind::optimizer] + report.time.host_update_s;
  return step;
}

namespace {

using KindTimes = std::array<double, kCostKindCount>;

double& at(KindTimes& times, CostKind kind) { return times[static_cast<std::size_t>(kind)]; }

/// Weight gradients are GEMMs with their share of the launches that the device waits for.
KindTimes weight_times(const StageReport& stage) {
  const CostVector& all = stage.backward;
  const double device_s =
      all[CostKind::gemm] + all[CostKind::attention] + all[CostKind::elementwise];
  const double busy_s = device_s + all[CostKind::host];
  KindTimes times{};
  if (busy_s <= 0) return times;
  at(times, CostKind::host) = stage.chunk.weight_s * all[CostKind::host] / busy_s;
  at(times, CostKind::gemm) = stage.chunk.weight_s - at(times, CostKind::host);
  return times;
}

/// One slot of a stage by kind.
KindTimes slot_times(const StageReport& stage, Work work, int chunks) {
  if (work == Work::weight_gradient) return weight_times(stage);
  const CostVector& whole = work == Work::forward ? stage.forward : stage.backward;
  KindTimes times = whole.time_s;
  for (double& time_s : times) time_s /= chunks;
  if (work == Work::input_gradient) {
    const KindTimes later = weight_times(stage);
    for (std::size_t k = 0; k < times.size(); ++k) times[k] -= later[k];
    at(times, CostKind::tp) += stage.chunk.split_s;
  }
  return times;
}

/// Order of the kinds inside a slot, messages left aside.
constexpr std::array kInsideSlot = {CostKind::recompute,   CostKind::gemm, CostKind::attention,
                                    CostKind::elementwise, CostKind::host, CostKind::tp,
                                    CostKind::cp,          CostKind::ep,   CostKind::dp,
                                    CostKind::offload};

/// Lays spans end to end.
class Laying {
 public:
  /// Waiting shorter than this is rounding.
  static constexpr double kLeastWait_s = 1e-10;

  void wait_until(double time_s) {
    if (time_s - now_s_ > kLeastWait_s) spans_.push_back({CostKind::bubble, now_s_, time_s});
    now_s_ = time_s;
  }
  void add(CostKind kind, double duration_s) {
    if (duration_s <= 0) return;
    spans_.push_back({kind, now_s_, now_s_ + duration_s});
    now_s_ += duration_s;
  }
  [[nodiscard]] std::vector<Span> take() { return std::move(spans_); }

 private:
  double now_s_ = 0;
  std::vector<Span> spans_;
};

}  // namespace

std::vector<Span> stage_spans(const StepReport& report, const StepTimeline& timeline, int stage) {
  const StageReport& work = report.stages[static_cast<std::size_t>(stage)];
  const auto& slots = timeline.slots(stage);
  Laying laying;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const TimedSlot& timed = slots[i];
    KindTimes times = slot_times(work, timed.slot.work, timeline.worked.vpp);
    if (timed.slot.with_next) {
      const KindTimes beside = slot_times(work, slots[++i].slot.work, timeline.worked.vpp);
      for (std::size_t k = 0; k < times.size(); ++k) times[k] += beside[k];
      at(times, CostKind::ep) -= work.chunk.saved_s;
    }
    const PlacedSlot placed{timeline.rank_of(stage), timed.slot.work == Work::forward,
                            timed.slot.micro_batch, timed.slot.chunk};
    const bool receives = sender_of(timeline, placed).has_value();
    laying.wait_until(timed.start_s);
    if (receives) laying.add(CostKind::pp, at(times, CostKind::pp));
    for (const CostKind kind : kInsideSlot) laying.add(kind, at(times, kind));
    if (!receives) laying.add(CostKind::pp, at(times, CostKind::pp));
  }
  laying.wait_until(timeline.pipeline.end_s);
  laying.add(CostKind::dp, report.time.end_traffic_s);
  laying.add(CostKind::optimizer, report.time.cost[CostKind::optimizer]);
  laying.add(CostKind::offload, report.time.host_update_s);
  return laying.take();
}

std::optional<PlacedSlot> sender_of(const StepTimeline& timeline, const PlacedSlot& slot) {
  const ChunkPlacement placement = timeline.schedule->placement;
  const PipelineShape& worked = timeline.worked;
  const int here = position_of(placement, worked.pp, slot.rank, slot.chunk);
  const int before = here + (slot.forward ? -1 : 1);
  if (before < 0 || before >= worked.pp * worked.vpp) return std::nullopt;
  const int rank = stage_at(placement, worked.pp, before);
  if (rank == slot.rank) return std::nullopt;
  return PlacedSlot{rank, slot.forward, slot.micro_batch, before / worked.pp};
}

}  // namespace foreplan::simulator
