// Each rule of a plan: the least plan that breaks it, and the numbers in its sentence.

#include "simulator/plan/validity.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace foreplan::simulator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A question on 32 devices with 64 sequences a step.
struct Question {
  models::ModelSpec model = samples::dense_model();
  ClusterSpec cluster = samples::cluster(4);
  TrainingSetup training = samples::training(64);
  [[nodiscard]] Job job() const { return {&model, &cluster, training}; }
};

Question about_experts() {
  Question question;
  question.model = samples::expert_model(12, 1);
  return question;
}

/// A plan that is valid for both sample models.
ParallelPlan valid_plan() {
  ParallelPlan plan;
  plan.dp = 8;
  return plan;
}

using Change = std::function<void(ParallelPlan&)>;

/// First broken rule, with its sentence.
std::pair<Rule, std::string> outcome(const Question& question, const Change& change) {
  ParallelPlan plan = valid_plan();
  change(plan);
  const Rule rule = violated(plan, question.job());
  return {rule, explain(rule, plan, question.job())};
}

TEST(Validity, ThePlansThatTheseTestsStartFromAreValid) {
  EXPECT_EQ(violated(valid_plan(), Question{}.job()), Rule::none);
  EXPECT_EQ(violated(valid_plan(), about_experts().job()), Rule::none);
  EXPECT_EQ(explain(Rule::none, valid_plan(), Question{}.job()), "valid");
}

TEST(Validity, EveryDegreeIsAtLeastOne) {
  const std::vector<Change> zeros = {
      [](ParallelPlan& p) { p.tp = 0; },          [](ParallelPlan& p) { p.pp = 0; },
      [](ParallelPlan& p) { p.vpp = -1; },        [](ParallelPlan& p) { p.dp = 0; },
      [](ParallelPlan& p) { p.cp = 0; },          [](ParallelPlan& p) { p.ep = 0; },
      [](ParallelPlan& p) { p.etp = 0; },         [](ParallelPlan& p) { p.micro_batch = 0; },
      [](ParallelPlan& p) { p.dp_replicate = 0; }};
  for (const Change& zero : zeros) {
    const auto [rule, text] = outcome(Question{}, zero);
    EXPECT_EQ(rule, Rule::degrees_positive);
    EXPECT_THAT(text, HasSubstr("at least 1"));
  }
}

TEST(Validity, RanksDoNotExceedTheCluster) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.dp = 33; });
  EXPECT_EQ(rule, Rule::world_exceeds_cluster);
  EXPECT_THAT(text, AllOf(HasSubstr("= 33 GPUs"), HasSubstr("has 32")));
  EXPECT_EQ(outcome(Question{}, [](ParallelPlan& p) { p.dp = 32; }).first, Rule::none);
}

TEST(Validity, TensorParallelismDividesTheHeads) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.tp = 3; });
  EXPECT_EQ(rule, Rule::heads_divide_by_tp);
  EXPECT_THAT(text, AllOf(HasSubstr("tp: 3"), HasSubstr("16"), HasSubstr("1, 2, 4, 8, 16")));
}

TEST(Validity, KvHeadsAreSplitOrReplicatedEvenly) {
  Question question;
  question.model.layer_kinds[0].attention.heads = 24;
  question.model.layer_kinds[0].attention.kv_heads = 4;
  const auto [rule, text] = outcome(question, [](ParallelPlan& p) { p.tp = 6, p.dp = 1; });
  EXPECT_EQ(rule, Rule::kv_heads_match_tp);
  EXPECT_THAT(text, AllOf(HasSubstr("tp: 6"), HasSubstr("= 4")));
  // 2 splits four heads, 8 replicates each of them.
  EXPECT_NE(outcome(question, [](ParallelPlan& p) { p.tp = 2; }).first, Rule::kv_heads_match_tp);
  EXPECT_NE(outcome(question, [](ParallelPlan& p) { p.tp = 8, p.dp = 1; }).first,
            Rule::kv_heads_match_tp);
}

TEST(Validity, LatentAttentionHasNoKvHeadsToMatch) {
  Question question;
  question.model.layer_kinds[0].attention.heads = 24;
  question.model.layer_kinds[0].attention.latent = models::LatentAttention{};
  question.model.layer_kinds[0].ffn->hidden = 8184;
  EXPECT_EQ(outcome(question, [](ParallelPlan& p) { p.tp = 6, p.dp = 1; }).first, Rule::none);
}

TEST(Validity, TensorParallelismDividesTheFeedForwardWidth) {
  Question question;
  question.model.layer_kinds[0].ffn->hidden = 8190;
  const auto [rule, text] = outcome(question, [](ParallelPlan& p) { p.tp = 4; });
  EXPECT_EQ(rule, Rule::ffn_divides_by_tp);
  EXPECT_THAT(text, AllOf(HasSubstr("tp: 4"), HasSubstr("8190")));
}

TEST(Validity, TensorParallelismDividesTheSharedExperts) {
  Question question = about_experts();
  question.model.layer_kinds[1].moe->shared_hidden = 510;
  const auto [rule, text] =
      outcome(question, [](ParallelPlan& p) { p.tp = 4, p.sequence_parallel = true; });
  EXPECT_EQ(rule, Rule::ffn_divides_by_tp);
  EXPECT_THAT(text, AllOf(HasSubstr("tp: 4"), HasSubstr("510")));
}

TEST(Validity, SequenceParallelismNeedsTensorParallelism) {
  const auto [rule, text] =
      outcome(Question{}, [](ParallelPlan& p) { p.sequence_parallel = true; });
  EXPECT_EQ(rule, Rule::sequence_parallel_needs_tp);
  EXPECT_THAT(text, HasSubstr("needs tp > 1"));
}

TEST(Validity, ExpertsWithTensorParallelismNeedSequenceParallelism) {
  const auto [rule, text] = outcome(about_experts(), [](ParallelPlan& p) { p.tp = 2; });
  EXPECT_EQ(rule, Rule::moe_tp_needs_sequence_parallel);
  EXPECT_THAT(text, HasSubstr("sequence_parallel"));
  EXPECT_EQ(outcome(Question{}, [](ParallelPlan& p) { p.tp = 2; }).first, Rule::none);
}

TEST(Validity, TheSequenceDividesIntoZigZagPieces) {
  Question question;
  question.training.sequence_length = 2044;  // 4 * 511
  const auto [rule, text] = outcome(question, [](ParallelPlan& p) { p.cp = 4; });
  EXPECT_EQ(rule, Rule::sequence_divides);
  EXPECT_THAT(text, AllOf(HasSubstr("2044"), HasSubstr("2*cp = 8")));
  EXPECT_EQ(outcome(question, [](ParallelPlan& p) { p.cp = 2; }).first, Rule::none);
}

TEST(Validity, TheSequenceDividesOverSequenceParallelRanks) {
  Question question;
  question.training.sequence_length = 2044;
  const auto [rule, text] =
      outcome(question, [](ParallelPlan& p) { p.tp = 8, p.dp = 1, p.sequence_parallel = true; });
  EXPECT_EQ(rule, Rule::sequence_divides);
  EXPECT_THAT(text, AllOf(HasSubstr("2044"), HasSubstr("tp = 8")));
}

/// 8190 tokens of a latent and 10 of a text, which attend to each other without a mask.
Question about_diffusion() {
  Question question;
  question.training.sequence_length = 8200;
  models::ModelSpec& model = question.model;
  model.layer_kinds.front().attention.causal = false;
  model.layer_kinds.front().diffusion = models::DiffusionBlock{};
  model.diffusion = models::DiffusionSpec{};
  model.diffusion->text_tokens = 10;
  model.diffusion->joint_text = true;
  return question;
}

TEST(Validity, NeedsNoZigZagPiecesWhereNothingIsMasked) {
  Question question = about_diffusion();
  EXPECT_EQ(outcome(question, [](ParallelPlan& p) { p.cp = 2; }).first, Rule::none);
  question.training.sequence_length = 8201;
  const auto [rule, text] = outcome(question, [](ParallelPlan& p) { p.cp = 2; });
  EXPECT_EQ(rule, Rule::sequence_divides);
  EXPECT_THAT(text, AllOf(HasSubstr("8201"), HasSubstr("cp = 2"), testing::Not(HasSubstr("2*cp"))));
}

TEST(Validity, TextThatJoinsTheLatentDividesAsItDoes) {
  const auto [rule, text] = outcome(about_diffusion(), [](ParallelPlan& p) { p.cp = 4; });
  EXPECT_EQ(rule, Rule::text_divides);
  EXPECT_THAT(text, AllOf(HasSubstr("text_tokens 10"), HasSubstr("cp = 4")));
}

TEST(Validity, DiffusionTransformersHaveNoExpertsToSpread) {
  const auto [rule, text] = outcome(about_diffusion(), [](ParallelPlan& p) { p.ep = 2; });
  EXPECT_EQ(rule, Rule::ep_needs_experts);
  EXPECT_THAT(text, HasSubstr("diffusion transformer"));
}

TEST(Validity, EveryChunkHoldsALayer) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.pp = 16, p.dp = 1; });
  EXPECT_EQ(rule, Rule::layers_cover_chunks);
  EXPECT_THAT(text, AllOf(HasSubstr("= 16 chunks"), HasSubstr("has 12")));
}

TEST(Validity, InterleavingNeedsAPipeline) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.vpp = 2; });
  EXPECT_EQ(rule, Rule::interleaving_needs_pipeline);
  EXPECT_THAT(text, HasSubstr("needs pp > 1"));
}

TEST(Validity, InterleavedChunksAreEqualUpToEmbeddingAndLoss) {
  const auto outcome_of = [](int layers) {
    Question question;
    question.model = samples::dense_model(layers);
    return outcome(question, [](ParallelPlan& p) { p.pp = 4, p.vpp = 2; });
  };
  const auto [rule, text] = outcome_of(11);  // 5 short of 16: more than a layer of every stage
  EXPECT_EQ(rule, Rule::interleaved_layers_divide);
  EXPECT_THAT(text, AllOf(HasSubstr("11 layers"), HasSubstr("= 8 chunks")));
  for (const int layers : {12, 13, 14, 15, 16}) {
    EXPECT_EQ(outcome_of(layers).first, Rule::none) << layers;
  }
}

TEST(Validity, TheBatchDividesIntoMicroBatches) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.micro_batch = 3; });
  EXPECT_EQ(rule, Rule::batch_divides);
  EXPECT_THAT(text, AllOf(HasSubstr("64"), HasSubstr("= 24")));
}

TEST(Validity, ExpertParallelismDividesTheExperts) {
  const auto [rule, text] = outcome(about_experts(), [](ParallelPlan& p) { p.ep = 3; });
  EXPECT_EQ(rule, Rule::experts_divide_by_ep);
  EXPECT_THAT(text, AllOf(HasSubstr("ep: 3"), HasSubstr("8 experts"), HasSubstr("1, 2, 4, 8")));
}

TEST(Validity, ExpertDegreesNeedExperts) {
  EXPECT_EQ(outcome(Question{}, [](ParallelPlan& p) { p.ep = 2; }).first, Rule::ep_needs_experts);
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.etp = 2; });
  EXPECT_EQ(rule, Rule::ep_needs_experts);
  EXPECT_THAT(text, HasSubstr("no experts"));
}

TEST(Validity, ExpertRanksFillTheRanksOfAStage) {
  const auto [rule, text] = outcome(about_experts(), [](ParallelPlan& p) { p.dp = 4, p.ep = 8; });
  EXPECT_EQ(rule, Rule::expert_ranks_divide);
  EXPECT_THAT(text, AllOf(HasSubstr("etp*ep = 8"), HasSubstr("tp*cp*dp = 4")));
}

TEST(Validity, ExpertTensorParallelismDividesTheExpertWidth) {
  Question question = about_experts();
  question.model.layer_kinds[1].moe->expert_hidden = 1020;  // not a multiple of 8
  const auto [rule, text] = outcome(question, [](ParallelPlan& p) { p.etp = 8; });
  EXPECT_EQ(rule, Rule::etp_divides_expert);
  EXPECT_THAT(text, AllOf(HasSubstr("etp: 8"), HasSubstr("1020")));
}

// Megatron core parallel_state.py: "Data parallel size should be divisible by partial DistOpt shard
// factor", and the same of expert data parallelism.
TEST(Validity, ReplicasDivideTheDataParallelRanks) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.dp_replicate = 3; });
  EXPECT_EQ(rule, Rule::replicas_divide);
  EXPECT_THAT(text, AllOf(HasSubstr("dp_replicate: 3"), HasSubstr("1, 2, 4, 8")));
  const auto experts = outcome(about_experts(), [](ParallelPlan& p) {
    p.ep = 4;
    p.dp_replicate = 4;
  });
  EXPECT_EQ(experts.first, Rule::replicas_divide);
  EXPECT_THAT(experts.second, HasSubstr("the 2 ranks that share an expert's states"));
  EXPECT_EQ(outcome(Question{}, [](ParallelPlan& p) { p.dp_replicate = 4; }).first, Rule::none);
}

TEST(Validity, ReplicasLeaveSomethingToShardAcross) {
  const auto [rule, text] = outcome(Question{}, [](ParallelPlan& p) { p.dp_replicate = 8; });
  EXPECT_EQ(rule, Rule::replicas_leave_shards);
  EXPECT_THAT(text, AllOf(HasSubstr("8 replicas of 8"), HasSubstr("ZeRO-0")));
  // Context-parallel ranks share the states out, too.
  EXPECT_EQ(outcome(Question{}, [](ParallelPlan& p) { p.dp_replicate = 8, p.cp = 2; }).first,
            Rule::none);
}

TEST(Validity, SelectiveRecomputationNamesPartsThatTheModelHas) {
  const auto moe = *parse_recompute("moe_act");
  const auto [rule, text] = outcome(Question{}, [&](ParallelPlan& p) { p.recompute = moe; });
  EXPECT_EQ(rule, Rule::recompute_parts_exist);
  EXPECT_THAT(text, HasSubstr("\"moe_act\""));
  EXPECT_EQ(outcome(about_experts(), [&](ParallelPlan& p) { p.recompute = moe; }).first,
            Rule::none);
}

TEST(Validity, FullRecomputationGoesNoDeeperThanAChunk) {
  const auto depth = [](int layers) {
    return outcome(Question{}, [layers](ParallelPlan& p) {
      p.pp = 4;
      p.recompute = {RecomputeGranularity::full, 0, layers};
    });
  };
  EXPECT_EQ(depth(3).first, Rule::none);
  EXPECT_EQ(depth(4).first, Rule::recompute_depth);
  EXPECT_THAT(depth(4).second, HasSubstr("full:4"));
}

TEST(Validity, ThePrecisionNeedsATensorUnit) {
  const auto [rule, text] =
      outcome(Question{}, [](ParallelPlan& p) { p.precision = Precision::fp8; });
  EXPECT_EQ(rule, Rule::precision_unsupported);
  EXPECT_THAT(text, AllOf(HasSubstr("sample-device"), HasSubstr("fp8")));
}

TEST(Validity, MicroBatchesPerRankAndStep) {
  ParallelPlan plan = valid_plan();
  EXPECT_EQ(micro_batches(plan, samples::training(64)), 8);
  plan.micro_batch = 4;
  EXPECT_EQ(micro_batches(plan, samples::training(64)), 2);
  EXPECT_EQ(micro_batches(plan, samples::training(48)), 0);
}

TEST(Validity, PartsOfAModelFollowItsLayers) {
  const PartSet dense = parts_of(samples::dense_model());
  EXPECT_TRUE(contains(dense, Part::fc1));
  EXPECT_FALSE(contains(dense, Part::expert_fc1) || contains(dense, Part::mla_up_projection));
  const PartSet all_experts = parts_of(samples::expert_model());
  EXPECT_TRUE(contains(all_experts, Part::expert_fc1) && contains(all_experts, Part::shared_fc1));
  models::ModelSpec latent = samples::dense_model();
  latent.layer_kinds[0].attention.latent = models::LatentAttention{};
  EXPECT_TRUE(contains(parts_of(latent), Part::mla_up_projection));
}

}  // namespace
}  // namespace foreplan::simulator
