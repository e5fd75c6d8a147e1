#include "cli/bench_report.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "core/units_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace foreplan::cli {
namespace {

using results::BenchPointRow;
using results::Disposition;

/// Of the points of one operation.
struct Group {
  std::int64_t measured = 0, not_supported = 0, failed = 0, wrong = 0, over_limit = 0;
  std::vector<double> noise;
  double flop_per_s = 0, bytes_per_s = 0;
};

void add(Group& group, const BenchPointRow& point) {
  switch (point.disposition) {
    case Disposition::measured: ++group.measured; break;
    case Disposition::not_supported: ++group.not_supported; return;
    case Disposition::failed: ++group.failed; return;
    case Disposition::wrong_result: ++group.wrong; return;
    case Disposition::over_limit: ++group.over_limit; return;
  }
  const double seconds = point.median->value;
  if (point.noise_fraction) group.noise.push_back(*point.noise_fraction);
  if (point.work) group.flop_per_s = std::max(group.flop_per_s, point.work->value / seconds);
  if (point.read && point.written) {
    const double bytes = point.read->value + point.written->value;
    group.bytes_per_s = std::max(group.bytes_per_s, bytes / seconds);
  }
}

std::string count_text(std::int64_t count) { return count == 0 ? "-" : fmt::format("{}", count); }

std::string median_percent(std::vector<double> fractions) {
  if (fractions.empty()) return "-";
  std::sort(fractions.begin(), fractions.end());
  return fmt::format("{:.2f} %", 100 * harness::quantile(fractions, 0.5));
}

}  // namespace

std::string target_text(const harness::TargetKind& kind) {
  const harness::Availability found = kind.look();
  std::string text = fmt::format("  {:<10} {}: {}\n", kind.name, kind.summary,
                                 found.usable ? "usable here" : found.reason);
  for (const harness::LoadedPart& part : found.parts) {
    text += fmt::format("  {:<10} {}: {}\n", "", part.name,
                        part.version.empty() ? part.reason : part.version);
  }
  if (!kind.settings.empty()) {
    text += fmt::format("  {:<10} settings: {}:{}\n", "", kind.name, kind.settings);
  }
  return text;
}

std::string targets_text(std::span<const harness::TargetKind> kinds) {
  std::string text;
  for (const harness::TargetKind& kind : kinds) text += target_text(kind);
  return text;
}

std::string run_text(std::span<const BenchPointRow> points) {
  std::map<std::string, Group> groups;
  for (const BenchPointRow& point : points) add(groups[point.op], point);
  Table table({"operation", ">measured", ">not supported", ">failed", ">wrong", ">over limit",
               ">noise", ">best FLOP/s", ">best bytes/s"});
  for (const auto& [op, g] : groups) {
    table.add({op, count_text(g.measured), count_text(g.not_supported), count_text(g.failed),
               count_text(g.wrong), count_text(g.over_limit), median_percent(g.noise),
               g.flop_per_s > 0 ? readable_count(g.flop_per_s) : "-",
               g.bytes_per_s > 0 ? readable(BytesPerSecond{g.bytes_per_s}) : "-"});
  }
  std::string text = table.text();
  for (const BenchPointRow& point : points) {
    if (point.disposition != Disposition::failed &&
        point.disposition != Disposition::wrong_result) {
      continue;
    }
    text += fmt::format("  {} {}: {}\n", styled(name(point.disposition), Style::bad), point.key,
                        point.message);
  }
  return text;
}

std::string ending_text(const harness::Session& session, std::size_t stored, std::size_t all,
                        const std::string& database, const std::string& device) {
  const harness::SessionCounts& counts = session.counts();
  std::string text = fmt::format("{} of {} points stored in {}", stored, all, database);
  if (counts.samples_throttled > 0) {
    text += fmt::format("; {} samples dropped, clocks held down", counts.samples_throttled);
  }
  if (counts.samples_outlying > 0) {
    text += fmt::format("; {} outliers dropped", counts.samples_outlying);
  }
  text += '\n';
  if (stored < all) {
    const bool none_fits = counts.measured + counts.failed + counts.over_limit == 0;
    text += none_fits ? "None of the others fits into this budget; give a longer one.\n"
                      : "The same command goes on with the others.\n";
  }
  return text + fmt::format("Next: foreplan calibrate --device {} --db {} --out profile.json\n",
                            device, database);
}

}  // namespace foreplan::cli
