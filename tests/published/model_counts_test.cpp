// What transformers' language models compute and keep for backward, counted by PyTorch's FLOP
// counter and saved-tensor hooks (scripts/make_model_counts.py), against our counts. Where the
// model code keeps something of its own, the difference has a name and a closed form here.

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"
#include "tests/published/golden_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace foreplan::models {
namespace {

const std::string kFolder = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/model_counts/";
constexpr double kTolerance = 1e-3;

struct Counted {
  std::string model, attention;
  std::int64_t micro_batch = 0, sequence_length = 0, parameters = 0;
  double forward = 0, backward = 0, embedding = 0, layers = 0, head = 0;
};

std::vector<Counted> counted_models() {
  std::ifstream file(kFolder + "counts.csv");
  std::vector<Counted> rows;
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string> f;
    for (std::string field; std::getline(cells, field, ',');) f.push_back(field);
    rows.push_back({f.at(0), f.at(1), std::stoll(f.at(2)), std::stoll(f.at(3)), std::stoll(f.at(4)),
                    std::stod(f.at(5)), std::stod(f.at(6)), std::stod(f.at(7)), std::stod(f.at(8)),
                    std::stod(f.at(9))});
  }
  return rows;
}

/// One model of the table with the sizes that differences are made of.
struct Case {
  Counted row;
  ModelSpec model;
  RankShape shape;
  double tokens = 0, hidden = 0;
  [[nodiscard]] bool family(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), model.family) != names.end();
  }
  [[nodiscard]] double scores(const LayerSpec& layer) const {
    return tokens * static_cast<double>(row.sequence_length * layer.attention.heads);
  }
};

/// Bytes that the model code keeps beyond what we count (negative: less), per layer and in the
/// head.
struct Difference {
  std::string_view name;
  std::function<bool(const Case&)> applies;
  std::function<double(const Case&, const LayerSpec&)> layer;
  std::function<double(const Case&)> head;
};

double none(const Case& /*unused*/) { return 0; }
double query_width(const LayerSpec& l) {
  return static_cast<double>(l.attention.heads * l.attention.head_dim_qk);
}
double key_width(const LayerSpec& l) {
  return static_cast<double>(l.attention.kv_heads * l.attention.head_dim_qk);
}
bool has_experts(const LayerSpec& l) { return l.moe.has_value(); }
double top_k(const LayerSpec& l) { return static_cast<double>(l.moe->top_k); }

/// Elements that RMS norms see in a layer, per token and as weights.
double normed(const Case& c, const LayerSpec& l) {
  return l.norms * c.hidden + (l.attention.qk_norm ? query_width(l) + key_width(l) : 0);
}
double norm_weights(const Case& c, const LayerSpec& l) {
  return l.norms * c.hidden +
         (l.attention.qk_norm ? 2 * static_cast<double>(l.attention.head_dim_qk) : 0);
}

std::vector<Difference> differences_of_norms() {
  return {
      {"LayerNorm on the CPU keeps mean and deviation in bf16, on GPUs in fp32",
       [](const Case& c) { return c.model.norm == NormKind::layer_norm; },
       [](const Case& c, const LayerSpec& l) { return -4 * c.tokens * l.norms; },
       [](const Case& c) { return c.model.final_norm ? -4 * c.tokens : 0; }},
      {"Nemotron adds one to the norms' weights",
       [](const Case& c) { return c.family({"nemotron"}); },
       [](const Case& c, const LayerSpec& l) { return 2 * c.hidden * l.norms; },
       [](const Case& c) { return 2 * c.hidden; }},
      {"Gemma multiplies by one plus the weight before it casts: fp32 products and weights",
       [](const Case& c) {
         return c.family({"gemma", "gemma2", "gemma3_text"});
       },
       [](const Case& c, const LayerSpec& l) {
         return 2 * c.tokens * normed(c, l) + 4 * norm_weights(c, l);
       },
       [](const Case& c) { return (2 * c.tokens + 4) * c.hidden; }},
  };
}

std::vector<Difference> differences_of_attention() {
  return {
      {"queries and keys are concatenated after a partial rotation, which orders heads before "
       "tokens, so the context is copied",
       [](const Case& c) {
         return c.family({"phi", "phi3", "nemotron", "gpt_neox"});
       },
       [](const Case& c, const LayerSpec& l) { return 2 * c.tokens * query_width(l); }, none},
      {"values are a view of the fused projection, whose queries and keys stay with them",
       [](const Case& c) {
         return c.family({"phi3", "gpt_neox"});
       },
       [](const Case& c, const LayerSpec& l) {
         return 2 * c.tokens * (query_width(l) + key_width(l));
       },
       none},
      {"Falcon repeats keys and values for every head",
       [](const Case& c) { return c.family({"falcon"}) && c.row.attention == "sdpa"; },
       [](const Case& c, const LayerSpec& l) {
         return 2 * 2 * c.tokens * (query_width(l) - key_width(l));
       },
       none},
      {"Falcon's softmax is in bf16",
       [](const Case& c) { return c.family({"falcon"}) && c.row.attention == "eager"; },
       [](const Case& c, const LayerSpec& l) { return -4 * c.scores(l); }, none},
      {"Gemma 2 caps scores and logits by a hyperbolic tangent",
       [](const Case& c) { return c.family({"gemma2"}); },
       [](const Case& c, const LayerSpec& l) { return 2 * c.scores(l); },
       [](const Case& c) { return 2 * c.tokens * static_cast<double>(c.model.vocabulary); }},
      {"GPT-J makes the angles of 64 rotated features anew in every layer, in four tables",
       [](const Case& c) { return c.family({"gptj"}); },
       [](const Case& c, const LayerSpec&) {
         return 4 * 2 * 64 * static_cast<double>(c.row.sequence_length);
       },
       none},
      {"GPT-J multiplies queries and keys in fp32",
       [](const Case& c) { return c.family({"gptj"}); },
       [](const Case& c, const LayerSpec& l) {
         return 2 * c.tokens * (query_width(l) + key_width(l));
       },
       none},
  };
}

std::vector<Difference> differences_of_feed_forward() {
  return {
      {"gelu_new in Python keeps half of its input, the tangent and one plus the tangent",
       [](const Case& c) {
         return c.family({"gpt2", "gptj", "phi"});
       },
       [](const Case& c, const LayerSpec& l) {
         return 3 * 2 * c.tokens * static_cast<double>(l.ffn->hidden);
       },
       none},
      {"normalised routing keeps the chosen probabilities and their sum",
       [](const Case& c) {
         return c.family({"mixtral", "deepseek_v3"});
       },
       [](const Case& c, const LayerSpec& l) {
         return has_experts(l) ? 4 * c.tokens * (top_k(l) + 1) : 0;
       },
       none},
      {"Qwen weighs experts in bf16",
       [](const Case& c) {
         return c.family({"qwen2_moe", "qwen3_moe"});
       },
       [](const Case& c, const LayerSpec& l) { return -2 * c.tokens * top_k(l); }, none},
      {"Qwen2-MoE's gate on the shared expert keeps its sigmoid",
       [](const Case& c) { return c.family({"qwen2_moe"}); },
       [](const Case& c, const LayerSpec&) { return 2 * c.tokens; }, none},
      {"DeepSeek routes by an fp32 copy of the hidden state",
       [](const Case& c) {
         return c.family({"deepseek_v2", "deepseek_v3"});
       },
       [](const Case& c, const LayerSpec& l) {
         return has_experts(l) ? 4 * c.tokens * c.hidden : 0;
       },
       none},
      {"DeepSeek-V3 limits groups (8): two best of each, four of them, a mask over experts",
       [](const Case& c) { return c.family({"deepseek_v3"}); },
       [](const Case& c, const LayerSpec& l) {
         return has_experts(l) ? c.tokens * (8 * (8 * 2 + 4) + static_cast<double>(l.moe->experts))
                               : 0;
       },
       none},
  };
}

std::vector<Difference> known_differences() {
  std::vector<Difference> all = differences_of_norms();
  for (const auto& more : {differences_of_attention(), differences_of_feed_forward()})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back({"the labels", [](const Case&) { return true; },
                 [](const Case&, const LayerSpec&) { return 0.0; },
                 [](const Case& c) { return 8 * c.tokens + 4; }});
  return all;
}

class ModelCounts : public testing::TestWithParam<Counted> {
 protected:
  void SetUp() override {
    const auto model = read_hf_config(kFolder + GetParam().model + ".json");
    ASSERT_TRUE(model) << to_text(model.error());
    case_.row = GetParam();
    case_.model = *model;
    case_.shape.micro_batch = case_.row.micro_batch;
    case_.shape.sequence_length = case_.row.sequence_length;
    case_.shape.attention =
        case_.row.attention == "eager" ? AttentionKernel::unfused : AttentionKernel::fused;
    case_.shape.elementwise = ElementwiseKernels::operators;
    case_.shape.loss = LossKernel::eager_fp32;
    case_.tokens = static_cast<double>(case_.row.micro_batch * case_.row.sequence_length);
    case_.hidden = static_cast<double>(model->hidden);
  }

  [[nodiscard]] std::vector<RankGraph> graphs() const {
    std::vector<RankGraph> all = {embedding_graph(case_.model, case_.shape),
                                  head_graph(case_.model, case_.shape, true)};
    for (int i = 0; i < case_.model.layer_count(); ++i)
      all.push_back(layer_graph(case_.model, case_.model.layer(i), case_.shape));
    return all;
  }

  Case case_;
};

/// The tensors of a graph, for a failing test's message.
std::string tensors(const RankGraph& graph) {
  std::ostringstream text;
  for (const SavedTensor& tensor : graph.saved)
    text << "\n  " << tensor.label << " " << tensor.size.value;
  return text.str();
}

TEST_P(ModelCounts, ParametersAreExact) {
  EXPECT_EQ(parameter_count(case_.model), GetParam().parameters);
}

TEST_P(ModelCounts, ForwardAndBackwardFlopsAreExact) {
  double forward = 0, backward = 0;
  for (const RankGraph& graph : graphs()) {
    for (const Operator& op : graph.operators)
      (op.pass == Pass::forward ? forward : backward) += flops_as_torch_counts(op);
  }
  EXPECT_DOUBLE_EQ(forward, GetParam().forward);
  EXPECT_DOUBLE_EQ(backward, GetParam().backward);
}

TEST_P(ModelCounts, BytesKeptByLayersAreThoseOfAutograd) {
  double ours = 0;
  std::string named, kept;
  for (int i = 0; i < case_.model.layer_count(); ++i) {
    const RankGraph graph = layer_graph(case_.model, case_.model.layer(i), case_.shape);
    ours += saved_bytes(graph, 0).value;
    kept = tensors(graph);
  }
  for (const Difference& difference : known_differences()) {
    if (!difference.applies(case_)) continue;
    for (int i = 0; i < case_.model.layer_count(); ++i)
      ours += difference.layer(case_, case_.model.layer(i));
    named += "\n  " + std::string(difference.name);
  }
  EXPECT_NEAR(ours / GetParam().layers, 1, kTolerance) << kept << named;
}

TEST_P(ModelCounts, BytesKeptByTheHeadAreThoseOfAutograd) {
  const RankGraph graph = head_graph(case_.model, case_.shape, true);
  double ours = saved_bytes(graph, 0).value;
  for (const Difference& difference : known_differences()) {
    if (difference.applies(case_)) ours += difference.head(case_);
  }
  EXPECT_NEAR(ours / GetParam().head, 1, kTolerance) << tensors(graph);
}

TEST_P(ModelCounts, BytesKeptByTheEmbeddingAreThoseOfAutograd) {
  double ours = saved_bytes(embedding_graph(case_.model, case_.shape), 0).value;
  if (case_.family({"opt"})) ours += 8 * case_.tokens;  // positions of every token
  if (case_.family({"gpt2"})) ours += 8 * static_cast<double>(case_.row.sequence_length);
  if (case_.model.embedding_norm) ours -= 4 * case_.tokens;         // statistics in bf16 on the CPU
  if (case_.family({"gemma", "gemma2", "gemma3_text"})) ours += 2;  // the factor of the embedding
  EXPECT_NEAR(ours / GetParam().embedding, 1, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, ModelCounts, testing::ValuesIn(counted_models()),
                         [](const auto& row) {
                           std::string name = row.param.model;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(ModelCountsFile, HoldsTheModelsOfTheGenerator) { EXPECT_EQ(counted_models().size(), 31U); }

}  // namespace
}  // namespace foreplan::models
