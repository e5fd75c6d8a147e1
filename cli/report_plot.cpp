#include "cli/report_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace foreplan::cli {
namespace {

using simulator::calibration::kModelKinds;
using simulator::calibration::ModelKind;
using Point = simulator::calibration::Scoreboard::Point;

constexpr double kWidth = 560, kHeight = 420;
constexpr double kLeft = 74, kRight = 16, kTop = 34, kBottom = 52;
// Ratios beyond these are drawn at the edge; the tables tell how far they really are.
constexpr double kLowestRatio = 0.4, kHighestRatio = 2.5;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

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
  const int step = std::max(1, (last - first + 7) / 8);
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
  double legend = kLeft + 12;
  for (const PlotSeries& series : plot.series) {
    fmt::format_to(to, "<path class=\"dot {}\" d=\"", series.css_class);
    for (const auto& [x, y] : series.points)
      fmt::format_to(to, "M{:.1f} {:.1f}h0", x_of(plot, x), y_of(plot, y));
    out += "\"/>";
    const std::string text = fmt::format("{} ({})", series.name, series.points.size());
    fmt::format_to(to, "<path class=\"dot key {}\" d=\"M{} {}h0\"/>", series.css_class, legend,
                   kTop + 12);
    fmt::format_to(to, "<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>", legend + 8, kTop + 16,
                   escaped(text));
    legend += 24 + 6.6 * static_cast<double>(text.size());
  }
  return out;
}

/// The decades that hold all values.
PlotAxis decades(std::string title, std::string unit, double low, double high) {
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high));
  return {std::move(title), std::move(unit), std::pow(10.0, first),
          std::pow(10.0, std::max(last, first + 1))};
}

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #6b7280; --grid: #e3e6ea;
  --paper: #ffffff; --inside: #1f6fb2; --outside: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --faint: #a0a7b1; --grid: #33383f;
  --paper: #15181c; --inside: #62b0f0; --outside: #ff9a5c; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; }
pre { font: 12px/1.4 ui-monospace, monospace; overflow-x: auto; }
svg text { fill: var(--ink); font-family: system-ui, sans-serif; }
.title { font-size: 14px; font-weight: 600; } .axis { font-size: 12px; }
svg .tick { font-size: 11px; fill: var(--faint); }
.grid { stroke: var(--grid); fill: none; } .line { stroke: var(--faint); fill: none; }
.dot { fill: none; stroke-width: 3; stroke-linecap: round; stroke-opacity: 0.45; }
.key { stroke-width: 9; stroke-opacity: 1; }
.inside { stroke: var(--inside); } .outside { stroke: var(--outside); }
)css";

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

std::string report_html(std::string_view title, const std::vector<Plot>& plots,
                        std::string_view tables) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>Each dot is a measured row that the "
      "fit behind its prediction had not seen. Ratios beyond {2} and {3} are drawn at the edge.</p>"
      "\n<div class=\"plots\">\n",
      escaped(title), kStyle, kLowestRatio, kHighestRatio);
  for (const Plot& plot : plots) out += svg(plot);
  return out +
         fmt::format("</div>\n<h2>Tables</h2>\n<pre>{}</pre>\n</body>\n</html>\n", escaped(tables));
}

}  // namespace foreplan::cli
