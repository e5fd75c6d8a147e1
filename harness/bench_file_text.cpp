#include "harness/bench_file.hpp"

#include <fmt/format.h>

namespace foreplan::harness {
namespace {

/// In double quotes, as YAML reads it back.
std::string yaml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

std::string shape_keys(const GemmShape& s) {
  std::string out = fmt::format("m: {}, n: {}, k: {}", s.m, s.n, s.k);
  if (s.batch != 1) out += fmt::format(", batch: {}", s.batch);
  return out;
}
std::string shape_keys(const AttentionShape& s) {
  std::string out = fmt::format(
      "batch: {}, heads: {}, kv_heads: {}, q_len: {}, kv_len: {}, head_dim_qk: {}, head_dim_v: {}, "
      "causal: {}",
      s.batch, s.heads_q, s.heads_kv, s.q_len, s.kv_len, s.head_dim_qk, s.head_dim_v, s.causal);
  if (s.window > 0) out += fmt::format(", window: {}", s.window);
  return out;
}
std::string shape_keys(const RowShape& s) {
  return fmt::format("rows: {}, cols: {}", s.rows, s.cols);
}

std::string keys_of(const kernels::Question& q) {
  std::string out = fmt::format(
      "op: {}, {}, dtype: {}", q.op,
      std::visit([](const auto& shape) { return shape_keys(shape); }, q.shape), name(q.input));
  if (q.output != q.input) out += fmt::format(", dtype_out: {}", name(q.output));
  out += fmt::format(", pass: {}", name(q.pass));
  if (q.parameters.empty()) return out;
  out += ", parameters: {";
  for (auto at = q.parameters.begin(); at != q.parameters.end(); ++at) {
    out += fmt::format("{}{}: {}", at == q.parameters.begin() ? "" : ", ", at->first, at->second);
  }
  return out + '}';
}

std::string keys_of(const CollectivePoint& c) {
  std::string out = fmt::format("op: {}, size_bytes: {}", name(c.kind), c.size_bytes);
  if (c.group_size > 0) out += fmt::format(", ranks: {}", c.group_size);
  if (c.stride != 1) out += fmt::format(", stride: {}", c.stride);
  if (c.nodes > 0) out += fmt::format(", nodes: {}", c.nodes);
  out += fmt::format(", dtype: {}", name(c.dtype));
  if (c.in_place) out += ", in_place: true";
  return out;
}

std::string keys_of(const OverlapPoint& o) {
  return fmt::format("op: overlap, kernel: {{{}}}, collective: {{{}}}, timed: {}",
                     keys_of(o.kernel), keys_of(o.collective),
                     o.time_kernel ? "kernel" : "collective");
}

std::string line_of(const Point& point) {
  std::string out =
      std::visit([](const auto& question) { return keys_of(question); }, point.question);
  if (point.cache != CacheMode::cold) out += fmt::format(", cache: {}", name(point.cache));
  if (point.launch != LaunchMode::stream) out += fmt::format(", launch: {}", name(point.launch));
  if (point.selection != Selection::heuristic) {
    out += fmt::format(", selection: {}", name(point.selection));
  }
  if (!point.variant.empty()) out += fmt::format(", variant: {}", yaml_text(point.variant));
  if (point.weight != 1) out += fmt::format(", weight: {}", point.weight);
  if (!point.reason.empty()) out += fmt::format(", reason: {}", yaml_text(point.reason));
  return out;
}

}  // namespace

std::string bench_file_text(const std::string& device, std::span<const Point> points) {
  std::string out = "foreplan_bench: 1\n";
  if (!device.empty()) out += fmt::format("device: {}\n", yaml_text(device));
  out += "points:\n";
  for (const Point& point : points) out += fmt::format("  - {{{}}}\n", line_of(point));
  return out;
}

}  // namespace foreplan::harness
