#include "cli/calibration_page.hpp"

#include "core/version.hpp"
#include "scenarios/report/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace foreplan::cli {
namespace {

using scenarios::escaped;
using scenarios::html_page;
using simulator::calibration::CalibrationProfile;
using simulator::calibration::kModelKinds;
using simulator::calibration::ModelKind;
using Point = simulator::calibration::Scoreboard::Point;

// Small enough that the text can be read on a phone.
constexpr double kWidth = 460, kHeight = 380;
constexpr double kLeft = 74, kRight = 34, kTop = 34, kBottom = 52;
// Fewer dots than this are drawn larger.
constexpr std::size_t kFewPoints = 300;
// Ratios beyond these are drawn at the edge; the tables tell how far they really are.
constexpr double kLowestRatio = 0.4, kHighestRatio = 2.5;

/// "10 us", "1 GFLOP".
std::string with_prefix(double value, std::string_view unit) {
  if (unit.empty()) return fmt::format("{:g}", value);
  constexpr std::array<std::string_view, 11> kPrefixes = {"p", "n", "u", "m", "", "k",
                                                          "M", "G", "T", "P", "E"};
  constexpr int kPlain = 4;
  const int thousands = std::clamp(static_cast<int>(std::floor(std::log10(value) / 3 + 1e-9)),
                                   -kPlain, static_cast<int>(kPrefixes.size()) - 1 - kPlain);
  return fmt::format("{:g} {}{}", value / std::pow(10.0, 3 * thousands),
                     kPrefixes[static_cast<std::size_t>(thousands + kPlain)], unit);
}

std::vector<double> ticks(const PlotAxis& axis) {
  if (axis.unit.empty()) return {0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2};
  std::vector<double> out;
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  constexpr int kMostTicks = 5;
  const int step = std::max(1, (last - first + kMostTicks - 1) / kMostTicks);
  for (int e = first; e <= last; e += step) out.push_back(std::pow(10.0, e));
  return out;
}

/// Share of the axis from its low end, 0..1.
double place(const PlotAxis& axis, double value) {
  const double at = std::log(value / axis.low) / std::log(axis.high / axis.low);
  return std::clamp(at, 0.0, 1.0);
}
double x_of(const Plot& plot, double value) {
  return kLeft + place(plot.x, value) * (kWidth - kLeft - kRight);
}
double y_of(const Plot& plot, double value) {
  return kHeight - kBottom - place(plot.y, value) * (kHeight - kTop - kBottom);
}

std::string axes_svg(const Plot& plot) {
  std::string out;
  auto to = std::back_inserter(out);
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (const double value : ticks(plot.x)) {
    const double x = x_of(plot, value);
    fmt::format_to(to, "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/>", x, kTop, bottom);
    fmt::format_to(to,
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x,
                   bottom + 16, with_prefix(value, plot.x.unit));
  }
  for (const double value : ticks(plot.y)) {
    const double y = y_of(plot, value);
    fmt::format_to(to, "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kLeft, y, right);
    fmt::format_to(to, "<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                   kLeft - 6, y + 4, with_prefix(value, plot.y.unit));
  }
  fmt::format_to(to, "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                 (kLeft + right) / 2, kHeight - 12, escaped(plot.x.title));
  fmt::format_to(to,
                 "<text class=\"axis\" transform=\"translate(14 {}) rotate(-90)\" "
                 "text-anchor=\"middle\">{}</text>",
                 (kTop + bottom) / 2, escaped(plot.y.title));
  return out;
}

/// A dot is a line without length and with round ends: a tenth of the text of a circle element.
std::string series_svg(const Plot& plot) {
  std::string out;
  auto to = std::back_inserter(out);
  double legend = kTop + 12;  // its lines go down
  std::size_t points = 0;
  for (const PlotSeries& series : plot.series) points += series.points.size();
  for (const PlotSeries& series : plot.series) {
    fmt::format_to(to, "<path class=\"dot {}{}\" d=\"", series.css_class,
                   points < kFewPoints ? " large" : "");
    for (const auto& [x, y] : series.points)
      fmt::format_to(to, "M{:.1f} {:.1f}h0", x_of(plot, x), y_of(plot, y));
    out += "\"/>";
    const std::string text = fmt::format("{} ({})", series.name, series.points.size());
    fmt::format_to(to, "<path class=\"dot key {}\" d=\"M{} {}h0\"/>", series.css_class, kLeft + 12,
                   legend);
    fmt::format_to(to, "<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>", kLeft + 20, legend + 4,
                   escaped(text));
    legend += 16;
  }
  return out;
}

/// The decades that hold all values.
PlotAxis decades(std::string title, std::string unit, double low, double high) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  return {std::move(title), std::move(unit), std::pow(10.0, first),
          std::pow(10.0, std::max(last, first + 1))};
}

}  // namespace

std::string svg(const Plot& plot) {
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"{2}\"><text class=\"title\" x=\"{3}\" y=\"20\">{2}</text>",
      kWidth, kHeight, escaped(plot.title), kLeft);
  out += axes_svg(plot) + series_svg(plot);
  const double low = std::max(plot.x.low, plot.y.low), high = std::min(plot.x.high, plot.y.high);
  if (!plot.diagonal) {
    out += fmt::format("<path class=\"line\" d=\"M{} {:.1f}H{}\"/>", kLeft, y_of(plot, 1),
                       kWidth - kRight);
  } else if (low < high) {
    out += fmt::format("<path class=\"line\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", x_of(plot, low),
                       y_of(plot, low), x_of(plot, high), y_of(plot, high));
  }
  return out + "</svg>\n";
}

std::vector<Plot> score_plots(const std::vector<Point>& points) {
  std::vector<Plot> plots;
  for (const ModelKind model : kModelKinds) {
    const bool compute = model == ModelKind::gemm || model == ModelKind::attention;
    std::array<PlotSeries, 2> against, ratio;
    against[0] = ratio[0] = {"in the 90 % interval", "inside", {}};
    against[1] = ratio[1] = {"outside of it", "outside", {}};
    double least_s = 1e30, most_s = 0, least = 1e30, most = 0;
    for (const Point& p : points) {
      const bool drawable = p.measured_s > 0 && p.predicted_s > 0 && p.size > 0;
      if (p.model != model || !drawable) continue;
      const std::size_t series = p.covered ? 0 : 1;
      against[series].points.emplace_back(p.measured_s, p.predicted_s);
      ratio[series].points.emplace_back(p.size, p.predicted_s / p.measured_s);
      least_s = std::min({least_s, p.measured_s, p.predicted_s});
      most_s = std::max({most_s, p.measured_s, p.predicted_s});
      least = std::min(least, p.size);
      most = std::max(most, p.size);
    }
    if (most_s <= 0) continue;
    const std::string title(name(model));
    plots.push_back({title + ": predicted against measured",
                     decades("measured time", "s", least_s, most_s),
                     decades("predicted time", "s", least_s, most_s),
                     true,
                     {against.begin(), against.end()}});
    plots.push_back({title + ": residual over size",
                     decades(compute ? "work" : "size", compute ? "FLOP" : "B", least, most),
                     {"predicted / measured (ratio)", "", kLowestRatio, kHighestRatio},
                     false,
                     {ratio.begin(), ratio.end()}});
  }
  return plots;
}

namespace {

std::string facts_html(const CalibrationProfile& p) {
  std::string out = "<dl class=\"facts\">\n";
  const auto add = [&](std::string_view label, const std::string& text) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(label), escaped(text));
  };
  add("Device", p.device.name);
  add("Rows of this device",
      fmt::format("{} GEMM, {} attention, {} bandwidth-bound kernels, {} collectives", p.gemm_rows,
                  p.attention_rows, p.bandwidth_rows, p.collective_rows));
  for (const std::string& note : p.notes) add("Note", note);
  add("Made by", fmt::format("foreplan {} {}", program_version(), git_commit()));
  return out + "</dl>\n";
}

/// Columns that hold anything, the device aside, which the heading names.
std::vector<std::size_t> used_columns(const Table& table) {
  std::vector<std::size_t> used;
  for (std::size_t c = 0; c < table.titles().size(); ++c) {
    const auto& rows = table.rows();
    if (table.titles()[c] == "device") continue;
    if (std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !row[c].empty(); }))
      used.push_back(c);
  }
  return used;
}

/// Cells are text; the first column shown holds the row's header.
std::string table_html(const Table& table, std::string_view caption) {
  const auto cell = [&](std::string_view open, std::string_view close, std::size_t column,
                        const std::string& text) {
    return fmt::format("<{}{}>{}</{}>", open, table.is_right(column) ? " class=\"number\"" : "",
                       escaped(text), close);
  };
  std::string out = fmt::format("<table>\n<caption>{}</caption>\n<thead><tr>", escaped(caption));
  const auto columns = used_columns(table);
  for (const std::size_t c : columns) out += cell("th scope=\"col\"", "th", c, table.titles()[c]);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows()) {
    out += "<tr>";
    for (const std::size_t c : columns)
      out += c == columns.front() ? cell("th scope=\"row\"", "th", c, row[c])
                                  : cell("td", "td", c, row[c]);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace

std::string calibration_page(const CalibrationProfile& profile, const std::vector<Plot>& plots,
                             const std::vector<PageSection>& sections) {
  std::string body = fmt::format(
      "<a class=\"skip\" href=\"#main\">Skip to the plots</a>\n<header>\n"
      "<p class=\"eyebrow\">foreplan calibration</p>\n<h1>{}</h1>\n</header>\n"
      "<main id=\"main\" tabindex=\"-1\">\n<section aria-labelledby=\"h-profile\">\n"
      "<h2 id=\"h-profile\">The profile</h2>\n{}</section>\n",
      escaped(profile.name), facts_html(profile));
  if (!plots.empty()) {
    body += fmt::format(
        "<section aria-labelledby=\"h-plots\">\n<h2 id=\"h-plots\">Predicted against "
        "measured</h2>\n<p>Each dot is a measured row that the fit behind its prediction had not "
        "seen. Ratios beyond {} and {} are drawn at the edge.</p>\n<div class=\"plots\">\n",
        kLowestRatio, kHighestRatio);
    for (const Plot& plot : plots) body += svg(plot);
    body += "</div>\n</section>\n";
  }
  int number = 0;
  for (const PageSection& section : sections) {
    const std::string title = escaped(section.title);
    body += fmt::format(
        "<section aria-labelledby=\"h-{0}\">\n<h2 id=\"h-{0}\">{1}</h2>\n<div class=\"wide\" "
        "tabindex=\"0\" role=\"region\" aria-labelledby=\"h-{0}\">\n{2}</div>\n</section>\n",
        ++number, title, table_html(section.table, "Absolute relative errors"));
  }
  return html_page(profile.name, body + "</main>\n");
}

}  // namespace foreplan::cli
