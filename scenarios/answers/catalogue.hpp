#pragma once
// Models, devices and clusters as JSON: what the command line prints and Python hands out.

#include "core/cluster.hpp"
#include "core/operator.hpp"
#include "core/result.hpp"
#include "models/model_spec.hpp"
#include "models/rank_graph.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foreplan::scenarios {

/// "GQA 64 heads (8 KV), FFN 28672".
[[nodiscard]] std::string layer_kind_text(const models::LayerSpec& layer);
/// "m=8192 n=10240 k=8192".
[[nodiscard]] std::string shape_text(const OperatorShape& shape);
/// One sequence of this many tokens on one device.
[[nodiscard]] models::RankShape whole_layer(const models::ModelSpec& model,
                                            std::int64_t sequence_length);
/// "1280x720 video of 81 frames".
[[nodiscard]] std::string media_text(const models::MediaShape& media);
/// Length that a model is described at when none is asked for: its context, at most 8192 tokens; of
/// a diffusion transformer the tokens of the sample that it was published for.
[[nodiscard]] std::int64_t usual_sequence_length(const models::ModelSpec& model);
/// The length asked for, which a diffusion transformer refuses, or the usual one.
[[nodiscard]] Result<std::int64_t> sequence_length_of(const models::ModelSpec& model,
                                                      std::optional<std::int64_t> asked,
                                                      Place place);

/// Parameters, FLOPs per token and the operators of each kind of layer for one sequence.
[[nodiscard]] nlohmann::ordered_json describe(const models::ModelSpec& model,
                                              std::int64_t sequence_length);
/// A line of the list of models.
[[nodiscard]] nlohmann::ordered_json summary(std::string_view name, const models::ModelSpec& model);
/// Rates per second, sizes in bytes; null where the data sheet has none.
[[nodiscard]] nlohmann::ordered_json describe(const DeviceSpec& device);
[[nodiscard]] nlohmann::ordered_json describe(const ClusterSpec& cluster);

}  // namespace foreplan::scenarios
