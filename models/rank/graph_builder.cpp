#include "models/rank/graph_builder.hpp"

#include "core/assert.hpp"

#include <utility>

namespace foreplan::models {

Operator operator_at(OperatorKind kind, Pass pass, Site site) {
  Operator op;
  op.kind = kind;
  op.pass = pass;
  op.part = site.part;
  op.label = site.label;
  return op;
}

void GraphBuilder::add(Operator op) {
  (op.pass == Pass::forward ? graph_.operators : current_.operators).push_back(op);
}

void GraphBuilder::gemm(Pass pass, Site site, const GemmWork& work) {
  const GemmShape& s = work.shape;
  const double batch = static_cast<double>(s.batch);
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n),
               k = static_cast<double>(s.k);
  const double in = bytes_per_element(work.input);
  const double result = batch * m * n * bytes_per_element(work.output);
  Operator op = operator_at(OperatorKind::gemm, pass, site);
  op.shape = s;
  op.input = work.input;
  op.output = work.output;
  op.flops = flops(s);
  op.bytes_read = Bytes{batch * (m * k + k * n) * in + (work.accumulates ? result : 0.0)};
  op.bytes_written = Bytes{result};
  add(op);
}

void GraphBuilder::rows(OperatorKind kind, Pass pass, Site site, RowShape rows, Traffic bytes) {
  Operator op = operator_at(kind, pass, site);
  op.shape = rows;
  op.input = op.output = shape().activation;
  op.bytes_read = Bytes{bytes.read};
  op.bytes_written = Bytes{bytes.written};
  add(op);
}

void GraphBuilder::end_node() { nodes_.push_back(std::exchange(current_, {})); }

void GraphBuilder::exposed(Pass pass, Part part, Collective collective, int count) {
  overlapped(pass, part, collective, {}, pass, count);
}

void GraphBuilder::overlapped(Pass pass, Part part, Collective collective, std::string_view behind,
                              Pass behind_pass, int count) {
  const CollectiveUse use{collective, pass, part, behind, behind_pass, count};
  (pass == Pass::forward ? graph_.collectives : current_.collectives).push_back(use);
}

void GraphBuilder::keep(Site site, Bytes size, bool boundary) {
  graph_.saved.push_back({site.label, site.part, size, boundary});
  kept_ += size;
}

void GraphBuilder::fp8_weights(double count) {
  if (sizes_.fp8() && shape().keeps_narrow) graph_.parameters.fp8_cached += count;
}

RankGraph GraphBuilder::finish() && {
  FOREPLAN_ASSERT(current_.operators.empty() && current_.collectives.empty(),
                  "the last node has ended");
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    graph_.operators.insert(graph_.operators.end(), node->operators.begin(), node->operators.end());
    graph_.collectives.insert(graph_.collectives.end(), node->collectives.begin(),
                              node->collectives.end());
  }
  graph_.boundary = sizes_.hidden_state();
  return std::move(graph_);
}

}  // namespace foreplan::models
