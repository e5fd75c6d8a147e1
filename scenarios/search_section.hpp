#pragma once
// What a question leaves to the search, and how it chooses: the keys precision, search,
// constraints, objective, top and hooks of a scenario.

#include "scenarios/layers.hpp"

#include <optional>
#include <string>
#include <vector>

namespace foreplan::scenarios {

/// The text of a scalar; empty, with one mistake recorded, for anything else.
[[nodiscard]] std::optional<std::string> text_of(const Node& node);
/// Values of a list that must hold something; a single value is a list of one.
[[nodiscard]] std::vector<Node> values_of(const Node& node);

/// Distinct precisions in the order given; bf16 where none is.
[[nodiscard]] std::vector<simulator::Precision> read_precision(const Layers& layers);
/// Narrows the scenario's space to what `section` ("search" or "plan") names. The cluster, and the
/// space that it narrows, are those of the scenario.
void read_space(Layers& layers, const std::string& section, Scenario& scenario);
/// A mistake where more GPUs are asked for than a sound cluster has.
void check_gpus(Layers& layers, const std::string& section, const Scenario& scenario);
/// Headroom, objective, number of plans, hooks.
void read_choice(Layers& layers, Scenario& scenario);

}  // namespace foreplan::scenarios
