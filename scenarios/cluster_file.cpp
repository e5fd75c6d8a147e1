#include "scenarios/cluster_file.hpp"

#include "core/assert.hpp"
#include "core/data_directory.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"
#include "scenarios/plausible.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

namespace foreplan::scenarios {
namespace {

constexpr std::string_view kFolder = "scenarios/clusters";
constexpr int kMostDevicesPerNode = 256;
constexpr int kMostNicsPerNode = 1024;

// NCCL's hardware latencies per hop of a small message; the header names the source. Other links
// than PCIe (xGMI) are taken as NVLink: no published figure was found.
constexpr Seconds kNvlinkHop{0.6e-6};
constexpr Seconds kPcieHop{1.0e-6};
constexpr Seconds kNetworkHop{5.0e-6};

// ---- typical links ----------------------------------------------------------------------------

int typical_scale_up_size(const DeviceSpec& device, int nodes, int devices_per_node) {
  const int typical = device.scale_up_size;
  if (typical == device.devices_per_node) return devices_per_node;
  if (typical < device.devices_per_node) return std::gcd(typical, devices_per_node);
  const int whole_nodes = std::clamp(typical / devices_per_node, 1, nodes);
  return whole_nodes * devices_per_node;
}

Topology typical_topology(const DeviceSpec& device, int nodes, int devices_per_node) {
  Topology topology;
  topology.scale_up_size = typical_scale_up_size(device, nodes, devices_per_node);
  topology.scale_up_bandwidth = device.scale_up_bandwidth;
  topology.scale_up_latency = device.scale_up_link.starts_with("PCIe") ? kPcieHop : kNvlinkHop;
  topology.scale_up_switched = device.scale_up_switched;
  topology.nics_per_node = device.nic_bandwidth.value > 0 ? devices_per_node : 0;
  topology.nic_bandwidth = device.nic_bandwidth;
  topology.nic_latency = kNetworkHop;
  return topology;
}

std::string without_network(const DeviceSpec& device) {
  return fmt::format(
      "{} has no typical network, so a cluster of several nodes needs a mapping or "
      "a file with network: {{nic_bandwidth: e.g. 100 Gbit/s}}",
      device.name);
}

/// True if some devices can reach one another over the network only.
bool needs_network(const ClusterSpec& cluster) {
  return cluster.nodes > 1 && cluster.devices() > cluster.topology.scale_up_size;
}

bool has_network(const Topology& topology) {
  return topology.nics_per_node > 0 && topology.nic_bandwidth.value > 0;
}

// ---- "8x8xH100" -------------------------------------------------------------------------------

constexpr std::string_view kForms =
    "write nodes x devices per node x device (8x8xH100), devices x device (64xH100), the name of a "
    "shipped cluster or the path of a cluster file";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes a leading "<count> x" off `text`; leaves `text` as it is when there is none. A count too
/// large for the type is reported as one above kMostDevices.
std::optional<long long> take_count(std::string_view& text) {
  const std::string_view start = trimmed(text);
  std::size_t digits = 0;
  while (digits < start.size() && is_digit(start[digits])) ++digits;
  const std::string_view rest = trimmed(start.substr(digits));
  if (digits == 0 || rest.empty() || (rest.front() != 'x' && rest.front() != 'X')) {
    return std::nullopt;
  }
  long long count = kMostDevices + 1;
  (void)std::from_chars(start.data(), start.data() + digits, count);
  text = trimmed(rest.substr(1));
  return count;
}

struct Counts {
  long long first = 0;
  std::optional<long long> second;  ///< devices per node, where both were written
  std::string_view device;
};

std::optional<Counts> parse_counts(std::string_view text) {
  Counts counts;
  const auto first = take_count(text);
  if (!first) return std::nullopt;
  counts.first = *first;
  counts.second = take_count(text);
  counts.device = text;
  return counts;
}

/// Mistakes that need no device to be seen.
std::optional<std::string> wrong_counts(const Counts& counts) {
  const long long second = counts.second.value_or(1);
  if (counts.first < 1 || second < 1) return "both counts must be at least 1";
  if (counts.second && second > kMostDevicesPerNode) {
    return fmt::format("a node has at most {} devices", kMostDevicesPerNode);
  }
  if (counts.first > kMostDevices || counts.first * second > kMostDevices) {
    return fmt::format("a cluster has at most {} devices", kMostDevices);
  }
  const bool only_digits = std::all_of(counts.device.begin(), counts.device.end(), is_digit);
  const bool begins_with_x = counts.device.starts_with('x') || counts.device.starts_with('X');
  // "8x8" alone could only be eight devices named 8; no device is named by a single digit.
  if (counts.device.empty() || begins_with_x || (only_digits && counts.device.size() < 4)) {
    return fmt::format("no device is named; {}", kForms);
  }
  return std::nullopt;
}

/// Nodes and devices per node for a total; an error text when the total does not fill its nodes.
tl::expected<std::pair<int, int>, std::string> split_devices(int total, const DeviceSpec& device) {
  const int size = device.devices_per_node;
  if (total <= size) return std::pair{1, total};
  if (total % size == 0) return std::pair{total / size, size};
  const int lower = total / size * size;
  return tl::unexpected(fmt::format(
      "{} devices do not fill nodes of {} {}: write {} or {}, or say the node's size with "
      "nodes x devices per node x device",
      total, size, device.name, lower, lower + size));
}

Result<ClusterSpec> counted_cluster(std::string_view text, const Counts& counts,
                                    const Place& place) {
  const auto wrong = [&](std::string_view why) {
    return fail(fmt::format("cluster {}: {}", in_quotes(text), why), place);
  };
  if (const auto mistake = wrong_counts(counts)) return wrong(*mistake);
  const auto device = find_device(counts.device, place);
  if (!device) return fail(device.error());
  int nodes = static_cast<int>(counts.first);
  int devices_per_node = static_cast<int>(counts.second.value_or(0));
  if (!counts.second) {
    const auto split = split_devices(nodes, *device);
    if (!split) return wrong(split.error());
    std::tie(nodes, devices_per_node) = *split;
  }
  ClusterSpec cluster = typical_cluster(*device, nodes, devices_per_node);
  if (needs_network(cluster) && !has_network(cluster.topology)) {
    return wrong(without_network(*device));
  }
  return cluster;
}

// ---- mapping ----------------------------------------------------------------------------------

void read_scale_up(const Node& map, Topology& topology) {
  if (!map.is_map()) {
    map.error("must be a mapping with size, bandwidth, latency, switched");
    return;
  }
  map.only({"size", "bandwidth", "latency", "switched"});
  if (const auto size = map.find("size")) {
    topology.scale_up_size = static_cast<int>(size->integer(1, kMostDevices));
  }
  if (const auto rate = map.find("bandwidth")) topology.scale_up_bandwidth = link_rate(*rate);
  if (const auto latency = map.find("latency")) topology.scale_up_latency = hop_latency(*latency);
  if (const auto switched = map.find("switched")) topology.scale_up_switched = switched->boolean();
}

void read_network(const Node& map, int devices_per_node, Topology& topology) {
  if (!map.is_map()) {
    map.error("must be a mapping with nics_per_node, nic_bandwidth, latency, ...");
    return;
  }
  map.only({"nics_per_node", "nic_bandwidth", "latency", "rail_aligned", "oversubscription",
            "nodes_per_pod"});
  if (const auto rate = map.find("nic_bandwidth")) {
    topology.nic_bandwidth = link_rate(*rate);
    if (topology.nics_per_node == 0) topology.nics_per_node = devices_per_node;
  }
  if (const auto count = map.find("nics_per_node")) {
    topology.nics_per_node = static_cast<int>(count->integer(1, kMostNicsPerNode));
  }
  if (const auto latency = map.find("latency")) topology.nic_latency = hop_latency(*latency);
  if (const auto rails = map.find("rail_aligned")) topology.rail_aligned = rails->boolean();
  if (const auto nodes = map.find("nodes_per_pod")) {
    topology.nodes_per_pod = static_cast<int>(nodes->integer(1, kMostDevices));
  }
  if (const auto ratio = map.find("oversubscription")) {
    topology.oversubscription = ratio->number(1, 1000);
    if (topology.oversubscription > 1 && topology.nodes_per_pod == 0) {
      ratio->error("needs nodes_per_pod: how many nodes lie below the oversubscribed level");
    }
  }
}

double read_factor(const Node& map, std::string_view key) {
  constexpr double kMostScale = 10;
  const auto node = map.find(key);
  if (!node) return 1;
  const double factor = node->percent(true);
  if (factor > 0 && factor <= kMostScale) return factor;
  // A percentage that could not be read is zero too, and on record.
  const bool is_percentage = node->is_text() && parse_percent(node->text(), true).has_value();
  if (is_percentage) node->error("must be above 0 % and at most 1000 %");
  return 1;
}

RateScale read_scale(const Node& map) {
  RateScale scale;
  if (!map.is_map()) {
    map.error("must be a mapping of rates to percentages, e.g. network_bandwidth: 50 %");
    return scale;
  }
  map.only({"network_bandwidth", "scale_up_bandwidth", "memory_bandwidth", "compute"});
  scale.network_bandwidth = read_factor(map, "network_bandwidth");
  scale.scale_up_bandwidth = read_factor(map, "scale_up_bandwidth");
  scale.memory_bandwidth = read_factor(map, "memory_bandwidth");
  scale.compute = read_factor(map, "compute");
  return scale;
}

void check_links(const Node& node, const ClusterSpec& cluster) {
  const int size = cluster.topology.scale_up_size;
  const int per_node = cluster.devices_per_node;
  const auto scale_up = node.find("scale_up");
  const auto size_key = scale_up && scale_up->is_map() ? scale_up->find("size") : std::nullopt;
  const Node at = size_key.value_or(node);
  if (size > cluster.devices()) {
    at.error(fmt::format("a scale-up domain of {} devices is larger than the cluster of {}", size,
                         cluster.devices()));
  } else if (size < per_node ? per_node % size != 0 : size % per_node != 0) {
    at.error(
        fmt::format("a scale-up domain of {} devices does not fit nodes of {}: it must divide "
                    "the node or be whole nodes",
                    size, per_node));
  }
  if (needs_network(cluster) && !has_network(cluster.topology)) {
    node.error(without_network(cluster.device));
  }
}

void read_links_and_host(const Node& node, ClusterSpec& cluster) {
  if (const auto map = node.find("scale_up")) read_scale_up(*map, cluster.topology);
  if (const auto map = node.find("network")) {
    read_network(*map, cluster.devices_per_node, cluster.topology);
  }
  if (const auto host = node.find("host_memory")) cluster.host_memory_per_node = memory_size(*host);
  if (const auto pcie = node.find("pcie_bandwidth")) cluster.host_bandwidth = link_rate(*pcie);
  if (const auto name = node.find("name")) cluster.name = name->text();
  if (const auto source = node.find("source")) cluster.source = source->text();
  if (const auto note = node.find("note")) cluster.note = note->text();
}

/// `file_stem` names the cluster where the mapping does not; empty = a mapping inside a file.
Result<ClusterSpec> read_mapping(const Node& node, const std::string& file_stem) {
  node.only({"name", "device", "nodes", "devices_per_node", "scale_up", "network", "host_memory",
             "pcie_bandwidth", "scale", "source", "note"});
  const Node device_node = node.required("device");
  // A missing or wrong text is on record; the rest is then read against an empty device.
  const std::string device_name = device_node.text();
  const auto device = device_node.is_text() ? find_device(device_name, device_node.place())
                                            : Result<DeviceSpec>{DeviceSpec{}};
  const DeviceSpec known = device.value_or(DeviceSpec{});
  auto nodes = node.required("nodes").integer(1, kMostDevices);
  const auto size_key = node.find("devices_per_node");
  const auto size = size_key ? size_key->integer(1, kMostDevicesPerNode) : known.devices_per_node;
  if (nodes * size > kMostDevices) {
    node.required("nodes").error(
        fmt::format("{} nodes of {}: a cluster has at most {} devices", nodes, size, kMostDevices));
    nodes = 1;
  }
  ClusterSpec cluster = typical_cluster(known, static_cast<int>(nodes), static_cast<int>(size));
  if (!file_stem.empty()) cluster.name = file_stem;
  read_links_and_host(node, cluster);
  if (!known.name.empty()) check_links(node, cluster);
  if (const auto scale = node.find("scale")) {
    cluster = apply_scale(std::move(cluster), read_scale(*scale));
  }
  if (!device) return fail(device.error());
  return cluster;
}

Result<std::vector<std::pair<std::string, std::filesystem::path>>> shipped_clusters() {
  const auto files = data_files(std::filesystem::path{kFolder}, ".yaml");
  if (!files) return fail(files.error());
  std::vector<std::pair<std::string, std::filesystem::path>> clusters;
  clusters.reserve(files->size());
  for (const auto& file : *files) clusters.emplace_back(file.stem().string(), file);
  return clusters;
}

tl::unexpected<Errors> unknown_cluster(std::string_view text, const Place& place,
                                       const std::vector<std::string_view>& names) {
  // A device alone is the commonest slip; its error would hide what is missing.
  if (const auto device = find_device(text)) {
    return fail(fmt::format("{} is a device; say how many, e.g. {}x{} for one node",
                            in_quotes(text), device->devices_per_node, text),
                place);
  }
  const std::string_view near = nearest(canonical_name(text), names);
  return fail(
      fmt::format("unknown cluster {}{}; {}. Shipped: {}", in_quotes(text),
                  near.empty() ? "" : fmt::format("; did you mean {}?", near), kForms, join(names)),
      place);
}

}  // namespace

ClusterSpec typical_cluster(const DeviceSpec& device, int nodes, int devices_per_node) {
  FOREPLAN_ASSERT(nodes >= 1 && devices_per_node >= 1, "counts are checked by the readers");
  ClusterSpec cluster;
  cluster.name = fmt::format("{}x{}x{}", nodes, devices_per_node, device.name);
  cluster.device = device;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.topology = typical_topology(device, nodes, devices_per_node);
  cluster.host_memory_per_node = device.host_memory_per_node;
  cluster.host_bandwidth =
      device.host_bandwidth.value > 0 ? device.host_bandwidth : device.pcie_bandwidth;
  return cluster;
}

ClusterSpec apply_scale(ClusterSpec cluster, const RateScale& scale) {
  std::string told;
  const auto tell = [&](std::string_view rate, double factor) {
    FOREPLAN_ASSERT(std::isfinite(factor) && factor > 0, "factors are checked by the readers");
    if (factor == 1) return;
    told += fmt::format("{}{} {:g} %", told.empty() ? "" : ", ", rate, factor * 100);
  };
  tell("network_bandwidth", scale.network_bandwidth);
  tell("scale_up_bandwidth", scale.scale_up_bandwidth);
  tell("memory_bandwidth", scale.memory_bandwidth);
  tell("compute", scale.compute);
  if (told.empty()) return cluster;

  cluster.topology.nic_bandwidth *= scale.network_bandwidth;
  cluster.topology.scale_up_bandwidth *= scale.scale_up_bandwidth;
  cluster.device.memory_bandwidth *= scale.memory_bandwidth;
  DeviceSpec& device = cluster.device;
  for (auto* peak : {&device.peak_fp32, &device.peak_tf32, &device.peak_fp16, &device.peak_bf16,
                     &device.peak_fp8, &device.peak_fp4, &device.peak_int8}) {
    if (*peak) **peak *= scale.compute;
  }
  cluster.name += fmt::format(" ({})", told);
  const std::string before = std::exchange(cluster.note, fmt::format("What-if: {}.", told));
  if (!before.empty()) cluster.note += " " + before;
  return cluster;
}

Result<ClusterSpec> read_cluster(const Node& node) {
  if (node.is_scalar()) return find_cluster(node.text(), node.place());
  if (!node.is_map()) {
    node.error(
        fmt::format("must be a cluster, a mapping with device and nodes, or a text; {}", kForms));
    return typical_cluster(DeviceSpec{}, 1, 1);
  }
  return read_mapping(node, {});
}

Result<ClusterSpec> read_cluster(const std::filesystem::path& file) {
  const auto document = Document::read_yaml(file);
  if (!document) return fail(document.error());
  const Node root = document->root();
  if (!root.is_map()) {
    // Not a text either: one that names its own file would be read for ever.
    root.error("must be a cluster, a mapping with device and nodes");
    return fail(document->errors());
  }
  auto cluster = read_mapping(root, file.stem().string());
  Errors errors = document->errors();
  if (!cluster) errors.insert(errors.end(), cluster.error().begin(), cluster.error().end());
  if (!errors.empty()) return fail(std::move(errors));
  return cluster;
}

Result<std::vector<std::string>> cluster_names() {
  const auto clusters = shipped_clusters();
  if (!clusters) return fail(clusters.error());
  std::vector<std::string> names;
  names.reserve(clusters->size());
  for (const auto& [name, file] : *clusters) names.push_back(name);
  return names;
}

Result<ClusterSpec> find_cluster(std::string_view text, const Place& place) {
  const std::string_view wanted = trimmed(text);
  if (wanted.empty()) return fail(fmt::format("the cluster is empty; {}", kForms), place);
  const bool is_path = is_file_path(wanted);
  const auto path = resolve_path(wanted, place);
  std::error_code ignored;
  // The device of "8x8xmy/device.yaml" makes the whole look like a path: an existing file wins.
  if (is_path && std::filesystem::exists(path, ignored)) return read_cluster(path);
  if (const auto counts = parse_counts(wanted)) return counted_cluster(wanted, *counts, place);
  if (is_path) return read_cluster(path);
  const auto clusters = shipped_clusters();
  if (!clusters) return fail(clusters.error());
  std::vector<std::string_view> names;
  for (const auto& [name, file] : *clusters) {
    if (canonical_name(name) == canonical_name(wanted)) return read_cluster(file);
    names.push_back(name);
  }
  return unknown_cluster(wanted, place, names);
}

}  // namespace foreplan::scenarios
