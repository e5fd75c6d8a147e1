#pragma once
// Collects what a rank executes, node by node, and puts the backward in reverse order.

#include "models/rank/local_sizes.hpp"
#include "models/rank_graph.hpp"

#include <string_view>
#include <vector>

namespace foreplan::models {

/// Where an operator, collective or tensor belongs.
struct Site {
  Part part{};
  std::string_view label;  ///< static text
};

/// Bytes that a kernel reads and writes.
struct Traffic {
  double read = 0;
  double written = 0;
};

/// A GEMM whose operands and result are each moved once. `accumulates`: the result is added to what
/// the output buffer holds, so that is read too.
struct GemmWork {
  GemmShape shape;
  DType input{};
  DType output{};
  bool accumulates = false;
};

/// An operator whose shape, types and counts are still to be filled in.
Operator operator_at(OperatorKind kind, Pass pass, Site site);

class GraphBuilder {
 public:
  GraphBuilder(const ModelSpec& model, const RankShape& shape) : sizes_(model, shape) {}

  const LocalSizes& sizes() const { return sizes_; }
  const RankShape& shape() const { return sizes_.shape(); }

  void gemm(Pass pass, Site site, const GemmWork& work);
  /// A bandwidth-bound kernel over `rows`. Its FLOPs are not counted (nor do FLOP counters of
  /// frameworks), its time comes from `bytes`.
  void rows(OperatorKind kind, Pass pass, Site site, RowShape rows, Traffic bytes);
  void add(Operator op);

  /// Operators and collectives of passes other than forward are collected per node; a node ends
  /// here, and `finish` emits the backward of the last node first.
  void end_node();

  /// An exposed collective: the framework waits for it.
  void exposed(Pass pass, Part part, Collective collective, int count = 1);
  /// A collective that the framework runs beside the operator `behind` of pass `behind_pass`.
  void overlapped(Pass pass, Part part, Collective collective, std::string_view behind,
                  Pass behind_pass, int count = 1);

  void keep(Site site, Bytes size, bool boundary = false);
  Bytes kept() const { return kept_; }  ///< sum of all `keep` so far

  /// Parameters of `tensors` tensors of one size.
  void dense_parameters(double count, int tensors = 1) {
    graph_.parameters.dense += count;
    for (int i = 0; i < tensors; ++i) graph_.parameters.tensors.push_back(count / tensors);
  }
  void expert_parameters(double count) { graph_.parameters.expert += count; }
  /// Elements of weights whose GEMMs run in FP8; counted only where the shape's GEMMs do.
  void fp8_weights(double count);

  /// A moment of this unit's forward or backward at which `alive` bytes exist beyond the saved
  /// ones.
  void moment(Bytes alive) { graph_.transient = max(graph_.transient, alive); }

  RankGraph finish() &&;

 private:
  struct Node {
    std::vector<Operator> operators;
    std::vector<CollectiveUse> collectives;
  };

  LocalSizes sizes_;
  RankGraph graph_;
  Node current_;             ///< backward of the node being built
  std::vector<Node> nodes_;  ///< backward of finished nodes, in forward order
  Bytes kept_;
};

}  // namespace foreplan::models
