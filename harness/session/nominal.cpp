#include "harness/session/nominal.hpp"

#include "core/stable_hash.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>

namespace foreplan::harness {
namespace {

double elements(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

Seconds time_of(const kernels::Question& question, const NominalSpeed& speed) {
  const kernels::Work work = nominal_work(question);
  return max(work.flops / speed.compute, work.bytes() / speed.memory);
}

Seconds time_of(const CollectivePoint& c, const NominalSpeed& speed) {
  return Bytes{static_cast<double>(c.size_bytes)} / speed.memory;
}

Seconds time_of(const OverlapPoint& o, const NominalSpeed& speed) {
  return max(time_of(o.kernel, speed), time_of(o.collective, speed));
}

}  // namespace

kernels::Work nominal_work(const kernels::Question& q) {
  const double in = bytes_per_element(q.input), out = bytes_per_element(q.output);
  if (const auto* g = std::get_if<GemmShape>(&q.shape)) {
    const auto batch = static_cast<double>(g->batch);
    return {.flops = flops(*g),
            .read = Bytes{batch * in * (elements(g->m, g->k) + elements(g->k, g->n))},
            .written = Bytes{batch * out * elements(g->m, g->n)}};
  }
  if (const auto* a = std::get_if<AttentionShape>(&q.shape)) {
    const auto batch = static_cast<double>(a->batch);
    const double queries = batch * elements(a->heads_q, a->q_len);
    const double keys = batch * elements(a->heads_kv, a->kv_len);
    const auto qk = static_cast<double>(a->head_dim_qk), v = static_cast<double>(a->head_dim_v);
    return {.flops = flops(*a, q.pass),
            .read = Bytes{in * (queries * qk + keys * (qk + v))},
            .written = Bytes{out * queries * v}};
  }
  const auto& r = std::get<RowShape>(q.shape);
  return {.flops = Flops{0},
          .read = Bytes{in * elements(r.rows, r.cols)},
          .written = Bytes{out * elements(r.rows, r.cols)}};
}

Seconds nominal_time(const Point& point, const NominalSpeed& speed) {
  return std::visit([&](const auto& question) { return time_of(question, speed); }, point.question);
}

std::vector<Point> by_worth(std::vector<Point> points, const NominalSpeed& speed) {
  struct Ranked {
    double worth = 0;
    std::uint64_t place = 0;
    std::string key;
    Point point;
  };
  std::vector<Ranked> ranked;
  ranked.reserve(points.size());
  for (Point& point : points) {
    const Seconds expected =
        max(kLaunchesOfAPoint * nominal_time(point, speed), kLeastTimeOfAPoint);
    std::string point_key = key(point);
    const std::uint64_t place = stable_hash(point_key);
    ranked.push_back(
        {point.weight / expected.value, place, std::move(point_key), std::move(point)});
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(b.worth, a.place, a.key) < std::tie(a.worth, b.place, b.key);
  });
  points.clear();
  std::set<std::string> seen;
  for (Ranked& one : ranked) {
    if (seen.insert(one.key).second) points.push_back(std::move(one.point));
  }
  return points;
}

void Forecast::learn(const Point& point, Seconds launch, Seconds other) {
  const double nominal = nominal_time(point, speed_).value;
  Seen& seen = seen_[operation(point)];
  if (nominal >= seen.nominal) seen = {nominal, launch.value, other.value};
}

const Forecast::Seen* Forecast::near(const Point& point, double nominal) const {
  // Beyond this step in size a latency may still be all that was seen.
  constexpr double kReach = 64;
  const auto found = seen_.find(operation(point));
  if (found == seen_.end() || nominal > kReach * found->second.nominal) return nullptr;
  return &found->second;
}

std::optional<Seconds> Forecast::launch_time(const Point& point) const {
  const double nominal = nominal_time(point, speed_).value;
  const Seen* seen = near(point, nominal);
  if (seen == nullptr || seen->nominal <= 0) return std::nullopt;
  return Seconds{seen->launch * nominal / seen->nominal};
}

Seconds Forecast::least_time(const Point& point, double launches) const {
  const double nominal = nominal_time(point, speed_).value;
  const Seen* seen = near(point, nominal);
  if (seen == nullptr || seen->nominal <= 0) return Seconds{0};
  return Seconds{(launches * seen->launch + seen->other) * nominal / seen->nominal};
}

}  // namespace foreplan::harness
