// What one collective costs to price, through a handle that was looked up once: a measured group,
// one between measured groups, one beyond them, and the look-up itself.
//
//   benchmark_collective_cost_benchmark

#include "core/quantity.hpp"
#include "results/measurement_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/calibration/samples.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(to_text(result.error()));
  return std::move(*result);
}

/// Of all shipped rows of one device.
const CollectiveModel& model() {
  static const CollectiveModel made = [] {
    setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
    const results::MeasurementSet measurements = value_of(results::shipped_measurements());
    std::vector<CollectiveSample> samples;
    for (const auto& row : collective_samples(measurements)) {
      if (row.label.device == "H100-SXM5-80GB") samples.push_back(row.sample);
    }
    std::vector<LinkRates> links;
    for (const DeviceSpec& d : value_of(scenarios::device_catalogue())) {
      links.push_back({d.name, d.scale_up_link, d.scale_up_bandwidth, d.nic_bandwidth});
    }
    return value_of(CollectiveModel::fit(samples, std::move(links), {}));
  }();
  return made;
}

CollectiveSelector selector(bool between_nodes) {
  CollectiveSelector s;
  s.device = "H100-SXM5-80GB";
  s.fabric = between_nodes ? "any" : "";
  s.op = CollectiveOp::all_reduce;
  s.nic = BytesPerSecond{50e9};
  return s;
}

/// Arguments: ranks per node, nodes.
void predict(benchmark::State& state) {
  const auto ranks_per_node = static_cast<int>(state.range(0));
  const auto nodes = static_cast<int>(state.range(1));
  const CollectiveHandle handle = model().resolve(selector(nodes > 1));
  CollectiveQuery query;
  query.ngpus = ranks_per_node * nodes;
  query.ranks_per_node = ranks_per_node;
  double bytes = kKiB;
  for (auto _ : state) {
    query.bytes = bytes;
    benchmark::DoNotOptimize(CollectiveModel::predict(handle, query));
    bytes = bytes < kGiB ? bytes * 1.37 : kKiB;
  }
}
BENCHMARK(predict)->Args({8, 1})->Args({5, 1})->Args({8, 2})->Args({8, 7})->Args({8, 512});

void look_up(benchmark::State& state) {
  const CollectiveSelector asked = selector(true);
  for (auto _ : state) benchmark::DoNotOptimize(model().resolve(asked));
}
BENCHMARK(look_up);

}  // namespace
}  // namespace foreplan::simulator::calibration
