#include "scenarios/step_trace.hpp"

#include "core/version.hpp"
#include "scenarios/memory_timeline.hpp"
#include "simulator/step/step_timeline.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace foreplan::scenarios {
namespace {

using namespace simulator;
using Json = nlohmann::ordered_json;

/// Threads of a process: the streams in their order, then messages sent, one way and the other.
constexpr int kSendThread = static_cast<int>(kStreamNames.size());
constexpr int kThreadsPerStage = kSendThread + 2;
int send_thread(bool forward) { return kSendThread + (forward ? 0 : 1); }

// 0 is the idle process and thread of a machine.
int process_of(int stage) { return stage + 1; }
int thread_of(int stage, int thread) { return stage * kThreadsPerStage + thread + 1; }

std::int64_t nanoseconds(double time_s) { return std::llround(time_s * 1e9); }

/// Exact decimal microseconds.
std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

/// "F3", "B3.1" of chunk 1; I and W are the halves of a backward that is split.
std::string slot_name(const ScheduleSlot& slot, int chunks) {
  constexpr std::string_view kLetters = "FBIW";
  const std::string chunk = chunks > 1 ? fmt::format(".{}", slot.chunk) : "";
  return fmt::format("{}{}{}", kLetters[static_cast<std::size_t>(slot.work)], slot.micro_batch,
                     chunk);
}

/// One message between ranks.
struct Message {
  std::int64_t start_ns = 0, end_ns = 0;  ///< on the sender
  std::int64_t used_ns = 0;               ///< the receiver takes it
  int from = 0, to = 0;                   ///< ranks of one copy
  bool forward = true;
};

class Trace {
 public:
  Trace(const StepReport& report, const Study& study)
      : report_(report), study_(study), timeline_(step_timeline(report)) {}

  std::string text() {
    for (const StageReport& stage : report_.stages) add_stage(stage);
    add_messages();
    for (const MemoryCurve& curve : memory_over_time(report_, timeline_)) add_memory(curve);
    // What encloses comes before what it encloses.
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.start_ns, -a.duration_ns) < std::tuple(b.start_ns, -b.duration_ns);
    });
    std::string out = "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + facts().dump() +
                      ",\n\"traceEvents\": [\n" + names();
    for (std::size_t i = 0; i < events_.size(); ++i)
      out += events_[i].text + (i + 1 < events_.size() ? ",\n" : "\n");
    return out + "]}\n";
  }

 private:
  struct Event {
    std::int64_t start_ns = 0, duration_ns = 0;
    std::string text;
  };

  void add_slice(int stage, int thread, std::string_view category, std::string_view name,
                 std::int64_t start_ns, std::int64_t end_ns, std::string_view arguments = "{}") {
    used_.insert({stage, thread});
    events_.push_back(
        {start_ns, end_ns - start_ns,
         fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},)"
                     R"("args":{}}})",
                     category, name, process_of(stage), thread_of(stage, thread),
                     microseconds(start_ns), microseconds(end_ns - start_ns), arguments)});
  }

  void add_stage(const StageReport& stage) {
    const auto& slots = timeline_.slots(stage.stage);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const TimedSlot& timed = slots[i];
      std::string title = slot_name(timed.slot, timeline_.worked.vpp);
      if (timed.slot.with_next) title += ' ' + slot_name(slots[++i].slot, timeline_.worked.vpp);
      add_slice(stage.stage, static_cast<int>(Stream::compute), "slot", title,
                nanoseconds(timed.start_s), nanoseconds(timed.end_s),
                fmt::format(R"({{"micro_batch":{},"chunk":{}}})", timed.slot.micro_batch,
                            timed.slot.chunk));
    }
    for (const Span& span : stage_spans(report_, timeline_, stage.stage)) {
      const std::int64_t start = nanoseconds(span.start_s), end = nanoseconds(span.end_s);
      if (end == start) continue;
      add_slice(stage.stage, static_cast<int>(stream_of(span.kind)), "time", name(span.kind), start,
                end);
    }
  }

  /// Messages by sender, in order of time.
  [[nodiscard]] std::vector<std::vector<Message>> messages() const {
    const auto& ranks = timeline_.pipeline.stages;
    std::map<PlacedSlot, double> ends;
    std::vector<std::pair<PlacedSlot, double>> starts;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const TimedSlot& t : ranks[rank]) {
        if (t.slot.work == Work::weight_gradient) continue;
        const PlacedSlot placed{static_cast<int>(rank), t.slot.work == Work::forward,
                                t.slot.micro_batch, t.slot.chunk};
        ends[placed] = t.end_s;
        starts.emplace_back(placed, t.start_s);
      }
    }
    std::vector<std::vector<Message>> by_sender(ranks.size());
    for (const auto& [to, used_s] : starts) {
      const auto from = sender_of(timeline_, to);
      if (!from) continue;
      double start_s = ends.at(*from);
      // The sender's own slot holds it where that slot received nothing.
      const bool inside = !sender_of(timeline_, *from);
      if (inside && !report_.time.transfer_hidden) start_s -= report_.time.transfer_s;
      by_sender[static_cast<std::size_t>(from->rank)].push_back(
          {nanoseconds(start_s), nanoseconds(start_s + report_.time.transfer_s),
           nanoseconds(used_s), from->rank, to.rank, to.forward});
    }
    for (auto& sent : by_sender) {
      std::sort(sent.begin(), sent.end(), [](const Message& a, const Message& b) {
        return std::tuple(a.forward, a.start_ns) < std::tuple(b.forward, b.start_ns);
      });
      // Messages queue up where they take longer than the work between them.
      for (std::size_t i = 0; i + 1 < sent.size(); ++i) {
        if (sent[i].forward == sent[i + 1].forward)
          sent[i].end_ns = std::min(sent[i].end_ns, sent[i + 1].start_ns);
      }
    }
    return by_sender;
  }

  /// Of every copy: where two ranks hold a stage, the other's neighbours are mirror images.
  void add_messages() {
    int id = 0;
    for (const auto& sent : messages()) {
      for (const Message& m : sent) {
        add_message(m, ++id);
        if (timeline_.schedule->copies == 1) continue;
        Message mirrored = m;
        mirrored.from = timeline_.stages - 1 - m.from;
        mirrored.to = timeline_.stages - 1 - m.to;
        add_message(mirrored, ++id);
      }
    }
  }

  void add_message(const Message& m, int id) {
    const std::string_view what = m.forward ? "activations" : "gradients";
    add_slice(m.from, send_thread(m.forward), "message", fmt::format("{} to stage {}", what, m.to),
              m.start_ns, m.end_ns);
    add_flow('s', id, what, m.from, send_thread(m.forward), m.start_ns);
    add_flow('f', id, what, m.to, static_cast<int>(Stream::compute), m.used_ns);
  }

  void add_flow(char phase, int id, std::string_view what, int stage, int thread,
                std::int64_t at_ns) {
    events_.push_back(
        {at_ns, 0,
         fmt::format(R"({{"ph":"{}",{}"id":{},"cat":"message","name":"{}","pid":{},"tid":{},)"
                     R"("ts":{}}})",
                     phase, phase == 'f' ? R"("bp":"e",)" : "", id, what, process_of(stage),
                     thread_of(stage, thread), microseconds(at_ns))});
  }

  void add_memory(const MemoryCurve& curve) {
    for (std::size_t i = 0; i < curve.time_s.size(); ++i) {
      const std::int64_t at = nanoseconds(curve.time_s[i]);
      events_.push_back(
          {at, 0,
           fmt::format(R"({{"ph":"C","name":"device memory","pid":{},"ts":{},)"
                       R"("args":{{"GiB":{:.4f}}}}})",
                       process_of(curve.stage), microseconds(at), curve.bytes[i] / kGiB)});
    }
  }

  /// Names and order of processes and threads.
  [[nodiscard]] std::string names() const {
    std::string out;
    const auto add = [&](std::string_view what, int stage, int thread, const Json& arguments) {
      out += fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{}}})", what,
                         process_of(stage), thread_of(stage, thread), arguments.dump()) +
             ",\n";
    };
    for (const StageReport& stage : report_.stages) {
      add("process_name", stage.stage, 0,
          {{"name", fmt::format("stage {} of {} ({} layers)", stage.stage, report_.stages.size(),
                                stage.layers)}});
      add("process_sort_index", stage.stage, 0, {{"sort_index", stage.stage}});
    }
    for (const auto& [stage, thread] : used_) {
      const std::string label =
          thread == send_thread(true)    ? "pp send activations"
          : thread == send_thread(false) ? "pp send gradients"
          : thread == static_cast<int>(Stream::compute)
              ? "compute"
              : fmt::format("{} (exposed)", kStreamNames[static_cast<std::size_t>(thread)]);
      add("thread_name", stage, thread, {{"name", label}});
      add("thread_sort_index", stage, thread, {{"sort_index", thread}});
    }
    return out;
  }

  [[nodiscard]] Json facts() const {
    return Json{{"program", fmt::format("foreplan {} {}", program_version(), git_commit())},
                {"scenario", study_.scenario().title},
                {"plan", to_text(report_.plan)},
                {"framework", study_.model().frameworks()[report_.plan.framework].name},
                {"profile", study_.cost().name()},
                {"step_time_s", report_.time.step_time_s},
                {"step_time_low_s", report_.time.low_s},
                {"step_time_high_s", report_.time.high_s},
                {"traced_s", timeline_.end_s},
                {"busiest_stage", report_.time.critical_stage},
                {"note",
                 "communication is drawn where no compute hides it; kinds of a slot are sums, "
                 "their order inside a layer is not simulated"}};
  }

  const StepReport& report_;
  const Study& study_;
  StepTimeline timeline_;
  std::vector<Event> events_;
  std::set<std::pair<int, int>> used_;  ///< stage and thread
};

}  // namespace

std::string step_trace(const StepReport& report, const Study& study) {
  return Trace(report, study).text();
}

}  // namespace foreplan::scenarios
