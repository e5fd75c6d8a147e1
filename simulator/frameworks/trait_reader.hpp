#pragma once
// Reads the traits of a framework out of its file and those that it is based on.

#include "core/document.hpp"
#include "simulator/frameworks/memory_traits.hpp"
#include "simulator/frameworks/offload_traits.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// Reads `key: {value, source}` pairs; the source is mandatory so that no trait is an opinion. What
/// a file leaves out stands in the one that it is based on.
class TraitReader {
 public:
  /// The file's own root first, then that of its base and so on.
  explicit TraitReader(std::vector<Node> roots) : roots_(std::move(roots)) {}

  [[nodiscard]] Node value(std::string_view key) const;
  /// For traits that most frameworks do without.
  [[nodiscard]] std::optional<Node> optional_value(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const { return value(key).boolean(); }
  [[nodiscard]] double number(std::string_view key, double low, double high) const {
    return value(key).number(low, high);
  }

 private:
  /// The first file that has the key; the own one where none does.
  [[nodiscard]] const Node& holder_of(std::string_view key) const;

  std::vector<Node> roots_;
};

[[nodiscard]] MemoryTraits read_memory_traits(const TraitReader& read);
[[nodiscard]] OffloadTraits read_offload_traits(const TraitReader& read);

}  // namespace foreplan::simulator
