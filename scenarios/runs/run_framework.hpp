#pragma once
// Which framework, switches and precision a published run had.

#include "core/result.hpp"
#include "scenarios/runs/run.hpp"
#include "scenarios/runs/run_row.hpp"

#include <string>
#include <string_view>

namespace foreplan::scenarios {

/// What of a run tells releases of a framework apart.
struct RunKind {
  bool shards_parameters = false;  ///< FSDP or ZeRO-3
  bool rotary = false;             ///< a model with rotary positions
  std::string_view source{};       ///< key of the table's source, which may hold a date
  std::string_view model{};        ///< its name, as the table writes it
};

/// The traits file whose `runs_as` texts fit best what a table calls its framework: the longest
/// text that the name and the year in its source's key contain, of the release of the vendor's
/// container that the notes name ("NeMo container 26.04"), that has the model's positions or is for
/// that model; a release that the notes name otherwise (`runs_noted`) goes before. Falls back on
/// how the run shards: FSDP or ZeRO-3 means torchtitan's traits, anything else Megatron-LM's. Fails
/// where a traits file cannot be read.
[[nodiscard]] Result<simulator::FrameworkTraits> framework_of_run(
    std::string_view framework, std::string_view notes, const RunKind& kind,
    std::vector<std::string>& assumptions);

/// "bf16", "fp8-te", "mxfp8", "fp16/bf16 mixed": the precision of the linear layers. Fails with a
/// reason for a text that none fits.
[[nodiscard]] tl::expected<simulator::Precision, std::string> precision_of_run(
    std::string_view text);

/// "full", "selective(attention core)", "selective(layernorm,moe_act)", "none". Fails with a
/// reason.
[[nodiscard]] tl::expected<simulator::RecomputePolicy, std::string> recompute_of_run(
    std::string_view text);

/// Switches that the notes of a row state: gradients reduced in bf16, states without master copy,
/// no overlap, compiled or eager.
void apply_switches(std::string_view notes, std::string_view optimizer_states,
                    simulator::FrameworkTraits& traits);

/// What published recipes of a framework do beyond the columns of a table: modules of multi-token
/// prediction, and layers dealt over the stages in a way of their own.
void apply_recipe(const simulator::FrameworkTraits& traits, const models::ModelSpec& model,
                  const simulator::ParallelPlan& plan, simulator::TrainingSetup& training);

/// What the notes call memory; `unstated` where they say nothing of it.
[[nodiscard]] MemoryDefinition memory_definition(
    std::string_view notes, MemoryDefinition unstated = MemoryDefinition::allocated);

}  // namespace foreplan::scenarios
