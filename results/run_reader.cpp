// The reading half of Store: runs, plans, histograms.

#include "results/row_fields.hpp"
#include "results/store.hpp"

#include <fmt/format.h>

namespace foreplan::results {
namespace {

std::string_view condition(PlanFilter filter) {
  switch (filter) {
    case PlanFilter::ranked: return "AND rank IS NOT NULL";
    case PlanFilter::front: return "AND on_front = 1";
    case PlanFilter::all: return "";
  }
  return "";
}

PlanRow read_plan(const Statement& statement) {
  int index = 0;
  PlanRow row = read_row<PlanRow>(statement, index);
  row.on_front = statement.column<bool>(index++);
  row.rank = statement.column<std::optional<int>>(index);
  return row;
}

}  // namespace

std::vector<PlanRow> Store::candidates(RunId run) const { return plans(run, PlanFilter::all); }

std::map<int, ChunkCounters> Store::chunks(RunId run) const {
  Statement select = database_.prepare(
      "read the chunks of a run",
      fmt::format("SELECT chunk_index, {} FROM run_chunk WHERE run = ?", columns<ChunkCounters>()));
  select.bind(run);
  std::map<int, ChunkCounters> chunks;
  while (select.step()) {
    int index = 1;
    chunks.emplace(select.column<int>(0), read_row<ChunkCounters>(select, index));
  }
  return chunks;
}

ChunkContent Store::chunk(RunId run, int chunk) const {
  const std::string attempt = "read a chunk of a run";
  ChunkContent content;
  Statement counters = database_.prepare(
      attempt, fmt::format("SELECT {} FROM run_chunk WHERE run = ? AND chunk_index = ?",
                           columns<ChunkCounters>()));
  FOREPLAN_ASSERT(counters.bind(run, chunk).step(), "only a stored chunk can be read");
  content.counters = read_row<ChunkCounters>(counters);
  Statement plans = database_.prepare(
      attempt, fmt::format("SELECT {}, on_front, rank FROM plan WHERE run = ? AND chunk_index = ? "
                           "ORDER BY plan_index",
                           columns<PlanRow>()));
  plans.bind(run, chunk);
  while (plans.step()) content.plans.push_back(read_plan(plans));
  Statement bins = database_.prepare(
      attempt, fmt::format("SELECT {} FROM run_chunk_histogram WHERE run = ? AND chunk_index = ? "
                           "ORDER BY quantity, bin_low, bin_high",
                           columns<HistogramBin>()));
  bins.bind(run, chunk);
  while (bins.step()) content.histogram.push_back(read_row<HistogramBin>(bins));
  return content;
}

std::vector<RunRow> Store::runs() const {
  Statement select = database_.prepare(
      "list the runs", fmt::format("SELECT {} FROM run ORDER BY id", columns<RunRow>()));
  std::vector<RunRow> rows;
  while (select.step()) rows.push_back(read_row<RunRow>(select));
  return rows;
}

std::optional<RunRow> Store::run(RunId id) const {
  Statement select = database_.prepare(
      "read a run", fmt::format("SELECT {} FROM run WHERE id = ?", columns<RunRow>()));
  if (!select.bind(id).step()) return std::nullopt;
  return read_row<RunRow>(select);
}

std::vector<PlanRow> Store::plans(RunId run, PlanFilter filter,
                                  std::optional<std::int64_t> limit) const {
  Statement select = database_.prepare(
      "read the plans of a run", fmt::format("SELECT {}, on_front, rank FROM plan WHERE run = ? {} "
                                             "ORDER BY rank IS NULL, rank, plan_index LIMIT ?",
                                             columns<PlanRow>(), condition(filter)));
  constexpr std::int64_t kNoLimit = -1;
  select.bind(run, limit.value_or(kNoLimit));
  std::vector<PlanRow> rows;
  while (select.step()) rows.push_back(read_plan(select));
  return rows;
}

std::vector<HistogramBin> Store::histogram(RunId run) const {
  Statement select = database_.prepare(
      "read the histogram of a run",
      fmt::format("SELECT {} FROM histogram WHERE run = ? ORDER BY quantity, bin_low, bin_high",
                  columns<HistogramBin>()));
  select.bind(run);
  std::vector<HistogramBin> bins;
  while (select.step()) bins.push_back(read_row<HistogramBin>(select));
  return bins;
}

}  // namespace foreplan::results
