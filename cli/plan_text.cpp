#include "cli/plan_text.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "core/units_text.hpp"
#include "scenarios/launch.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreplan::cli {
namespace {

using namespace simulator;
using scenarios::Study;

std::string seconds(double s) { return readable(Seconds{s}); }
std::string gib(double bytes) { return fmt::format("{:.1f}", bytes / kGiB); }
std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

/// Shares of the predicted kernel and wire time by what they rest on.
std::string basis_text(const CostVector& cost) {
  double total = 0;
  for (const double s : cost.basis_s) total += s;
  std::string text;
  for (int b = 0; b < kBasisCount; ++b) {
    const double share = total > 0 ? cost.basis_s[static_cast<std::size_t>(b)] / total : 0;
    if (share < 0.0005) continue;
    text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", 100 * share,
                        name(static_cast<Basis>(b)));
  }
  return text;
}

std::string bar(double fraction) {
  const auto length = static_cast<std::size_t>(std::lround(40 * std::clamp(fraction, 0.0, 1.0)));
  return std::string(length, '#');
}

/// The degrees, and the pipeline schedule where it is not the one that they imply.
std::string label_of(const ParallelPlan& plan) {
  std::string text = to_text(plan);
  if (plan.schedule != default_schedule(plan.vpp))
    text += fmt::format(" {}", schedule_of(plan).name);
  return text;
}

}  // namespace

std::string question_text(const Study& study) {
  const scenarios::Scenario& s = study.scenario();
  const auto total = static_cast<double>(models::parameter_count(s.model));
  const auto active = static_cast<double>(models::active_parameter_count(s.model));
  const Topology& t = s.cluster.topology;
  std::string text = styled(s.title, Style::title) + '\n';
  text += fmt::format("  model     {}, {} parameters{}\n", s.model.name, readable_count(total),
                      active < total ? fmt::format(" ({} active)", readable_count(active)) : "");
  text += fmt::format("  cluster   {}: {} GPUs, scale-up {} GPUs at {}, {} NICs per node at {}\n",
                      s.cluster.name, s.cluster.devices(), t.scale_up_size,
                      readable(t.scale_up_bandwidth), t.nics_per_node, readable(t.nic_bandwidth));
  text += fmt::format("  job       {} tokens x {} sequences = {} tokens per step\n",
                      s.training.sequence_length, s.training.global_batch,
                      readable_count(s.training.tokens_per_step()));
  const bool datasheet = study.profile() == nullptr;
  text += fmt::format("  profile   {} ({})\n", study.cost().name(),
                      datasheet ? "no measurement behind it: published efficiencies, wide intervals"
                                : "fitted to measured kernels and collectives");
  return text;
}

std::string headline_text(const StepReport& report, const Study& study) {
  const StepBreakdown& time = report.time;
  const double usable = study.model().usable_bytes();
  const double peak = report.memory.device_total();
  std::string text = fmt::format("  {}\n", styled(label_of(report.plan), Style::title));
  text += fmt::format("  step time   {} (90 % interval {} to {})\n", seconds(time.step_time_s),
                      seconds(time.low_s), seconds(time.high_s));
  text += fmt::format("  throughput  {:.0f} tokens/s/GPU, {} tokens/s\n", time.tokens_per_s_per_gpu,
                      readable_count(time.tokens_per_s_per_gpu * report.plan.world_size()));
  text += fmt::format(
      "  MFU         {} (full attention; {} causal; hardware {}) of the 16-bit dense peak\n",
      percent(time.mfu), percent(time.mfu_causal), percent(time.hfu));
  text += "  rests on    " + basis_text(time.cost) + '\n';
  text += fmt::format("  memory      {} GiB of {} GiB usable, {} GiB free\n", gib(peak),
                      gib(usable), gib(usable - peak));
  text +=
      fmt::format("              90 % interval {} to {} GiB; out of memory with a chance of {}\n",
                  gib(report.outlook.low_bytes), gib(report.outlook.high_bytes),
                  percent(report.outlook.oom_probability));
  if (report.host_bytes > 0) {
    const double host = study.scenario().cluster.host_memory_per_node.value;
    text += fmt::format(
        "  host        {} GiB offloaded per node{}\n", gib(report.host_bytes),
        host > 0 ? fmt::format(" of {} GiB", gib(host)) : ", whose memory is not known");
  }
  return text;
}

std::string breakdown_text(const StepBreakdown& time) {
  Table table({"", ">", ">", "", ""});
  for (int k = 0; k < kCostKindCount; ++k) {
    const auto kind = static_cast<CostKind>(k);
    const double s = time.cost[kind];
    if (s <= 0) continue;
    table.add({std::string(name(kind)), seconds(s), percent(s / time.step_time_s),
               std::string(meaning(kind)), bar(s / time.step_time_s)});
  }
  table.add({"step", seconds(time.step_time_s), "100.0 %",
             fmt::format("{} micro-batches, stage {} is the busiest", time.micro_batches,
                         time.critical_stage),
             ""});
  return table.text();
}

std::string memory_text(const StepReport& report, const Study& study) {
  const MemoryBreakdown& m = report.memory;
  Table table({"", ">GiB", "", ""});
  const double usable = study.model().usable_bytes();
  const auto row = [&](std::string_view label, double bytes, std::string what) {
    if (bytes > 0)
      table.add({std::string(label), gib(bytes), std::move(what), bar(bytes / usable)});
  };
  for (const MemoryPart& part : parts(m)) row(part.name, part.bytes, std::string(part.meaning));
  row("total", m.device_total(),
      fmt::format("allocated {}, reserved {}", gib(m.allocated()), gib(m.reserved())));
  return table.text();
}

std::string stages_text(const StepReport& report) {
  Table table({"stage", ">layers", ">forward", ">backward", ">params GiB", ">activations GiB",
               ">total GiB"});
  for (const StageReport& s : report.stages) {
    table.add({std::to_string(s.stage), std::to_string(s.layers), seconds(s.forward_s),
               seconds(s.backward_s), gib(s.memory.parameters), gib(s.memory.activations),
               gib(s.memory.device_total())});
  }
  return table.text();
}

std::string comparison_text(const StepReport& best, const StepReport& other) {
  const double difference = other.time.step_time_s - best.time.step_time_s;
  std::vector<std::pair<double, CostKind>> deltas;
  for (int k = 0; k < kCostKindCount; ++k) {
    const auto kind = static_cast<CostKind>(k);
    const double delta = other.time.cost[kind] - best.time.cost[kind];
    if (std::abs(delta) > 0.001 * best.time.step_time_s) deltas.emplace_back(delta, kind);
  }
  std::sort(deltas.begin(), deltas.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  std::string text = fmt::format("  {}\n  is {} slower ({})", label_of(other.plan),
                                 seconds(difference), percent(difference / best.time.step_time_s));
  if (deltas.size() > 4) deltas.resize(4);
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    text += fmt::format("{}{} {}{}", i == 0 ? ": " : ", ", name(deltas[i].second),
                        deltas[i].first > 0 ? "+" : "-", seconds(std::abs(deltas[i].first)));
  }
  const bool within =
      other.time.low_s <= best.time.high_s && difference < 0.05 * best.time.step_time_s;
  return text + (within ? "; the two are within the interval of each other: try both\n" : "\n");
}

std::string nearest_fit_text(const scenarios::NearestFit& nearest, const Study& study) {
  std::string text =
      styled(nearest.more_gpus ? fmt::format("\nNearest that fits: {} GPUs\n", nearest.gpus)
                               : std::string("\nNearest that fits on these GPUs\n"),
             Style::title);
  if (nearest.assumed_network) {
    text += fmt::format("  the cluster has no network; one NIC per node at {} was assumed\n",
                        readable(scenarios::kAssumedNetwork));
  }
  return text + headline_text(nearest.report, study);
}

std::string notices_text(const std::vector<std::string>& notices) {
  if (notices.empty()) return {};
  std::string text = styled("\nWhat the launch file says and this leaves out\n", Style::title);
  for (const std::string& notice : notices) text += fmt::format("  {}\n", notice);
  return text;
}

std::string launch_text(const ParallelPlan& plan, const Study& study) {
  const scenarios::Launch launch = scenarios::launch_of(plan, study);
  if (!launch.refusal.empty()) {
    return fmt::format("  {} cannot express this plan: {}\n", launch.exporter, launch.refusal);
  }
  std::string text, line;
  for (const std::string& argument : launch.lines) {
    constexpr std::size_t kWidth = 96;
    if (!launch.is_command) {
      text += "  " + argument + '\n';
    } else {
      if (!line.empty() && line.size() + argument.size() + 1 > kWidth) {
        text += "  " + line + " \\\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + argument;
    }
  }
  if (!line.empty()) text += "  " + line + '\n';
  if (!launch.exporter.empty()) {
    text += fmt::format("  all of it, with the model: foreplan export --to {}\n", launch.exporter);
  }
  return text;
}

std::string plan_table(const std::vector<StepReport>& reports, const Study& study) {
  Table table({">#", "plan", ">step time", ">tokens/s/GPU", ">MFU", ">peak GiB", ">free GiB"});
  int number = 0;
  for (const StepReport& report : reports) {
    const double peak = report.memory.device_total();
    std::string label = label_of(report.plan);
    if (study.model().frameworks().size() > 1)
      label += " " + study.model().frameworks()[report.plan.framework].name;
    table.add({std::to_string(++number), label, seconds(report.time.step_time_s),
               fmt::format("{:.0f}", report.time.tokens_per_s_per_gpu), percent(report.time.mfu),
               gib(peak), gib(study.model().usable_bytes() - peak)});
  }
  return table.text();
}

}  // namespace foreplan::cli
