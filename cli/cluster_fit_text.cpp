#include "cli/cluster_fit_text.hpp"

#include "cli/table.hpp"
#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace foreplan::cli {
namespace {

constexpr double kNinety = 1.645;  // standard deviations on either side

std::string skipped_text(const std::vector<scenarios::SkippedRun>& skipped) {
  std::map<std::string, int> reasons;
  for (const scenarios::SkippedRun& run : skipped) ++reasons[run.reason];
  std::string text;
  for (const auto& [reason, n] : reasons) text += fmt::format("  {:4} skipped: {}\n", n, reason);
  return text;
}

}  // namespace

std::string cluster_text(const scenarios::ClusterFit& fit) {
  using simulator::calibration::kClusterTraits;
  std::string text = fmt::format("  own runs  {} of {} problems\n", fit.runs, fit.problems) +
                     skipped_text(fit.skipped);
  Table table({"", ">factor", ">90 % range", "on"});
  for (std::size_t k = 0; k < kClusterTraits.size(); ++k) {
    const double factor = fit.fitted.factors[k], ratio = std::exp(kNinety * fit.doubt[k]);
    table.add({std::string(kClusterTraits[k].name), fmt::format("{:.3f}", factor),
               fmt::format("{:.2f}-{:.2f}", factor / ratio, factor * ratio),
               std::string(kClusterTraits[k].meaning)});
  }
  text += table.text();
  return text + fmt::format(
                    "  {} left out of the fit: off by {:.1f} % without the factors, {:.1f} % "
                    "with them; {}\n",
                    fit.problems > 1 ? "problems" : "runs", 100 * fit.left_out_before,
                    100 * fit.left_out_after,
                    fit.taken()
                        ? fmt::format("they are taken ({:.1f} % on all runs)", 100 * fit.after)
                        : "the defaults stay");
}

}  // namespace foreplan::cli
