#include "scenarios/answers/recommendation.hpp"

#include "scenarios/describe.hpp"
#include "scenarios/launch.hpp"

#include <chrono>
#include <thread>

namespace foreplan::scenarios {

using namespace simulator;
using Json = nlohmann::ordered_json;

Recommendation recommend(const Study& study, int threads, const SearchProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  Recommendation found;
  const std::size_t blocks = study.search().block_count();
  found.result =
      study.search().run(0, blocks, study.search_options(threads), [&](std::size_t done) {
        if (progress) progress(done, blocks);
      });
  for (const Candidate& candidate : found.result.top.sorted())
    found.top.push_back(study.model().explain(candidate.plan));
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  found.threads = threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
  if (found.top.empty()) found.nearest = nearest_fit(study, std::nullopt, threads);
  return found;
}

Json describe(const Recommendation& found, const Study& study) {
  const SearchCounters& c = found.result.counters;
  Json out{{"scenario", study.scenario().title},
           {"question", Json::parse(resolved_json(study.scenario()))},
           {"profile", study.cost().name()},
           {"plans_enumerated", c.enumerated},
           {"plans_scored", c.scored},
           {"plans_feasible", c.feasible},
           {"seconds", found.seconds},
           {"threads", found.threads}};
  out["feasible"] = !found.top.empty();
  if (!found.top.empty()) {
    out["best"] = describe(found.top.front(), study);
    const Launch launch = launch_of(found.top.front().plan, study);
    out["launch_arguments"] = launch.lines;
    if (!launch.refusal.empty()) out["launch_obstacle"] = launch.refusal;
    Json top = Json::array();
    for (const StepReport& report : found.top) top.push_back(describe(report, study));
    out["top"] = std::move(top);
    Json front = Json::array();
    for (const Candidate& candidate : found.result.front.sorted()) {
      front.push_back(Json{{"plan", describe(candidate.plan, study)},
                           {"step_time_s", candidate.step_time_s},
                           {"peak_memory_bytes", candidate.peak_bytes},
                           {"gpus", candidate.gpus}});
    }
    out["front"] = std::move(front);
  }
  if (found.nearest) out["nearest_fit"] = describe(*found.nearest, study);
  return out;
}

}  // namespace foreplan::scenarios
