#include "scenarios/answers/simulation.hpp"

#include "scenarios/describe.hpp"
#include "scenarios/memory_timeline.hpp"
#include "scenarios/obstacle.hpp"

namespace foreplan::scenarios {

using namespace simulator;
using Json = nlohmann::ordered_json;

Result<Simulation> simulate(const Study& study, const ParallelPlan& plan) {
  if (std::string why = obstacle(plan, study.scenario()); !why.empty()) {
    return fail(std::move(why), study.scenario().plan_place);
  }
  Simulation answer{study.model().explain(plan), 0, 0, {}};
  answer.excess_bytes =
      answer.report.memory.device_total() - memory_limit(study.model(), study.search_options(0));
  answer.host_excess_bytes = answer.report.host_bytes - study.model().host_bytes();
  if (!answer.fits()) answer.nearest = nearest_fit(study, plan, 0);
  return answer;
}

Json describe(const Simulation& answer, const Study& study) {
  Json out{{"scenario", study.scenario().title},
           {"question", Json::parse(resolved_json(study.scenario()))},
           {"profile", study.cost().name()},
           {"feasible", answer.fits()}};
  out.update(describe(answer.report, study));
  Json curves = Json::array();
  for (const auto& curve : memory_over_time(answer.report)) {
    curves.push_back(
        Json{{"stage", curve.stage}, {"time_s", curve.time_s}, {"bytes", curve.bytes}});
  }
  out["memory_over_time"] = std::move(curves);
  if (answer.nearest) out["nearest_fit"] = describe(*answer.nearest, study);
  return out;
}

}  // namespace foreplan::scenarios
