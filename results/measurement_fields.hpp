#pragma once
// Each measurement's fields, listed once: files, imports, checks and the database walk these lists.

#include "results/measurement.hpp"
#include "results/row_fields.hpp"

#include <array>
#include <string_view>
#include <type_traits>
#include <vector>

namespace foreplan::results {

template <RowOf<MeasurementOrigin> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("device", row.device);
  field("library", row.library);
  field("library_version", row.library_version);
  field("source", row.source);
  field("licence", row.licence);
  field("date", row.date);
  field("basis", row.basis);
  field("statistic", row.statistic);
  field("note", row.note);
}

template <RowOf<GemmMeasurement> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("op", row.op);
  field("m", row.m);
  field("n", row.n);
  field("k", row.k);
  field("batch", row.batch);
  field("dtype_in", row.dtype_in);
  field("dtype_acc", row.dtype_acc);
  field("dtype_out", row.dtype_out);
  field("quant", row.quant);
  field("layout", row.layout);
  field("incl_act_quant", row.incl_act_quant);
}

template <RowOf<AttentionMeasurement> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("phase", row.phase);
  field("pass", row.pass);
  field("causal", row.causal);
  field("batch", row.batch);
  field("q_len", row.q_len);
  field("kv_len", row.kv_len);
  field("heads_q", row.heads_q);
  field("heads_kv", row.heads_kv);
  field("head_dim_qk", row.head_dim_qk);
  field("head_dim_v", row.head_dim_v);
  field("window", row.window);
  field("dtype_in", row.dtype_in);
  field("dtype_kv", row.dtype_kv);
  field("deterministic", row.deterministic);
}

template <RowOf<CollectiveMeasurement> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("op", row.op);
  field("ngpus", row.ngpus);
  field("nodes", row.nodes);
  field("gpus_per_node", row.gpus_per_node);
  field("bytes", row.bytes);
  field("dtype", row.dtype);
  field("inplace", row.inplace);
  field("impl", row.impl);
  field("intra_link", row.intra_link);
  field("inter_link", row.inter_link);
  field("moe_tokens", row.moe_tokens);
  field("moe_hidden", row.moe_hidden);
  field("moe_topk", row.moe_topk);
  field("moe_experts", row.moe_experts);
  field("moe_sms", row.moe_sms);
}

template <RowOf<BandwidthMeasurement> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("op", row.op);
  field("pass", row.pass);
  field("rows", row.rows);
  field("cols", row.cols);
  field("elements", row.elements);
  field("dtype", row.dtype);
  field("dtype_out", row.dtype_out);
  field("bytes", row.bytes);
}

template <RowOf<MoeMeasurement> Row, class Field>
void each_field(Row& row, Field&& field) {
  field("op", row.op);
  field("tokens", row.tokens);
  field("hidden", row.hidden);
  field("inter", row.inter);
  field("topk", row.topk);
  field("experts", row.experts);
  field("moe_tp", row.moe_tp);
  field("moe_ep", row.moe_ep);
  field("distribution", row.distribution);
  field("quant", row.quant);
}

/// What the lists do not say: the kind, the table, the fields without which a row means nothing,
/// and the sizes, which differ from row to row where the other fields stay.
template <class Row>
struct RowTraits;

template <>
struct RowTraits<GemmMeasurement> {
  static constexpr MeasurementKind kKind = MeasurementKind::gemm;
  static constexpr std::string_view kTable = "gemm_measurement";
  static constexpr std::array<std::string_view, 4> kRequired = {"m", "n", "k", "dtype_in"};
  static constexpr std::array<std::string_view, 4> kSizes = {"m", "n", "k", "batch"};
};
template <>
struct RowTraits<AttentionMeasurement> {
  static constexpr MeasurementKind kKind = MeasurementKind::attention;
  static constexpr std::string_view kTable = "attention_measurement";
  static constexpr std::array<std::string_view, 10> kRequired = {
      "phase",   "causal",   "batch",       "q_len",      "kv_len",
      "heads_q", "heads_kv", "head_dim_qk", "head_dim_v", "dtype_in"};
  static constexpr std::array<std::string_view, 8> kSizes = {
      "batch", "q_len", "kv_len", "heads_q", "heads_kv", "head_dim_qk", "head_dim_v", "window"};
};
template <>
struct RowTraits<CollectiveMeasurement> {
  static constexpr MeasurementKind kKind = MeasurementKind::collectives;
  static constexpr std::string_view kTable = "collective_measurement";
  static constexpr std::array<std::string_view, 2> kRequired = {"op", "ngpus"};
  static constexpr std::array<std::string_view, 9> kSizes = {
      "ngpus",      "nodes",    "gpus_per_node", "bytes",  "moe_tokens",
      "moe_hidden", "moe_topk", "moe_experts",   "moe_sms"};
};
template <>
struct RowTraits<BandwidthMeasurement> {
  static constexpr MeasurementKind kKind = MeasurementKind::memory;
  static constexpr std::string_view kTable = "memory_measurement";
  static constexpr std::array<std::string_view, 2> kRequired = {"op", "dtype"};
  static constexpr std::array<std::string_view, 4> kSizes = {"rows", "cols", "elements", "bytes"};
};
template <>
struct RowTraits<MoeMeasurement> {
  static constexpr MeasurementKind kKind = MeasurementKind::moe;
  static constexpr std::string_view kTable = "moe_measurement";
  static constexpr std::array<std::string_view, 6> kRequired = {"tokens", "hidden",  "inter",
                                                                "topk",   "experts", "quant"};
  static constexpr std::array<std::string_view, 7> kSizes = {"tokens",  "hidden", "inter", "topk",
                                                             "experts", "moe_tp", "moe_ep"};
};

/// The rows of one kind. `Set` is `MeasurementSet` or `const MeasurementSet`.
template <class Row, class Set>
auto& rows_of(Set& set) {
  if constexpr (std::is_same_v<Row, GemmMeasurement>) {
    return set.gemm;
  } else if constexpr (std::is_same_v<Row, AttentionMeasurement>) {
    return set.attention;
  } else if constexpr (std::is_same_v<Row, CollectiveMeasurement>) {
    return set.collectives;
  } else if constexpr (std::is_same_v<Row, BandwidthMeasurement>) {
    return set.memory;
  } else {
    static_assert(std::is_same_v<Row, MoeMeasurement>);
    return set.moe;
  }
}

/// Calls `action.operator()<Row>()` for each kind, in the order of `MeasurementKind`.
template <class Action>
void for_each_kind(Action&& action) {
  action.template operator()<GemmMeasurement>();
  action.template operator()<AttentionMeasurement>();
  action.template operator()<CollectiveMeasurement>();
  action.template operator()<BandwidthMeasurement>();
  action.template operator()<MoeMeasurement>();
}

/// Calls `action.operator()<Row>()` for the row type of `kind`.
template <class Action>
void with_kind(MeasurementKind kind, Action&& action) {
  for_each_kind([&]<class Row>() {
    if (RowTraits<Row>::kKind == kind) action.template operator()<Row>();
  });
}

/// Names of a row's fields, in list order.
template <class Row>
const std::vector<std::string_view>& field_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    const Row row;
    each_field(row, [&](std::string_view name, const auto&) { list.push_back(name); });
    return list;
  }();
  return names;
}

}  // namespace foreplan::results
