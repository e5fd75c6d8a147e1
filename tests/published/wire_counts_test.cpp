// What PyTorch sends between real gloo processes (scripts/make_wire_counts.py), against the
// collectives of our graphs. Where PyTorch's code sends something else than the framework that the
// graph follows, the difference has a name and a closed form here.

#include "models/hf_config.hpp"
#include "models/rank_graph.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::models {
namespace {

const std::string kFolder = std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/wire_counts/";
constexpr std::int64_t kBatch = 2, kSequence = 32;  // BATCH, SEQUENCE of the script
constexpr double kFp32 = 4, kInt64 = 8;

using Traffic = std::map<std::pair<std::string, std::string>, double>;  // pass, kind -> bytes

/// Bytes by pass and kind that rank 0 of `ranks` sent in a case.
Traffic sent(const std::string& name, int ranks) {
  std::ifstream file(kFolder + "counts.csv");
  Traffic bytes;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::vector<std::string> f;
    for (std::string field; std::getline(cells, field, ',');) f.push_back(field);
    if (f.at(0) == name && f.at(1) == std::to_string(ranks))
      bytes[{f.at(2), f.at(3)}] = std::stod(f.at(5));
  }
  return bytes;
}

class WireCounts : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto model = read_hf_config(kFolder + "model.json");
    ASSERT_TRUE(model) << to_text(model.error());
    model_ = *model;
    shape_.micro_batch = kBatch;
    shape_.sequence_length = kSequence;
    shape_.activation = DType::fp32;
  }

  [[nodiscard]] int ranks() const { return GetParam(); }
  [[nodiscard]] double tokens() const {
    return static_cast<double>(kBatch * kSequence) / shape_.cp;
  }
  [[nodiscard]] double state() const {
    return kFp32 * tokens() * static_cast<double>(model_.hidden);
  }
  [[nodiscard]] double layers() const { return model_.layer_count(); }

  [[nodiscard]] std::vector<RankGraph> graphs() const {
    std::vector<RankGraph> all = {embedding_graph(model_, shape_),
                                  head_graph(model_, shape_, true)};
    for (int i = 0; i < model_.layer_count(); ++i)
      all.push_back(layer_graph(model_, model_.layer(i), shape_));
    return all;
  }

  [[nodiscard]] Traffic ours() const {
    Traffic bytes;
    for (const RankGraph& graph : graphs()) {
      for (const CollectiveUse& use : graph.collectives) {
        const std::string pass = use.pass == Pass::forward ? "forward" : "backward";
        bytes[{pass, std::string(name(use.collective.kind))}] +=
            use.count * use.collective.size.value;
      }
    }
    return bytes;
  }

  ModelSpec model_;
  RankShape shape_;
};

TEST_P(WireCounts, GradientsOfDdpAreReducedOnce) {
  double parameters = 0;
  for (const RankGraph& graph : graphs()) parameters += graph.parameters.dense;
  EXPECT_EQ(sent("ddp", ranks()), (Traffic{{{"backward", "all_reduce"}, kFp32 * parameters}}));
}

TEST_P(WireCounts, FsdpGathersEveryUnitInBothPassesUnlessItKeepsThem) {
  double whole = 0;
  for (const RankGraph& graph : graphs()) whole += kFp32 * graph.parameters.dense;
  EXPECT_EQ(sent("fsdp_reshard", ranks()), (Traffic{{{"forward", "all_gather"}, whole},
                                                    {{"backward", "all_gather"}, whole},
                                                    {{"backward", "reduce_scatter"}, whole}}));
  EXPECT_EQ(sent("fsdp_keep", ranks()),
            (Traffic{{{"forward", "all_gather"}, whole}, {{"backward", "reduce_scatter"}, whole}}));
}

TEST_P(WireCounts, TensorParallelismReducesWhatItSplit) {
  shape_.tp = ranks();
  EXPECT_EQ(ours(), sent("tp", ranks()));
}

TEST_P(WireCounts, SequenceParallelismGathersAndScatters) {
  shape_.tp = ranks();
  shape_.sequence_parallel = true;
  Traffic bytes = ours();
  // Megatron-LM keeps its share of a column-parallel layer's input and gathers it again for the
  // weight gradient; DTensor keeps the gathered one. Two such layers a block, and the head.
  bytes[{"backward", "all_gather"}] -= (2 * layers() + 1) * state();
  EXPECT_EQ(bytes, sent("tp_sp", ranks()));
  shape_.keeps_gathered = true;
  EXPECT_EQ(ours(), sent("tp_sp", ranks()));
}

TEST_P(WireCounts, ARingSendsKeysAndValuesToTheNextRank) {
  // The CPU's kernel for the blocks wants keys and values of every query head.
  model_.layer_kinds[0].attention.kv_heads = model_.layer_kinds[0].attention.heads;
  shape_.cp = ranks();
  Traffic bytes = ours();
  // TransformerEngine's ring ends where the gradients of keys and values are complete; PyTorch's
  // ends one hop later, at their owner.
  bytes[{"backward", "send_recv"}] += layers() * 2 * state();
  EXPECT_EQ(bytes, sent("cp_ring", ranks()));
}

TEST_P(WireCounts, GatheredContextReturnsGradientsAroundTheRing) {
  model_.layer_kinds[0].attention.kv_heads = model_.layer_kinds[0].attention.heads;
  shape_.cp = ranks();
  shape_.context_parallel = ContextParallelKind::all_gather;
  Traffic bytes = ours();
  // Megatron-LM scatters the sum of the gradients; PyTorch sends them around the ring, which is as
  // many bytes: c hops of one block are c blocks.
  bytes[{"backward", "send_recv"}] = bytes[{"backward", "reduce_scatter"}];
  bytes.erase({"backward", "reduce_scatter"});
  EXPECT_EQ(bytes, sent("cp_all_gather", ranks()));
  // Keys and values of every query head are what torchtitan gives it.
  model_.layer_kinds[0].attention.kv_heads = 1;
  shape_.context_parallel = ContextParallelKind::torch_ring;
  EXPECT_EQ(ours(), sent("cp_all_gather", ranks()));
}

TEST_P(WireCounts, ExpertsReceiveTopKCopies) {
  constexpr std::int64_t kExperts = 8, kTopK = 2;  // EXPERTS, TOP_K of the script
  LayerSpec& layer = model_.layer_kinds[0];
  layer.moe = MoeSpec{.experts = kExperts, .top_k = kTopK, .expert_hidden = 160};
  layer.ffn.reset();
  shape_.ep = ranks();
  Traffic bytes = ours();
  // Megatron-LM gathers the counts of all ranks, torchtitan exchanges them; Megatron-LM sends the
  // probabilities along with the tokens, torchtitan applies them at home.
  bytes.erase({"forward", "all_gather"});
  bytes[{"forward", "all_to_all"}] += layers() * kInt64 * kExperts;
  for (const char* pass : {"forward", "backward"})
    bytes[{pass, "all_to_all"}] -= layers() * kFp32 * tokens() * kTopK;
  EXPECT_EQ(bytes, sent("ep", ranks()));
}

INSTANTIATE_TEST_SUITE_P(Ranks, WireCounts, testing::Values(2, 4));

using PipelineWireCounts = WireCounts;
TEST_P(PipelineWireCounts, AStageSendsTheBoundaryOfEveryMicroBatch) {
  constexpr double kMicroBatches = 4;  // MICRO_BATCHES of the script
  // One int32 first, by which the stages agree that the shapes are known.
  EXPECT_EQ(sent("pp", ranks()),
            (Traffic{{{"step", "send_recv"}, kMicroBatches * graphs().back().boundary.value + 4}}));
}
INSTANTIATE_TEST_SUITE_P(TwoStages, PipelineWireCounts, testing::Values(2));

}  // namespace
}  // namespace foreplan::models
