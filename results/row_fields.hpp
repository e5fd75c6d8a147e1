#pragma once
// Each row's columns, listed once: column lists, binding, reading and hashing all walk these lists.

#include "results/database.hpp"
#include "results/rows.hpp"

#include <concepts>
#include <string>
#include <type_traits>

namespace foreplan::results {

/// `Row` is `T` or `const T`.
template <class Row, class T>
concept RowOf = std::same_as<std::remove_const_t<Row>, T>;

template <RowOf<EnvironmentRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("program_version", row.program_version);
  field("git_commit", row.git_commit);
  field("compiler", row.compiler);
  field("host_cpu", row.host_cpu);
  field("kernel", row.kernel);
  field("os", row.os);
}

template <RowOf<ProfileRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("name", row.name);
  field("kind", row.kind);
  field("device", row.device);
  field("body_json", row.body_json);
}

template <RowOf<ScenarioRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("name", row.name);
  field("file_text", row.file_text);
  field("resolved_json", row.resolved_json);
}

template <RowOf<RunRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("id", row.id);
  field("verb", row.verb);
  field("scenario", row.scenario);
  field("profile", row.profile);
  field("environment", row.environment);
  field("keep", row.keep);
  field("chunk_count", row.chunk_count);
  field("status", row.status);
  field("threads", row.threads);
  field("started_at_utc", row.started_at_utc);
  field("finished_at_utc", row.finished_at_utc);
  field("plans_enumerated", row.plans_enumerated);
  field("plans_scored", row.plans_scored);
  field("plans_feasible", row.plans_feasible);
  field("wall_time_s", row.wall_time);
}

template <RowOf<ChunkCounters> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("plans_enumerated", row.plans_enumerated);
  field("plans_scored", row.plans_scored);
  field("plans_feasible", row.plans_feasible);
  field("wall_time_s", row.wall_time);
}

/// `on_front` and `rank` stand apart: a chunk does not write them.
template <RowOf<PlanRow> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("plan_index", row.plan_index);
  field("key", row.key);
  field("tp", row.tp);
  field("pp", row.pp);
  field("vpp", row.vpp);
  field("dp", row.dp);
  field("cp", row.cp);
  field("ep", row.ep);
  field("etp", row.etp);
  field("sequence_parallel", row.sequence_parallel);
  field("zero_stage", row.zero_stage);
  field("micro_batch", row.micro_batch);
  field("recompute", row.recompute);
  field("precision", row.precision);
  field("framework", row.framework);
  field("gpus", row.gpus);
  field("feasible", row.feasible);
  field("reason", row.reason);
  field("step_time_s", row.step_time);
  field("step_time_low_s", row.step_time_low);
  field("step_time_high_s", row.step_time_high);
  field("tokens_per_s_per_gpu", row.tokens_per_s_per_gpu);
  field("mfu_fraction", row.mfu_fraction);
  field("peak_memory_bytes", row.peak_memory);
  field("memory_headroom_bytes", row.memory_headroom);
  field("plan_json", row.plan_json);
  field("breakdown_json", row.breakdown_json);
  field("memory_json", row.memory_json);
  field("objective", row.objective);
  field("extra_json", row.extra_json);
}

template <RowOf<HistogramBin> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("quantity", row.quantity);
  field("bin_low", row.low);
  field("bin_high", row.high);
  field("plan_count", row.plan_count);
}

/// "a, b, c"
template <class Row>
std::string columns() {
  std::string list;
  const Row row;
  each_field(row, [&](std::string_view column, const auto&) {
    list += (list.empty() ? "" : ", ") + std::string{column};
  });
  return list;
}

/// "?, ?, ?": one parameter per column.
template <class Row>
std::string parameters() {
  std::string list;
  const Row row;
  each_field(row, [&](std::string_view, const auto&) { list += list.empty() ? "?" : ", ?"; });
  return list;
}

template <class Row>
Statement& bind_row(Statement& statement, const Row& row) {
  each_field(row, [&](std::string_view, const auto& value) { statement.bind(value); });
  return statement;
}

/// The row whose columns begin at `index`, which moves behind them.
template <class Row>
Row read_row(const Statement& statement, int& index) {
  Row row;
  each_field(row, [&](std::string_view, auto& value) {
    value = statement.column<std::remove_reference_t<decltype(value)>>(index++);
  });
  return row;
}

template <class Row>
Row read_row(const Statement& statement) {
  int index = 0;
  return read_row<Row>(statement, index);
}

}  // namespace foreplan::results
