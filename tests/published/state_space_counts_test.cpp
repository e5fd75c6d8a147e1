// FLOPs of state-space models and hybrids in `transformers` by PyTorch's FLOP counter
// (scripts/make_state_space_counts.py), against ours. Each difference has a closed form here.

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"
#include "tests/published/golden_rows.hpp"

#include <gtest/gtest.h>

#include <string>

namespace foreplan::models {
namespace {

const std::string kFolder = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/state_space_counts/";

struct Pass2 {
  double forward = 0, backward = 0;
};

/// Sizes of one state-space layer under the script's batch.
struct Sizes {
  double tokens, batch, length, heads, inner, state, groups, chunk, channels, kernel;
};

Sizes sizes_of(const MambaSpec& m, double batch, double length) {
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  return {batch * length, batch,       length,     d(m.heads),      d(m.inner()),
          d(m.state),     d(m.groups), d(m.chunk), d(m.channels()), d(m.conv_kernel)};
}

/// What torch counts of a state-space layer beyond what mamba_ssm's kernels, hence we, compute.
Pass2 beyond_ours(const Sizes& s) {
  // B and C are repeated for every head of a group.
  const double repeated = 2 * s.tokens * s.chunk * s.state * (s.heads - s.groups);
  // Values meet masked pairs too.
  const double masked = s.tokens * s.inner * (s.chunk - 1);
  // States pass by a product with a matrix of decays, one row and column for the initial state.
  const double chunks = s.length / s.chunk + 1;
  const double passing = 2 * s.batch * chunks * chunks * s.inner * s.state;
  // The convolution runs over its padding; its weights' gradient is counted as if every channel
  // met every other.
  const double convolution = 2 * s.channels * s.kernel * s.tokens;
  const double padded = 2 * s.channels * s.kernel * s.batch * (s.length + s.kernel - 1);
  // Our kernels compute states, products of C and B and the convolution again, and once more the
  // products of values and gradients for the decay, at the pairs that no mask hides.
  const double again = 2 * s.tokens * s.inner * s.state +
                       2 * s.tokens * s.chunk * s.state * s.groups + convolution +
                       s.tokens * s.inner * (s.chunk + 1);
  return {repeated + masked + passing + padded - convolution,
          2 * (repeated + masked + passing) + padded * (1 + s.channels) - 2 * convolution - again};
}

Pass2 ours(const RankGraph& graph) {
  Pass2 sum;
  for (const Operator& op : graph.operators)
    (op.pass == Pass::forward ? sum.forward : sum.backward) += flops_as_torch_counts(op);
  return sum;
}

class StateSpaceCounts : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(StateSpaceCounts, FlopsAndParametersEqualTransformers) {
  const auto& row = GetParam();
  const auto model = read_hf_config(kFolder + row.at(0) + ".json");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(parameter_count(*model), std::stoll(row.at(3)));
  RankShape shape;
  shape.micro_batch = std::stoll(row.at(1));
  shape.sequence_length = std::stoll(row.at(2));
  Pass2 total = ours(head_graph(*model, shape, true));
  for (const auto kind : model->layers) {
    const LayerSpec& layer = model->layer_kinds[kind];
    const Pass2 of_layer = ours(layer_graph(*model, layer, shape));
    total.forward += of_layer.forward;
    total.backward += of_layer.backward;
    if (!layer.mamba) continue;
    const Pass2 more = beyond_ours(sizes_of(*layer.mamba, static_cast<double>(shape.micro_batch),
                                            static_cast<double>(shape.sequence_length)));
    total.forward += more.forward;
    total.backward += more.backward;
  }
  EXPECT_DOUBLE_EQ(total.forward, std::stod(row.at(4)));
  EXPECT_DOUBLE_EQ(total.backward, std::stod(row.at(5)));
}

INSTANTIATE_TEST_SUITE_P(Transformers, StateSpaceCounts,
                         testing::ValuesIn(golden_rows(kFolder + "counts.csv")),
                         [](const auto& row) {
                           std::string name = row.param.at(0);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace foreplan::models
