#include "harness/point.hpp"

#include "results/content_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace foreplan::harness {
namespace {

std::string shape_text(const GemmShape& s) {
  return fmt::format("m={} n={} k={} batch={}", s.m, s.n, s.k, s.batch);
}
std::string shape_text(const AttentionShape& s) {
  return fmt::format(
      "batch={} heads={} kv_heads={} q_len={} kv_len={} head_dim_qk={} head_dim_v={} "
      "window={} causal={}",
      s.batch, s.heads_q, s.heads_kv, s.q_len, s.kv_len, s.head_dim_qk, s.head_dim_v, s.window,
      s.causal ? 1 : 0);
}
std::string shape_text(const RowShape& s) { return fmt::format("rows={} cols={}", s.rows, s.cols); }

std::string text(const kernels::Question& q) {
  std::string out =
      fmt::format("{} {} {} in={} out={}", q.op, name(q.pass),
                  std::visit([](const auto& shape) { return shape_text(shape); }, q.shape),
                  name(q.input), name(q.output));
  for (const auto& [parameter, value] : q.parameters)
    out += fmt::format(" {}={}", parameter, value);
  return out;
}

std::string text(const CollectivePoint& c) {
  std::string out = fmt::format("{} size_bytes={} ranks={} stride={} dtype={}", name(c.kind),
                                c.size_bytes, c.group_size, c.stride, name(c.dtype));
  if (c.nodes > 0) out += fmt::format(" nodes={}", c.nodes);
  if (c.in_place) out += " in_place";
  return out;
}

std::string text(const OverlapPoint& o) {
  return fmt::format("overlap timed={} [{}] [{}]", o.time_kernel ? "kernel" : "collective",
                     text(o.kernel), text(o.collective));
}

}  // namespace

std::string key(const Point& point) {
  std::string out = std::visit([](const auto& question) { return text(question); }, point.question);
  out += fmt::format(" {} {} {}", name(point.cache), name(point.launch), name(point.selection));
  if (!point.variant.empty()) out += fmt::format(" variant={}", point.variant);
  return out;
}

std::string operation(const Point& point) {
  if (const auto* kernel = std::get_if<kernels::Question>(&point.question)) return kernel->op;
  if (const auto* collective = std::get_if<CollectivePoint>(&point.question)) {
    return std::string{name(collective->kind)};
  }
  return "overlap";
}

std::string points_hash(std::span<const Point> points) {
  std::vector<std::string> keys;
  keys.reserve(points.size());
  for (const Point& point : points) keys.push_back(key(point));
  std::sort(keys.begin(), keys.end());
  std::string all;
  for (const std::string& one : keys) all += one + '\n';
  return results::sha256_hex(all);
}

}  // namespace foreplan::harness
