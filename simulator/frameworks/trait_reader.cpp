#include "simulator/frameworks/trait_reader.hpp"

#include <algorithm>

namespace foreplan::simulator {

Node TraitReader::value(std::string_view key) const {
  const Node entry = holder_of(key).required(key);
  if (entry.is_map()) {
    entry.only({"value", "source"});
    if (entry.required("source").text().empty()) entry.error("a trait needs a source");
  }
  return entry.required("value");
}

std::optional<Node> TraitReader::optional_value(std::string_view key) const {
  if (!holder_of(key).find(key)) return std::nullopt;
  return value(key);
}

const Node& TraitReader::holder_of(std::string_view key) const {
  const auto found = std::find_if(roots_.begin(), roots_.end(),
                                  [&](const Node& root) { return root.find(key).has_value(); });
  return found == roots_.end() ? roots_.front() : *found;
}

MemoryTraits read_memory_traits(const TraitReader& read) {
  constexpr double kMostBytes = 32;  // two fp32 copies of everything that Adam has
  const auto bytes = [&](std::string_view key) {
    const auto node = read.optional_value(key);
    return node ? node->number(0, kMostBytes) : 0.0;
  };
  const auto flag = [&](std::string_view key) {
    const auto node = read.optional_value(key);
    return node && node->boolean();
  };
  return {.gradient_copy_bytes = bytes("gradient_copy_bytes"),
          .optimizer_temporary_bytes = bytes("optimizer_temporary_bytes"),
          .flat_partitions = flag("flat_partitions"),
          .reduction_copy_bytes = bytes("reduction_copy_bytes"),
          .gathers_run_ahead = flag("gathers_run_ahead"),
          .keeps_stage_outputs = flag("keeps_stage_outputs"),
          .dummy_head_gradient = flag("dummy_head_gradient"),
          .frees_gradients = flag("frees_gradients"),
          .replicates_embedding = flag("replicates_embedding"),
          .logs_reserved = flag("logs_reserved")};
}

}  // namespace foreplan::simulator
