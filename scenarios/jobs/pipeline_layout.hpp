#pragma once
// How a Megatron-LM launch lays its layers over pipeline stages.

#include "scenarios/jobs/launch_arguments.hpp"
#include "simulator/plan/training.hpp"

#include <string_view>

namespace foreplan::scenarios {

/// What the split of layers depends on beside the arguments that state it.
struct PipelinedModel {
  int pp = 1;
  int layers = 0;
  int mtp_depth = 0;
};

/// Reads "Ettt|(tt|)*29,m|L": E embedding, t layer, m module of multi-token prediction, L loss, |
/// between chunks, x*n and (x)*n repeated, commas without meaning (megatron-core
/// transformer/pipeline_parallel_layer_layout.py). Fails with what that file's checks would say.
[[nodiscard]] tl::expected<simulator::ChunkLayout, std::string> parse_pipeline_layout(
    std::string_view text, const PipelinedModel& model);

/// Model chunks of a stage (virtual pipeline stages). Mistakes go to the reader.
[[nodiscard]] int chunks_of_a_stage(ArgumentReader& arguments, const PipelinedModel& model);

/// Chunks as the launch lays them out: by its layout, by the layers of its first and last stage, or
/// by counting embedding and loss as layers. Empty where it deals layers out evenly.
[[nodiscard]] simulator::ChunkLayout chunk_layout(ArgumentReader& arguments, int vpp,
                                                  const PipelinedModel& model);

}  // namespace foreplan::scenarios
