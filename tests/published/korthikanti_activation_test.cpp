// Activation memory of one layer against Korthikanti et al. 2022, "Reducing Activation
// Recomputation in Large Transformer Models", arXiv 2205.05198, equations 1-4 and table 2. The
// paper neglects the statistics of the norms, which are left out here as well.

#include "models/rank_graph.hpp"

#include <gtest/gtest.h>

namespace foreplan::models {
namespace {

struct PaperModel {
  const char* name;
  double heads, hidden, sequence_length, micro_batch;  // table 3 of the paper
};

constexpr PaperModel kModels[] = {
    {"22B", 64, 6144, 2048, 4},
    {"175B (GPT-3)", 96, 12288, 2048, 1},
    {"530B (MT-NLG)", 128, 20480, 2048, 1},
    {"1T", 160, 25600, 2048, 1},
};
constexpr int kTp = 8;

ModelSpec model_of(const PaperModel& paper) {
  const auto heads = static_cast<std::int64_t>(paper.heads);
  const auto hidden = static_cast<std::int64_t>(paper.hidden);
  LayerSpec layer;
  layer.attention = {.heads = heads,
                     .kv_heads = heads,
                     .head_dim_qk = hidden / heads,
                     .head_dim_v = hidden / heads,
                     .qkv_bias = true,
                     .output_bias = true,
                     .qk_norm = false,
                     .window = 0,
                     .latent = {}};
  layer.ffn =
      FeedForwardSpec{.hidden = 4 * hidden, .activation = ActivationKind::gelu, .bias = true};
  ModelSpec model;
  model.hidden = hidden;
  model.norm = NormKind::layer_norm;
  model.norm_bias = true;
  model.position = PositionKind::learned;
  model.layer_kinds = {layer};
  model.layers = {0};
  return model;
}

double saved(const PaperModel& paper, int tp, bool sequence_parallel, PartSet recomputed) {
  const ModelSpec model = model_of(paper);
  RankShape shape;
  shape.micro_batch = static_cast<std::int64_t>(paper.micro_batch);
  shape.sequence_length = static_cast<std::int64_t>(paper.sequence_length);
  shape.tp = tp;
  shape.sequence_parallel = sequence_parallel;
  shape.attention = AttentionKernel::unfused;
  shape.hidden_dropout = 0.1;
  shape.attention_dropout = 0.1;
  RankGraph graph = layer_graph(model, model.layer(0), shape);
  std::erase_if(graph.saved, [](const SavedTensor& t) { return t.label == "norm_statistics"; });
  return saved_bytes(graph, recomputed).value;
}

constexpr PartSet kNothing = 0;
constexpr PartSet kEverything = ~PartSet{0};
const PartSet kSelective = part_bit(Part::core_attention);

class Korthikanti : public testing::TestWithParam<PaperModel> {
 protected:
  double sbh() const {
    return GetParam().sequence_length * GetParam().micro_batch * GetParam().hidden;
  }
  double scores() const {
    return 5 * GetParam().heads * GetParam().sequence_length / GetParam().hidden;
  }
};

TEST_P(Korthikanti, Equation1WithoutParallelism) {
  EXPECT_DOUBLE_EQ(saved(GetParam(), 1, false, kNothing), sbh() * (34 + scores()));
}

TEST_P(Korthikanti, Equation2WithTensorParallelism) {
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, false, kNothing),
                   sbh() * (10 + 24.0 / kTp + scores() / kTp));
}

TEST_P(Korthikanti, Equation4WithTensorAndSequenceParallelism) {
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, true, kNothing), sbh() / kTp * (34 + scores()));
}

TEST_P(Korthikanti, Table2SelectiveRecomputeOfTheAttentionCore) {
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, false, kSelective), sbh() * (10 + 24.0 / kTp));
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, true, kSelective), sbh() * 34 / kTp);
}

TEST_P(Korthikanti, Table2FullRecomputeKeepsTheLayerInput) {
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, false, kEverything), 2 * sbh());
  EXPECT_DOUBLE_EQ(saved(GetParam(), kTp, true, kEverything), 2 * sbh() / kTp);
}

INSTANTIATE_TEST_SUITE_P(Table3, Korthikanti, testing::ValuesIn(kModels),
                         [](const auto& row) { return "Row" + std::to_string(row.index); });

}  // namespace
}  // namespace foreplan::models
