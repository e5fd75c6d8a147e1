// Reading tables of runs. Oracle: what a person reads in the same row.

#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/runs/interconnect_text.hpp"
#include "scenarios/runs/run.hpp"
#include "scenarios/runs/run_framework.hpp"
#include "scenarios/runs/run_model.hpp"
#include "scenarios/runs/score_runs.hpp"
#include "scenarios/runs/spreadsheet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace foreplan::scenarios {
namespace {

using MeasuredRun = Run;  // inside a test, `Run` is a method of it
using simulator::Precision;
using simulator::RecomputeGranularity;
using testing::HasSubstr;
using testing::SizeIs;

/// One row of the training table as column -> text; those of a small Llama run by default.
class Row {
 public:
  Row& set(const std::string& column, const std::string& text) {
    values_[column] = text;
    return *this;
  }
  [[nodiscard]] RunTable read() const {
    std::string header, line;
    for (const auto& [column, text] : values_) {
      header += (header.empty() ? "" : ",") + column;
      line += (line.empty() ? "" : ",") + text;
    }
    auto table = read_runs(header + "\n" + line + "\n", "runs.csv");
    EXPECT_TRUE(table.has_value());
    return std::move(*table);
  }
  [[nodiscard]] Run run() const {
    RunTable table = read();
    EXPECT_THAT(table.runs, SizeIs(1)) << (table.skipped.empty() ? "" : table.skipped[0].reason);
    return std::move(table.runs.at(0));
  }
  [[nodiscard]] std::string reason() const {
    const RunTable table = read();
    EXPECT_THAT(table.skipped, SizeIs(1));
    return table.skipped.empty() ? "" : table.skipped[0].reason;
  }

 private:
  std::map<std::string, std::string> values_ = {{"id", "r1"},
                                                {"source", "here"},
                                                {"model_name", "Small"},
                                                {"layers", "8"},
                                                {"hidden", "1024"},
                                                {"heads", "16"},
                                                {"ffn_hidden", "2816"},
                                                {"vocab", "32000"},
                                                {"activation", "swiglu"},
                                                {"attention_type", "mha"},
                                                {"seq_len", "2048"},
                                                {"gpu", "H100"},
                                                {"n_gpus", "16"},
                                                {"gpus_per_node", "8"},
                                                {"tp", "2"},
                                                {"pp", "2"},
                                                {"vpp", "1"},
                                                {"micro_batch", "2"},
                                                {"global_batch", "64"},
                                                {"precision", "bf16"},
                                                {"recompute", "none"},
                                                {"framework", "megatron-lm"},
                                                {"zero_stage", "1"},
                                                {"fsdp", "none"},
                                                {"sequence_parallel", "1"},
                                                {"measured_step_time_s", "1.5"},
                                                {"measured_peak_mem_gib", "40"},
                                                {"notes", "memory = max_memory_allocated"}};
};

TEST(Runs, ARowBecomesAJobAPlanAndAnOutcome) {
  const MeasuredRun run = Row().run();
  EXPECT_EQ(run.id, "r1");
  EXPECT_EQ(run.line, 2);
  EXPECT_EQ(run.scenario.cluster.devices(), 16);
  EXPECT_EQ(run.scenario.plan->tp, 2);
  EXPECT_EQ(run.scenario.plan->dp, 4);  // 16 GPUs / (TP 2 x PP 2)
  EXPECT_TRUE(run.scenario.plan->sequence_parallel);
  EXPECT_EQ(run.scenario.plan->zero, simulator::ZeroStage::optimizer);
  EXPECT_EQ(run.scenario.model.layer_count(), 8);
  EXPECT_DOUBLE_EQ(*run.measured.step_time_s, 1.5);
  EXPECT_DOUBLE_EQ(*run.measured.peak_bytes, 40.0 * 1073741824.0);
  EXPECT_EQ(run.scenario.frameworks.at(0).name, "megatron-core");
}

TEST(Runs, MicroBatchFollowsFromAccumulationWhereItIsNotStated) {
  const MeasuredRun run = Row().set("micro_batch", "").set("grad_accum", "8").run();
  EXPECT_EQ(run.scenario.plan->micro_batch, 2);  // 64 / (8 x DP 4)
  EXPECT_THAT(Row().set("micro_batch", "").reason(), HasSubstr("micro batch"));
}

// SOURCES.md of the table: "hybrid is HSDP"; torch's HYBRID_SHARD shards within a node.
TEST(Runs, HybridShardingKeepsACopyPerNode) {
  Row row;
  row.set("fsdp", "hybrid").set("framework", "fms-fsdp (torch FSDP1)");
  row.set("tp", "1").set("pp", "1").set("sequence_parallel", "0").set("micro_batch", "1");
  const MeasuredRun run = row.run();
  EXPECT_EQ(run.scenario.plan->zero, simulator::ZeroStage::parameters);
  EXPECT_EQ(run.scenario.plan->dp_replicate, 2);  // 16 GPUs, 8 a node
  EXPECT_EQ(run.scenario.frameworks.at(0).name, "fms-fsdp");
  EXPECT_THAT(run.assumptions, testing::Contains(HasSubstr("one per node, 2")));
  EXPECT_EQ(row.set("n_gpus", "8").run().scenario.plan->dp_replicate, 1);
  EXPECT_EQ(Row().run().scenario.plan->dp_replicate, 1);
}

// InternEvo's zero1 groups, as the table words them: 16 GPUs in two nodes, tp 1.
TEST(Runs, StatesShardedOverTheRanksOfANodeHaveACopyPerNode) {
  Row row;
  row.set("framework", "internevo")
      .set("optimizer_states", "adam fp32 sharded over 8 GPUs of a node");
  row.set("tp", "1").set("pp", "1").set("sequence_parallel", "0").set("micro_batch", "1");
  EXPECT_EQ(row.run().scenario.plan->dp_replicate, 2);
  row.set("optimizer_states", "adam fp32 sharded over all DP ranks");
  EXPECT_EQ(row.run().scenario.plan->dp_replicate, 1);
}

// A job that exchanges tokens by DeepEP has its experts on several ranks, whatever a column says.
TEST(Runs, DeepEpSpreadsExperts) {
  Row row;
  row.set("framework", "nemo-automodel (torch FSDP2) TE + DeepEP").set("fsdp", "full");
  row.set("experts", "128").set("topk", "4").set("moe_ffn_hidden", "256").set("ep", "1");
  row.set("tp", "1").set("pp", "1").set("sequence_parallel", "0").set("micro_batch", "1");
  const MeasuredRun run = row.run();
  EXPECT_EQ(run.scenario.plan->ep, 16);
  EXPECT_THAT(run.assumptions, testing::Contains(HasSubstr("experts over 16 ranks")));
  EXPECT_EQ(row.set("ep", "4").run().scenario.plan->ep, 4);
}

TEST(Runs, RowsThatSayTooLittleAreSkippedWithTheReason) {
  EXPECT_THAT(Row().set("seq_len", "").reason(), HasSubstr("seq_len"));
  EXPECT_THAT(Row().set("layers", "").reason(), HasSubstr("architecture"));
  EXPECT_THAT(Row().set("gpu", "Abacus").reason(), HasSubstr("Abacus"));
  EXPECT_THAT(Row().set("n_gpus", "3").set("gpus_per_node", "2").reason(), HasSubstr("nodes"));
  EXPECT_THAT(Row().set("tp", "3").reason(), HasSubstr("divide"));
  EXPECT_THAT(Row().set("hidden", "-4").reason(), HasSubstr("hidden"));
  EXPECT_THAT(Row().set("hidden", "1e999").reason(), HasSubstr("hidden"));
  EXPECT_THAT(Row().set("notes", "LoRA rank 8").reason(), HasSubstr("LoRA"));
}

TEST(Runs, AnOutOfMemoryRowIsKnown) {
  EXPECT_TRUE(Row().set("notes", "OUTCOME=OOM; died").run().measured.out_of_memory);
}

simulator::Offload offload_of_case(const std::string& source, const std::string& offload) {
  const std::string header =
      "id,source,model,params_b,layers,hidden,heads,kv_heads,vocab,seq,gpu,gpu_mem_gib,n_gpus,tp,"
      "pp,"
      "dp,cp,ep,zero_stage,offload,mbs,gbs,precision,recompute,optimizer,mode,outcome,value,unit,"
      "completeness\n";
  const auto table =
      read_runs(header + "U1," + source +
                    ",llama3-8b,8.03,32,4096,32,8,128256,1024,RTX3090-24G,24,8,,,8,,,3," + offload +
                    ",1,16,bf16,full,adamw,finetune,fits,,,5\n",
                "cases.csv");
  EXPECT_TRUE(table && table->runs.size() == 1);
  return table && table->runs.size() == 1 ? table->runs[0].scenario.plan->offload
                                          : simulator::Offload{};
}

// DeepSpeed offloads what it is told to, FSDP all of it.
TEST(Runs, CasesSayWhatWasOffloaded) {
  EXPECT_EQ(offload_of_case("deepspeed", "none"), simulator::Offload{});
  EXPECT_EQ(offload_of_case("deepspeed", "param"), (simulator::Offload{0, 1, 0}));
  EXPECT_EQ(offload_of_case("deepspeed", "param+optimizer"), (simulator::Offload{1, 1, 0}));
  EXPECT_EQ(offload_of_case("torchtitan", "param"), (simulator::Offload{1, 1, 0}));
}

TEST(Runs, AForeignHeaderIsRefused) {
  const auto table = read_runs("a,b\n1,2\n", "x.csv");
  ASSERT_FALSE(table.has_value());
  EXPECT_THAT(to_text(table.error()), HasSubstr("x.csv:1"));
}

TEST(Runs, ARecordOfWrongWidthIsSkipped) {
  const auto table = read_runs("id,measured_step_time_s,global_batch,seq_len\nr,1,2\n", "x.csv");
  ASSERT_TRUE(table.has_value());
  ASSERT_THAT(table->skipped, SizeIs(1));
  EXPECT_THAT(table->skipped[0].reason, HasSubstr("fields"));
}

TEST(Runs, PublishedNamesFindTheirCatalogueModel) {
  EXPECT_EQ(catalogue_name_of("DeepSeek V3 671B"), "deepseek-v3");
  EXPECT_EQ(catalogue_name_of("deepseekv2-4L"), "deepseek-v2");
  EXPECT_EQ(catalogue_name_of("Qwen3_30B_a3B"), "qwen3-30b-a3b");
  EXPECT_EQ(catalogue_name_of("Nemotron_3_Nano"), "nemotron-3-nano");
  EXPECT_EQ(catalogue_name_of("Nemotron V3 Super 120B (26.02)"), "nemotron-3-super");
  EXPECT_EQ(catalogue_name_of("Nemotron_3_5_Lightning"), "nemotron-3.5-lightning");
  EXPECT_EQ(catalogue_name_of("Nemotron-H-56B"), "nemotron-h-56b");
  EXPECT_EQ(catalogue_name_of("Nemotron-8B"), "nemotron-8b");
  EXPECT_EQ(catalogue_name_of("GPT2-Something"), "");
}

TEST(Runs, InterconnectTextsGiveNicsAndLinks) {
  const auto device = find_device("H100");
  ASSERT_TRUE(device.has_value());
  const auto cluster = [&](std::string_view text) {
    ClusterSpec c = typical_cluster(*device, 2, 8);
    apply_interconnect(text, c);
    return c.topology;
  };
  const double gigabit = 1e9 / 8;
  EXPECT_EQ(cluster("NVLink8+4x100Gb/s RoCE per node").nics_per_node, 4);
  EXPECT_DOUBLE_EQ(cluster("NVLink8+4x100Gb/s RoCE per node").nic_bandwidth.value, 100 * gigabit);
  EXPECT_DOUBLE_EQ(cluster("1600Gb/s RoCE per node").nic_bandwidth.value, 200 * gigabit);
  EXPECT_DOUBLE_EQ(cluster("NVLink8+400Gb/s IB per GPU").nic_bandwidth.value, 400 * gigabit);
  // A remark in brackets is not a statement.
  EXPECT_DOUBLE_EQ(cluster("IB 400Gb/s (ports per node unstated)").nic_bandwidth.value,
                   400 * gigabit);
  // stas00/ml-engineering: 135 Gbit/s over four Omni-Path links at Jean Zay.
  EXPECT_DOUBLE_EQ(cluster("NVLink4+4x100Gb/s Omni-Path per node").nic_bandwidth.value,
                   135.0 / 4 * gigabit);
  EXPECT_EQ(cluster("NVL72 + IB").scale_up_size, 72);
  EXPECT_EQ(cluster("NVLink 4-way + NDR").scale_up_size, 4);
  EXPECT_FALSE(cluster("NVLink 4-way + NDR").scale_up_switched);
  EXPECT_DOUBLE_EQ(cluster("NVLink 400GB/s (A800)").scale_up_bandwidth.value, 200e9);
}

TEST(Runs, PrecisionTextsAreUnderstood) {
  EXPECT_EQ(*precision_of_run("fp8-hybrid(delayed)"), Precision::fp8);
  EXPECT_EQ(*precision_of_run("fp8-cs"), Precision::fp8_current);
  EXPECT_EQ(*precision_of_run("mxfp8"), Precision::mxfp8);
  EXPECT_EQ(*precision_of_run("nvfp4"), Precision::nvfp4);
  EXPECT_EQ(*precision_of_run("fp8-tensorwise"), Precision::fp8_current);
  EXPECT_EQ(*precision_of_run("fp8-rowwise"), Precision::fp8_rowwise);
  EXPECT_EQ(*precision_of_run("fp8-rowwise-gw-hp"), Precision::fp8_rowwise_gw_hp);
  EXPECT_EQ(*precision_of_run("fp16/bf16 mixed (unstated)"), Precision::fp16);
  EXPECT_FALSE(precision_of_run("posit8").has_value());
}

TEST(Runs, NotesSayWhetherBlocksAreCompiledAndWeightsGatheredQuantised) {
  simulator::FrameworkTraits traits;
  traits.elementwise = models::ElementwiseKernels::modules;
  traits.elementwise_traffic = 2.3;
  traits.compiled_traffic = 1.1;
  apply_switches("2026-04 sweep; no torch.compile", "", traits);
  EXPECT_EQ(traits.elementwise_traffic, 2.3);
  EXPECT_EQ(traits.elementwise, models::ElementwiseKernels::modules);
  EXPECT_FALSE(traits.gathers_narrow_weights);
  apply_switches("torch.compile, float8 all-gather", "", traits);
  EXPECT_EQ(traits.elementwise_traffic, 1.1);
  EXPECT_EQ(traits.elementwise, models::ElementwiseKernels::fused);
  EXPECT_TRUE(traits.gathers_narrow_weights);
}

TEST(Runs, RotaryPositionsTellReleasesOfAFrameworkApart) {
  std::vector<std::string> assumptions;
  const auto traits = [&](const RunKind& kind) {
    return framework_of_run("megatron-deepspeed 1F1B", "", kind, assumptions)->name;
  };
  EXPECT_EQ(traits({.rotary = false}), "megatron-deepspeed");
  EXPECT_EQ(traits({.rotary = true}), "megatron-deepspeed-2023");
  const auto noted = framework_of_run("Megatron-DeepSpeed", "1F1B; not stated (2023 code: likely)",
                                      {.rotary = false}, assumptions);
  EXPECT_EQ(noted->name, "megatron-deepspeed-2023-eager");
  const auto of_2021 = framework_of_run("megatron-lm (2021)", "", {}, assumptions);
  EXPECT_EQ(of_2021->name, "megatron-2021");
  const auto sharded = framework_of_run("deepspeed zero-3 in megatron", "",
                                        {.shards_parameters = true}, assumptions);
  EXPECT_EQ(sharded->name, "deepspeed-2021");
}

TEST(Runs, DatesAndNotesTellReleasesOfAFrameworkApart) {
  std::vector<std::string> assumptions;
  const auto traits = [&](std::string_view source, std::string_view notes) {
    const RunKind kind{.shards_parameters = true, .rotary = true, .source = source};
    return framework_of_run("torchtitan+torchao", notes, kind, assumptions)->name;
  };
  EXPECT_EQ(traits("torchao-e2e", "torchtitan 0.0.2; torch.compile"), "torchtitan");
  EXPECT_EQ(traits("torchao-e2e", "torchtitan 2c8b594; torch.compile"), "torchtitan-2026");
  const auto by_date = [&](std::string_view source) {
    const RunKind kind{.shards_parameters = true, .rotary = true, .source = source};
    return framework_of_run("torchtitan", "", kind, assumptions)->name;
  };
  EXPECT_EQ(by_date("torchtitan-202412"), "torchtitan");
  EXPECT_EQ(by_date("torchtitan-202506-h200"), "torchtitan-2026");
  EXPECT_EQ(by_date("torchtitan-2024-a100"), "torchtitan");
  EXPECT_EQ(by_date("torchtitan-20x"), "torchtitan");
  EXPECT_TRUE(assumptions.empty());
}

TEST(Runs, AFusedLossIsTransformerEngines) {
  simulator::FrameworkTraits traits;
  apply_switches("no comm overlap of any kind; fused SwiGLU", "", traits);
  EXPECT_EQ(traits.loss, models::LossKernel::unfused);
  apply_switches("no comm overlap of any kind, fused CE; derived", "", traits);
  EXPECT_EQ(traits.loss, models::LossKernel::fused);
}

TEST(Runs, TraitsFollowTheContainersRelease) {
  std::vector<std::string> assumptions;
  const auto traits = [&](std::string_view notes) {
    const auto found = framework_of_run("megatron-bridge", notes, RunKind{}, assumptions);
    EXPECT_TRUE(found.has_value());
    return found->name;
  };
  EXPECT_EQ(traits("NeMo container 26.04.01; pretrain"), "megatron-bridge-0.4");
  EXPECT_EQ(traits("NeMo container 25.09"), "megatron-bridge-0.4");
  EXPECT_EQ(traits("NeMo container 26.06; pretrain"), "megatron-bridge");
  EXPECT_EQ(traits("NeMo container 26.06.01"), "megatron-bridge");
  EXPECT_EQ(traits(""), "megatron-bridge");
  EXPECT_TRUE(assumptions.empty());
}

// Megatron-Bridge recipes/deepseek/deepseek_v3.py fills chunks from the front;
// NVIDIA/NeMo 7a8f1cc scripts/performance/llm/pretrain_deepseek_v3.py has 64 / pp layers per stage,
// one less first, two less last. Both train one prediction module.
TEST(Runs, RecipesLayTheirModelsOutThemselves) {
  std::vector<std::string> assumptions;
  const auto setup = [&](std::string_view framework, std::string_view model_name, int pp, int vpp) {
    const auto traits = framework_of_run(framework, "", {.model = model_name}, assumptions);
    const auto model = models::find_model(model_name);
    EXPECT_TRUE(traits.has_value() && model.has_value());
    simulator::ParallelPlan plan;
    plan.pp = pp;
    plan.vpp = vpp;
    simulator::TrainingSetup training;
    apply_recipe(*traits, *model, plan, training);
    return training;
  };
  const auto bridge = setup("megatron-bridge", "deepseek-v3", 4, 1);
  EXPECT_EQ(bridge.mtp_depth, 1);
  EXPECT_EQ(bridge.chunks.layers, (std::vector<int>{16, 16, 16, 13}));
  EXPECT_EQ(setup("megatron-bridge", "deepseek-v3", 2, 8).chunks.layers.back(), 1);
  EXPECT_EQ(setup("nemo 25.02/megatron-core", "deepseek-v3", 4, 1).chunks.layers,
            (std::vector<int>{15, 16, 16, 14}));
  const auto dense = setup("megatron-bridge", "llama3-70b", 4, 5);
  EXPECT_EQ(dense.mtp_depth, 0);
  EXPECT_TRUE(dense.chunks.layers.empty());
}

TEST(Runs, TraitsForAModelGoBeforeThoseOfAllModels) {
  std::vector<std::string> assumptions;
  const auto traits = [&](std::string_view framework, std::string_view model,
                          std::string_view notes) {
    return framework_of_run(framework, notes, {.model = model}, assumptions)->name;
  };
  EXPECT_EQ(traits("megatron-bridge", "GPT OSS 120B", "NeMo container 26.02"),
            "megatron-bridge-0.4-gpt-oss");
  EXPECT_EQ(traits("megatron-bridge", "GPT OSS 120B", "NeMo container 26.06"),
            "megatron-bridge-gpt-oss");
  EXPECT_EQ(traits("megatron-bridge", "Qwen3_30B_a3B", "NeMo container 26.02"),
            "megatron-bridge-0.4");
  EXPECT_EQ(traits("nemo 25.02/megatron-core", "DeepSeek-V3", ""), "nemo-25.04");
  EXPECT_EQ(traits("nemo", "LLAMA3-70B", ""), "nemo");
}

TEST(Runs, RecomputeTextsAreUnderstood) {
  EXPECT_EQ(recompute_of_run("full")->granularity, RecomputeGranularity::full);
  EXPECT_EQ(simulator::to_text(*recompute_of_run("selective(attention core)")), "core_attn");
  EXPECT_EQ(simulator::to_text(*recompute_of_run("selective(layernorm,moe_act)")),
            "layernorm+moe_act");
  EXPECT_FALSE(recompute_of_run("selective(tea leaves)").has_value());
}

TEST(Runs, MemoryDefinitionsAreReadFromTheirClause) {
  EXPECT_EQ(
      memory_definition("x; memory = max over ranks of max_memory_allocated, reserved 70 GiB"),
      MemoryDefinition::allocated);
  EXPECT_EQ(memory_definition("memory = reserved peak logged by torchtitan"),
            MemoryDefinition::reserved);
  EXPECT_EQ(memory_definition("memory = nvidia-smi of first/last node"), MemoryDefinition::device);
  EXPECT_EQ(memory_definition("memory = max_memory_allocated of the last global rank"),
            MemoryDefinition::allocated_last_rank);
  EXPECT_EQ(memory_definition("float8 all-gather, torch.compile", MemoryDefinition::reserved),
            MemoryDefinition::reserved);
  EXPECT_EQ(memory_definition("memory = max_memory_allocated", MemoryDefinition::reserved),
            MemoryDefinition::allocated);
}

/// A scored run with these times; the plan does not matter.
ScoredRun scored(const Run& run, double predicted_s) {
  ScoredRun s{&run, RunPrediction{}, {}, {}};
  s.prediction->step_time_s = predicted_s;
  s.prediction->low_s = 0.9 * predicted_s;
  s.prediction->high_s = 1.1 * predicted_s;
  return s;
}

TEST(RunScores, AreTheClosedFormsOfTheirRows) {
  std::vector<MeasuredRun> runs(4);
  const double measured[] = {1.0, 2.0, 3.0, 4.0}, predicted[] = {1.05, 1.0, 3.3, 3.0};
  std::vector<ScoredRun> all;
  for (std::size_t i = 0; i < 4; ++i) {
    runs[i].id = "r" + std::to_string(i);
    runs[i].source = "s";
    runs[i].problem = "p";
    runs[i].measured.step_time_s = measured[i];
    all.push_back(scored(runs[i], predicted[i]));
  }
  const auto scores = score_runs(all, {{"r9", "s", "why", 3}});
  ASSERT_THAT(scores, SizeIs(2));  // the source and all
  const SourceScore& s = scores[0];
  EXPECT_EQ(s.skipped, 1);
  EXPECT_NEAR(s.time.mape, (0.05 + 0.5 + 0.1 + 0.25) / 4, 1e-12);
  EXPECT_NEAR(s.time.bias, (0.05 - 0.5 + 0.1 - 0.25) / 4, 1e-12);
  EXPECT_NEAR(s.time.median, (0.1 + 0.25) / 2, 1e-12);
  EXPECT_EQ(s.time.worst_id, "r1");
  EXPECT_NEAR(s.time.coverage_90, 0.5, 1e-12);
  // The second plan is predicted fastest: 2 s where 1 s was to be had.
  EXPECT_EQ(s.regret.groups, 1);
  EXPECT_NEAR(s.regret.mean, 1.0, 1e-12);
  // Predicted ranks 2 1 4 3 against 1 2 3 4: rho = 1 - 6 * 4 / (4 * 15).
  EXPECT_NEAR(s.regret.rho, 0.6, 1e-12);
}

TEST(Spreadsheet, ReproducesTheRunThatItWasFittedOn) {
  const MeasuredRun known = Row().run();
  const Spreadsheet sheet = Spreadsheet::fit({known});
  EXPECT_NEAR(*sheet.step_time_s(known), 1.5, 1e-12);
  // Twice the batch: twice the work, a smaller bubble: (1 + 1/8) -> (1 + 1/16).
  const MeasuredRun larger = Row().set("global_batch", "128").run();
  EXPECT_NEAR(*sheet.step_time_s(larger), 3.0 * (1 + 1.0 / 16) / (1 + 1.0 / 8), 1e-12);
  // Full recomputation: 4/3 of the work.
  const MeasuredRun full = Row().set("recompute", "full").run();
  EXPECT_NEAR(*sheet.step_time_s(full), 2.0, 1e-12);
  EXPECT_FALSE(sheet.step_time_s(Row().set("precision", "mxfp8").run()).has_value());
}

}  // namespace
}  // namespace foreplan::scenarios
