#include "scenarios/runs/interconnect_text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace foreplan::scenarios {
namespace {

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// The whole number that ends right before `at`; empty if there is none.
std::optional<int> number_before(std::string_view text, std::size_t at) {
  std::size_t from = at;
  while (from > 0 && text[from - 1] >= '0' && text[from - 1] <= '9') --from;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data() + from, text.data() + at, value);
  if (error != std::errc{} || from == at || end != text.data() + at) return std::nullopt;
  return value;
}

/// From `at` to the end of what is said there: a remark in brackets or behind a semicolon is
/// another.
std::string_view clause_at(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  return rest.substr(0, rest.find_first_of("(;,"));
}

constexpr double kGigabit = 1e9 / 8;

/// Share of the line rate that GPUs reach over Omni-Path 100, whose adapters leave the transport to
/// host cores: 135 of 4 x 100 Gbit/s at Jean Zay (stas00/ml-engineering, network/README.md, case
/// study of 2022; no better a year later).
constexpr double kOmniPathShare = 135.0 / 400.0;

/// The network's rate: of one adapter, of a GPU's share, or of the node.
void apply_network(std::string_view text, ClusterSpec& cluster) {
  std::size_t at = text.find("Gb/s");
  if (at == std::string_view::npos) at = text.find(" Gbit/s");
  if (at == std::string_view::npos) return;
  const auto rate = number_before(text, at);
  if (!rate || *rate <= 0) return;
  Topology& t = cluster.topology;
  const double share = has(text, "Omni-Path") ? kOmniPathShare : 1;
  const BytesPerSecond each{*rate * kGigabit * share};
  const std::size_t digits = std::to_string(*rate).size();
  const std::size_t before = at - digits;
  const bool multiplied = before > 0 && text[before - 1] == 'x';
  const auto adapters = multiplied ? number_before(text, before - 1) : std::nullopt;
  if (adapters && *adapters > 0) {
    t.nics_per_node = *adapters;
    t.nic_bandwidth = each;
  } else if (has(clause_at(text, at), "per node")) {
    t.nics_per_node = std::max(1, std::min(cluster.devices_per_node, t.nics_per_node));
    t.nic_bandwidth = each / static_cast<double>(t.nics_per_node);
  } else {
    t.nics_per_node = cluster.devices_per_node;
    t.nic_bandwidth = each;
  }
}

}  // namespace

void apply_interconnect(std::string_view text, ClusterSpec& cluster) {
  Topology& t = cluster.topology;
  if (has(text, "NVL72")) t.scale_up_size = 72;
  if (has(text, "NVLink 4-way")) {  // boards of four without a switch
    t.scale_up_size = 4;
    t.scale_up_switched = false;
  }
  const std::size_t at = text.find("GB/s");
  if (at != std::string_view::npos) {
    // Both directions together, as NVLink is advertised.
    if (const auto rate = number_before(text, at))
      t.scale_up_bandwidth = BytesPerSecond{*rate * 1e9 / 2};
  }
  apply_network(text, cluster);
}

}  // namespace foreplan::scenarios
