// Counted work. Oracles: core/operator.hpp for FLOPs, models/ for the bytes of the operators that
// it counts too, and the operands of the cases (each input once, each output once) for the others.

#include "kernels/work/work.hpp"

#include "core/operator.hpp"
#include "kernels/reference/cases.hpp"
#include "tests/unit/models/rank_samples.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels {
namespace {

using models::RankGraph;

/// The operator of a layer or of the head with this label.
const Operator& find(const RankGraph& graph, std::string_view label, Pass pass) {
  for (const Operator& op : graph.operators) {
    if (op.label == label && op.pass == pass) return op;
  }
  ADD_FAILURE() << "no operator " << label;
  static const Operator none;
  return none;
}

void expect_equal(const Work& work, const Operator& op) {
  EXPECT_DOUBLE_EQ(work.flops.value, op.flops.value) << op.label;
  EXPECT_DOUBLE_EQ(work.read.value, op.bytes_read.value) << op.label;
  EXPECT_DOUBLE_EQ(work.written.value, op.bytes_written.value) << op.label;
}

RowShape rows_of(const Operator& op) { return std::get<RowShape>(op.shape); }

class WorkOfALayer : public testing::Test {
 protected:
  RankGraph graph_ =
      models::layer_graph(models::samples::llama(), models::samples::llama().layer_kinds[0],
                          models::samples::shape_of(1, false));
};

TEST_F(WorkOfALayer, OfGemmsIsThatOfTheModel) {
  for (const Operator& op : graph_.operators) {
    if (op.kind != OperatorKind::gemm) continue;
    const bool accumulates = op.pass == Pass::wgrad;
    expect_equal(gemm_work(std::get<GemmShape>(op.shape), op.input, op.output, accumulates), op);
  }
}

TEST_F(WorkOfALayer, OfFusedAttentionIsThatOfTheModel) {
  for (const Operator& op : graph_.operators) {
    if (op.kind != OperatorKind::attention) continue;
    expect_equal(attention_work(std::get<AttentionShape>(op.shape), op.pass, op.input), op);
  }
}

TEST_F(WorkOfALayer, OfRowOperatorsIsThatOfTheModel) {
  int compared = 0;
  for (const Operator& op : graph_.operators) {
    if (op.kind == OperatorKind::rms_norm) {
      expect_equal(norm_work(rows_of(op), op.pass, op.input, {.weights = 1, .statistics = 1}), op);
    } else if (op.kind == OperatorKind::activation) {
      expect_equal(activation_work(rows_of(op), op.pass, op.input, 2), op);
    } else if (op.kind == OperatorKind::add) {
      expect_equal(add_work(rows_of(op), op.input, 1), op);
    } else {
      continue;
    }
    ++compared;
  }
  EXPECT_GE(compared, 8);
}

TEST_F(WorkOfALayer, OfRopeIsThatOfTheModelAndTheTables) {
  const Operator& op = find(graph_, "rope", Pass::forward);
  const Work work = rope_work(rows_of(op), op.input, {.positions = 4096, .pairs = 64, .axes = 1});
  const auto rows = static_cast<double>(rows_of(op).rows);
  EXPECT_DOUBLE_EQ(work.read.value, op.bytes_read.value + 2 * 4 * 4096 * 64 + 4 * rows);
  EXPECT_DOUBLE_EQ(work.written.value, op.bytes_written.value);
}

TEST(Work, OfTheEmbeddingIsThatOfTheModel) {
  const RankGraph graph =
      models::embedding_graph(models::samples::llama(), models::samples::shape_of(1, false));
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    const Operator& op = find(graph, "embedding", pass);
    expect_equal(embedding_work(rows_of(op), pass, op.input), op);
  }
}

TEST(Work, OfTheFusedLossReadsTheLogitsOnceWhereTheModelReadsThemTwice) {
  models::RankShape shape = models::samples::shape_of(1, false);
  shape.loss = models::LossKernel::fused;
  const RankGraph graph = models::head_graph(models::samples::llama(), shape, false);
  const Operator& op = find(graph, "cross_entropy", Pass::forward);
  const Work work = loss_work(rows_of(op), Pass::forward, op.input, LossForm::fused);
  const auto rows = static_cast<double>(rows_of(op).rows);
  EXPECT_DOUBLE_EQ(work.read.value - 8 * rows, op.bytes_read.value / 2);
  EXPECT_DOUBLE_EQ(work.written.value - 4 * rows, op.bytes_written.value);
}

TEST(Work, OfMovingTokensIsThatOfTheModelAndTheMap) {
  const models::ModelSpec model = models::samples::mixture();
  const RankGraph graph =
      models::layer_graph(model, model.layer_kinds[0], models::samples::shape_of(1, false));
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    const Operator& op = find(graph, "permute", pass);
    const Work work = pass == Pass::forward ? spread_work(rows_of(op), op.input, 2)
                                            : gather_work(rows_of(op), op.input, 2);
    EXPECT_DOUBLE_EQ(work.read.value - 4.0 * static_cast<double>(rows_of(op).rows),
                     op.bytes_read.value);
    EXPECT_DOUBLE_EQ(work.written.value, op.bytes_written.value);
    const Operator& routed = find(graph, "route", pass);
    expect_equal(route_work(rows_of(routed), pass), routed);
  }
}

TEST(Work, OfAttentionFollowsTheFlopsOfTheCore) {
  const AttentionShape shape{.batch = 2,
                             .heads_q = 8,
                             .heads_kv = 2,
                             .q_len = 300,
                             .kv_len = 400,
                             .head_dim_qk = 192,
                             .head_dim_v = 128};
  EXPECT_EQ(attention_work(shape, Pass::forward, DType::bf16).flops, flops(shape, Pass::forward));
  EXPECT_EQ(attention_work(shape, Pass::dgrad, DType::bf16).flops, flops(shape, Pass::dgrad));
}

/// Bytes of a case's operands: what is read once and what is written once.
Work of_operands(const Case& made) {
  Work work;
  for (const Operand& operand : made.operands) {
    const Bytes bytes{static_cast<double>(operand.bytes())};
    const bool written_only = operand.fill == Fill::unwritten;
    if (!written_only) work.read += bytes;
    if (operand.is_output()) work.written += bytes;
  }
  return work;
}

struct Counted {
  std::string_view name;
  Result<Case> (*make)(const Question&);
  Pass pass;
  DType input, output;
  std::map<std::string, std::int64_t> parameters;
};
class WorkOfCases : public testing::TestWithParam<Counted> {};

TEST_P(WorkOfCases, IsEachInputOnceAndEachOutputOnce) {
  const Counted& counted = GetParam();
  const auto made = counted.make({.op = std::string(counted.name),
                                  .pass = counted.pass,
                                  .shape = RowShape{384, 256},
                                  .input = counted.input,
                                  .output = counted.output,
                                  .parameters = counted.parameters});
  ASSERT_TRUE(made.has_value()) << to_text(made.error());
  const Work operands = of_operands(*made);
  EXPECT_DOUBLE_EQ(made->work.read.value, operands.read.value);
  EXPECT_DOUBLE_EQ(made->work.written.value, operands.written.value);
}

constexpr DType kBf16 = DType::bf16, kFp32 = DType::fp32, kFp8 = DType::fp8_e4m3;
const std::vector<Counted> kCounted = {
    {"rms_norm", reference::rms_norm, Pass::forward, kBf16, kBf16, {}},
    {"rms_norm", reference::rms_norm, Pass::dgrad, kBf16, kBf16, {}},
    {"layer_norm", reference::layer_norm, Pass::forward, kBf16, kBf16, {}},
    {"layer_norm", reference::layer_norm, Pass::dgrad, kBf16, kBf16, {}},
    {"adaln_modulate",
     reference::adaln_modulate,
     Pass::forward,
     kBf16,
     kBf16,
     {{"rows_per_sample", 128}}},
    {"adaln_modulate",
     reference::adaln_modulate,
     Pass::dgrad,
     kBf16,
     kBf16,
     {{"rows_per_sample", 128}}},
    {"rope", reference::rope, Pass::forward, kBf16, kBf16, {{"positions", 300}, {"axes", 3}}},
    {"activation", reference::activation, Pass::forward, kBf16, kBf16, {}},
    {"activation", reference::activation, Pass::dgrad, kBf16, kBf16, {{"form", 0}}},
    {"add", reference::add, Pass::forward, kBf16, kBf16, {{"branches", 2}}},
    {"cross_entropy", reference::cross_entropy, Pass::forward, kBf16, kBf16, {}},
    {"cross_entropy", reference::cross_entropy, Pass::dgrad, kFp32, kFp32, {}},
    {"cross_entropy", reference::cross_entropy_fused, Pass::forward, kBf16, kBf16, {}},
    {"cross_entropy", reference::cross_entropy_parallel, Pass::forward, kBf16, kBf16, {}},
    {"cross_entropy", reference::cross_entropy_parallel, Pass::dgrad, kBf16, kBf16, {}},
    {"embedding", reference::embedding, Pass::forward, kBf16, kBf16, {{"vocabulary", 384}}},
    {"embedding", reference::embedding, Pass::dgrad, kBf16, kFp32, {{"vocabulary", 384}}},
    {"quantize", reference::quantize_current, Pass::forward, kBf16, kFp8, {{"transpose", 1}}},
    {"quantize", reference::quantize_rows, Pass::forward, kBf16, kFp8, {{"transpose", 1}}},
    {"quantize", reference::quantize_blocks, Pass::forward, kBf16, kFp8, {{"transpose", 1}}},
    {"transpose", reference::transpose, Pass::forward, kFp8, kFp8, {}},
    {"optimizer", reference::adamw, Pass::forward, kBf16, kBf16, {{"state_bits", 32}}},
    {"optimizer", reference::adamw, Pass::forward, kFp32, kBf16, {{"state_bits", 16}}},
    {"optimizer", reference::adamw, Pass::forward, kBf16, kBf16, {{"state_bits", 8}}},
    {"grad_norm", reference::grad_norm, Pass::forward, kBf16, kFp32, {}},
    {"route", reference::route, Pass::forward, kFp32, kFp32, {}},
    {"route", reference::route, Pass::dgrad, kFp32, kFp32, {}},
    {"permute", reference::permute, Pass::forward, kBf16, kBf16, {}},
    {"permute", reference::permute, Pass::dgrad, kBf16, kBf16, {}},
    {"unpermute", reference::unpermute, Pass::forward, kBf16, kBf16, {{"weighted", 1}}},
    {"unpermute", reference::unpermute, Pass::dgrad, kBf16, kBf16, {{"weighted", 1}}},
    {"copy", reference::copy, Pass::forward, kBf16, kBf16, {}},
    {"fill", reference::fill, Pass::forward, kBf16, kBf16, {}},
};
std::string test_name(const testing::TestParamInfo<Counted>& info) {
  return std::string(info.param.name) + "_" + std::string(name(info.param.pass)) + "_" +
         std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Reference, WorkOfCases, testing::ValuesIn(kCounted), test_name);

}  // namespace
}  // namespace foreplan::kernels
