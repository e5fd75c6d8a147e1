#pragma once
// Pictures of a calibration: an HTML file that needs nothing but itself.

#include "cli/table.hpp"
#include "simulator/calibration/profile.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foreplan::cli {

/// A logarithmic axis. Values beyond its ends are drawn at the end.
struct PlotAxis {
  std::string title;
  std::string unit;  ///< "s", "B", "FLOP" get prefixes; empty = a plain ratio
  double low = 1, high = 10;
};

struct PlotSeries {
  std::string name;
  std::string css_class;  ///< "inside" or "outside"
  std::vector<std::pair<double, double>> points;
};

/// A scatter plot. `reference`: y = x, else y = 1.
struct Plot {
  std::string title;
  PlotAxis x, y;
  bool diagonal = false;
  std::vector<PlotSeries> series;
};

/// The plot as an `<svg>` element.
[[nodiscard]] std::string svg(const Plot& plot);

/// Per model: predicted over measured time, and their ratio over size, split by whether the
/// measured time lies in the 90 % interval. Models without points are left out.
[[nodiscard]] std::vector<Plot> score_plots(
    const std::vector<simulator::calibration::Scoreboard::Point>& points);

/// A table of a page under its title.
struct PageSection {
  std::string title;
  Table table;
};

/// A profile as a page: what it rests on, the plots in pairs, the tables. One file that loads
/// nothing, legible on light and dark backgrounds.
[[nodiscard]] std::string calibration_page(
    const simulator::calibration::CalibrationProfile& profile, const std::vector<Plot>& plots,
    const std::vector<PageSection>& sections);

}  // namespace foreplan::cli
