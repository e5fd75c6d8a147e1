// What one GEMM costs to predict: a search asks for millions of them. The model is fitted to times
// of the data sheet's own curve, as the cost of a question does not depend on the values.

#include "simulator/calibration/gemm/gemm_model.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace foreplan;
using namespace foreplan::simulator::calibration;

DeviceSpec device() {
  DeviceSpec d;
  d.name = "made-up";
  d.architecture = "Hopper";
  d.sm_count = 132;
  d.peak_bf16 = FlopsPerSecond{989e12};
  d.memory_bandwidth = BytesPerSecond{3.35e12};
  d.l2_cache = Bytes{50 * kMiB};
  return d;
}

/// Sizes of 1 to 16384, their logarithms spread evenly.
std::vector<GemmShape> shapes(std::size_t count) {
  std::mt19937 random(5);
  const auto size = [&](double least) {
    const double share = static_cast<double>(random()) / 4294967296.0;
    return static_cast<std::int64_t>(least * std::pow(16384.0 / least, share));
  };
  std::vector<GemmShape> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({size(1), size(32), size(32), 1});
  return out;
}

/// 1000 rows: enough for trees of full depth.
const GemmModel& fitted() {
  static const GemmModel model = [] {
    const GemmModel datasheet = GemmModel::fit(device(), {});
    std::vector<GemmSample> samples;
    for (const GemmShape& shape : shapes(1000)) {
      GemmSample s;
      s.shape = shape;
      s.library = "made-up-blas";
      GemmQuery query;
      query.shape = shape;
      s.time_s = datasheet.predict(query).time_s;
      samples.push_back(std::move(s));
    }
    return GemmModel::fit(device(), samples);
  }();
  return model;
}

/// Every question about another shape, so that nothing is answered from a warm cache line.
void predict(benchmark::State& state) {
  const GemmModel& model = fitted();
  const std::vector<GemmShape> asked = shapes(4096);
  std::size_t next = 0;
  for (auto _ : state) {
    GemmQuery query;
    query.shape = asked[next++ % asked.size()];
    benchmark::DoNotOptimize(model.predict(query));
  }
}
BENCHMARK(predict)->Unit(benchmark::kNanosecond);

void tile_wave_alone(benchmark::State& state) {
  const GemmModel& model = fitted();
  const std::vector<GemmShape> asked = shapes(4096);
  std::size_t next = 0;
  for (auto _ : state) {
    GemmQuery query;
    query.shape = asked[next++ % asked.size()];
    benchmark::DoNotOptimize(model.physical_time_s(query));
  }
}
BENCHMARK(tile_wave_alone)->Unit(benchmark::kNanosecond);

}  // namespace
