// FLOPs against PyTorch's own counter on models built by transformers
// (scripts/make_torch_counts.py).

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"
#include "tests/published/golden_rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foreplan::models {
namespace {

const std::string kFolder = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/torch_counts/";

struct Counted {
  std::string model, attention;
  std::int64_t micro_batch = 0, sequence_length = 0;
  double forward = 0, backward = 0;
};

std::vector<Counted> counted_models() {
  std::vector<Counted> rows;
  for (const auto& fields : golden_rows(kFolder + "counts.csv")) {
    rows.push_back({fields.at(0), fields.at(1), std::stoll(fields.at(2)), std::stoll(fields.at(3)),
                    std::stod(fields.at(4)), std::stod(fields.at(5))});
  }
  return rows;
}

struct Passes {
  double forward = 0, backward = 0;
};

Passes whole_model(const ModelSpec& model, const RankShape& shape) {
  std::vector<RankGraph> graphs = {embedding_graph(model, shape), head_graph(model, shape, true)};
  for (int i = 0; i < model.layer_count(); ++i) {
    graphs.push_back(layer_graph(model, model.layer(i), shape));
  }
  Passes sum;
  for (const RankGraph& graph : graphs) {
    for (const Operator& op : graph.operators) {
      (op.pass == Pass::forward ? sum.forward : sum.backward) += flops_as_torch_counts(op);
    }
  }
  return sum;
}

class TorchCounts : public testing::TestWithParam<Counted> {};

TEST_P(TorchCounts, ForwardAndBackwardFlopsAreExact) {
  const Counted& row = GetParam();
  const auto model = read_hf_config(kFolder + row.model + ".json");
  ASSERT_TRUE(model) << to_text(model.error());
  RankShape shape;
  shape.micro_batch = row.micro_batch;
  shape.sequence_length = row.sequence_length;
  shape.attention = row.attention == "eager" ? AttentionKernel::unfused : AttentionKernel::fused;
  const Passes ours = whole_model(*model, shape);
  EXPECT_DOUBLE_EQ(ours.forward, row.forward);
  EXPECT_DOUBLE_EQ(ours.backward, row.backward);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchCounts, testing::ValuesIn(counted_models()),
                         [](const auto& row) {
                           return row.param.model + "_" + row.param.attention;
                         });

TEST(TorchCountsFile, HoldsEveryFamilyOfTheGenerator) { EXPECT_EQ(counted_models().size(), 14U); }

}  // namespace
}  // namespace foreplan::models
