#pragma once
// One step of a plan over time: what every stage does when, stream by stream.

#include "simulator/schedule/timeline.hpp"
#include "simulator/step/step_model.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// What work runs on. Communication streams hold exposed time only, as the breakdown does.
enum class Stream : std::uint8_t { compute, tp, cp, ep, dp, pp, host };
inline constexpr std::array<std::string_view, 7> kStreamNames = {"compute", "tp", "cp",  "ep",
                                                                 "dp",      "pp", "host"};
constexpr std::string_view name(Stream stream) {
  return kStreamNames[static_cast<std::size_t>(stream)];
}
[[nodiscard]] Stream stream_of(CostKind kind);

/// A stretch of time of one kind on one stage. Spans of a stage follow each other without overlap:
/// exposed communication is what no compute runs beside.
struct Span {
  CostKind kind{};
  double start_s = 0, end_s = 0;
};

/// The step run event by event. The pipeline is drained at `pipeline.end_s`; then follow, on all
/// stages alike, the data-parallel traffic that nothing hides and the optimizer, on the device and
/// on the host.
struct StepTimeline {
  const PipelineSchedule* schedule = nullptr;
  int stages = 1;        ///< of the plan
  PipelineShape worked;  ///< of the ranks of one copy
  Timeline pipeline;     ///< of these
  double end_s = 0;

  /// What a stage of the plan does: where two ranks hold every stage, those of the second half do
  /// what their mirror images do.
  [[nodiscard]] const std::vector<TimedSlot>& slots(int stage) const;
  [[nodiscard]] int rank_of(int stage) const;
};

/// Every chunk takes an equal share of its stage's time. An exposed message occupies the stage that
/// receives it, at the start of the slot that needs it; where a slot has no input from another
/// stage, the same time stands at its end for the message sent. Differs from the closed form of
/// `StepReport::time` only in how long stages wait for each other (docs/model.md, section 4).
[[nodiscard]] StepTimeline step_timeline(const StepReport& report);

/// The spans of one stage from 0 to `end_s`, waiting (`bubble`) included. Kinds of one slot, or of
/// two that run as one, stand in a fixed order, each summed up: the order inside a layer is not
/// simulated. Two that run as one hide expert-parallel traffic.
[[nodiscard]] std::vector<Span> stage_spans(const StepReport& report, const StepTimeline& timeline,
                                            int stage);

/// A slot on its rank.
struct PlacedSlot {
  int rank = 0;
  bool forward = true;  ///< else the backward that passes a gradient on
  int micro_batch = 0, chunk = 0;
  friend constexpr auto operator<=>(const PlacedSlot&, const PlacedSlot&) = default;
};
/// The slot on another rank whose result this one starts from; empty where it starts from the
/// rank's own.
[[nodiscard]] std::optional<PlacedSlot> sender_of(const StepTimeline& timeline,
                                                  const PlacedSlot& slot);

}  // namespace foreplan::simulator
