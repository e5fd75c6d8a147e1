#include "scenarios/device_file.hpp"

#include "core/data_directory.hpp"
#include "core/decimal.hpp"
#include "scenarios/lookup.hpp"
#include "scenarios/plausible.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <utility>

namespace foreplan::scenarios {
namespace {

constexpr std::string_view kFolder = "scenarios/devices";
constexpr const char* kOwnFolder = "FOREPLAN_DEVICES";  // environment variable
constexpr int kMostDevicesPerNode = 256;
constexpr int kMostDevicesPerDomain = 4096;

// ---- values -----------------------------------------------------------------------------------

/// "700 W" -> 700.
std::optional<double> parse_watts(std::string_view text) {
  const auto number = scan_decimal(text);
  if (!number) return std::nullopt;
  std::string_view unit = text.substr(number->length);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  return unit == "W" ? to_double(*number) : std::nullopt;
}

double watts(const Node& node) {
  constexpr double kMostWatts = 1e5;
  const auto value = node.is_text() ? parse_watts(node.text()) : std::nullopt;
  if (value && *value > 0 && *value <= kMostWatts) return *value;
  node.error(fmt::format("must be a power above 0 and at most {:g} W, e.g. 700 W", kMostWatts));
  return 0;
}

std::optional<FlopsPerSecond> peak(const Node& peaks, std::string_view key) {
  const auto node = peaks.find(key);
  return node ? std::optional{peak_rate(*node)} : std::nullopt;
}

/// A narrower type never computes slower on a unit that has it; a file that says so has its columns
/// mixed up.
void check_not_slower(const Node& peaks, std::string_view narrow, std::string_view wide,
                      std::optional<FlopsPerSecond> narrow_peak,
                      std::optional<FlopsPerSecond> wide_peak) {
  if (!narrow_peak || !wide_peak || *narrow_peak >= *wide_peak) return;
  peaks.required(narrow).error(
      fmt::format("{} is below the {} peak {}; leave the key out if the "
                  "device has no such unit",
                  print(*narrow_peak), wide, print(*wide_peak)));
}

void read_peaks(const Node& device, DeviceSpec& spec) {
  const auto peaks = device.find("peaks");
  if (!peaks) {
    (void)device.required("peaks");
    return;
  }
  if (!peaks->is_map()) {
    peaks->error("must be a mapping of types to rates, e.g. bf16: 989 TFLOP/s");
    return;
  }
  peaks->only({"fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"});
  spec.peak_fp32 = peak(*peaks, "fp32");
  spec.peak_tf32 = peak(*peaks, "tf32");
  spec.peak_fp16 = peak(*peaks, "fp16");
  spec.peak_bf16 = peak(*peaks, "bf16");
  spec.peak_fp8 = peak(*peaks, "fp8");
  spec.peak_fp4 = peak(*peaks, "fp4");
  // Integer operations count like FLOPs here: a data sheet's TOP/s is written TFLOP/s.
  spec.peak_int8 = peak(*peaks, "int8");
  if (peaks->keys().empty()) peaks->error("a device needs at least one peak rate");
  check_not_slower(*peaks, "fp8", "bf16", spec.peak_fp8, spec.peak_bf16);
  check_not_slower(*peaks, "fp4", "fp8", spec.peak_fp4, spec.peak_fp8);
}

void read_memory(const Node& device, DeviceSpec& spec) {
  spec.memory = memory_size(device.required("memory"));
  spec.memory_bandwidth = link_rate(device.required("memory_bandwidth"));
  spec.l2_cache = memory_size(device.required("l2_cache"));
  const auto visible = device.find("visible_memory");
  if (!visible) return;
  spec.visible_memory = memory_size(*visible);
  // An "80 GB" part can hold 80 GiB, 7 % more; drivers keep less than a tenth to themselves.
  const double fraction = spec.visible_memory / spec.memory;
  if (fraction < 0.8 || fraction > 1.1) {
    visible->error(fmt::format("{} is not from 80 % to 110 % of memory, {}",
                               print(spec.visible_memory), print(spec.memory)));
  }
}

void read_node(const Node& device, DeviceSpec& spec) {
  const auto node = device.find("node");
  if (!node) return;
  if (!node->is_map()) {
    node->error("must be a mapping with devices, nic_bandwidth, host_memory");
    return;
  }
  node->only({"devices", "nic_bandwidth", "host_memory"});
  if (const auto count = node->find("devices")) {
    spec.devices_per_node = static_cast<int>(count->integer(1, kMostDevicesPerNode));
  }
  if (const auto nic = node->find("nic_bandwidth")) spec.nic_bandwidth = link_rate(*nic);
  if (const auto host = node->find("host_memory")) spec.host_memory_per_node = memory_size(*host);
}

/// Without `scale_up` the devices of a node reach one another over PCIe only.
void read_scale_up(const Node& device, DeviceSpec& spec) {
  spec.scale_up_link = "PCIe";
  spec.scale_up_bandwidth = spec.pcie_bandwidth;
  spec.scale_up_size = spec.devices_per_node;
  spec.scale_up_switched = false;
  const auto scale_up = device.find("scale_up");
  if (!scale_up) return;
  if (!scale_up->is_map()) {
    scale_up->error("must be a mapping with link, bandwidth, size, switched");
    return;
  }
  scale_up->only({"link", "bandwidth", "size", "switched"});
  spec.scale_up_link = scale_up->required("link").text();
  spec.scale_up_bandwidth = link_rate(scale_up->required("bandwidth"));
  if (const auto size = scale_up->find("size")) {
    spec.scale_up_size = static_cast<int>(size->integer(1, kMostDevicesPerDomain));
  }
  spec.scale_up_switched = scale_up->required("switched").boolean();
}

std::vector<std::string> texts(const Node& list) {
  std::vector<std::string> result;
  for (const Node& item : list.items()) result.push_back(item.text());
  return result;
}

bool has_key(Node node, std::string_view path) {
  while (true) {
    const auto dot = path.find('.');
    const auto child = node.is_map() ? node.find(path.substr(0, dot)) : std::nullopt;
    if (!child) return false;
    if (dot == std::string_view::npos) return true;
    node = *child;
    path.remove_prefix(dot + 1);
  }
}

void read_provenance(const Node& device, DeviceSpec& spec) {
  if (const auto sources = device.find("sources")) {
    spec.sources = texts(*sources);
    if (sources->is_list() && spec.sources.empty()) sources->error("name at least one source");
  } else {
    (void)device.required("sources");
  }
  if (const auto unconfirmed = device.find("unconfirmed")) {
    for (const Node& item : unconfirmed->items()) {
      const std::string key = item.text();
      if (!key.empty() && !has_key(device, key)) {
        item.error(
            fmt::format("{} is not a key of this file; write e.g. peaks.fp8", in_quotes(key)));
      }
      spec.unconfirmed_fields.push_back(key);
    }
  }
  if (const auto note = device.find("note")) spec.note = note->text();
}

// ---- catalogue --------------------------------------------------------------------------------

struct CatalogueEntry {
  std::filesystem::path file;
  std::string name;
  std::vector<std::string> aliases;
};

/// Items of a one-line YAML list "[a, "b", c]", or nothing if the text is not such a list.
std::optional<std::vector<std::string>> flow_list(std::string_view text) {
  const auto open = text.find('[');
  const auto close = text.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  std::vector<std::string> items;
  std::string item;
  for (const char c : text.substr(open + 1, close - open - 1)) {
    if (c == ',') {
      items.push_back(std::exchange(item, {}));
    } else if (c != ' ' && c != '"' && c != '\'') {
      item += c;
    }
  }
  if (!item.empty()) items.push_back(item);
  return items;
}

/// Name and aliases of a device file. Shipped files hold them on their first two lines, which
/// spares parsing the whole catalogue to find one device; any other layout is parsed.
CatalogueEntry read_entry(const std::filesystem::path& file) {
  constexpr std::string_view kName = "name: ";
  constexpr std::string_view kAliases = "aliases: ";
  std::ifstream in(file);
  std::string first, second;
  if (std::getline(in, first) && first.starts_with(kName) && std::getline(in, second) &&
      second.starts_with(kAliases)) {
    if (auto aliases = flow_list(second)) {
      return {file, first.substr(kName.size()), *std::move(aliases)};
    }
  }
  if (auto spec = read_device(file)) return {file, spec->name, spec->aliases};
  return {file, file.stem().string(), {}};  // its mistakes are told when it is asked for by name
}

/// Adds the device files of the folder that FOREPLAN_DEVICES names, if it is set: machines that
/// their owner described, such as the host that a bench measured.
Result<void> add_own_devices(std::vector<std::filesystem::path>& files) {
  const char* folder = std::getenv(kOwnFolder);
  if (folder == nullptr || *folder == '\0') return {};
  std::error_code failed;
  std::vector<std::filesystem::path> own;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (it->path().extension() == ".yaml") own.push_back(it->path());
  }
  if (failed) {
    return fail(fmt::format("{} is {}, which cannot be listed: {}", kOwnFolder, in_quotes(folder),
                            failed.message()));
  }
  std::sort(own.begin(), own.end());
  files.insert(files.end(), own.begin(), own.end());
  return {};
}

Result<std::vector<CatalogueEntry>> read_catalogue() {
  auto files = data_files(std::filesystem::path{kFolder}, ".yaml");
  if (!files) return fail(files.error());
  if (const auto added = add_own_devices(*files); !added) return fail(added.error());
  std::vector<CatalogueEntry> entries;
  entries.reserve(files->size());
  for (const auto& file : *files) entries.push_back(read_entry(file));
  return entries;
}

tl::unexpected<Errors> unknown_device(std::string_view text, const Place& place,
                                      const std::vector<CatalogueEntry>& catalogue) {
  std::vector<std::string_view> names, spellings;
  for (const auto& entry : catalogue) {
    names.push_back(entry.name);
    spellings.push_back(entry.name);
    spellings.insert(spellings.end(), entry.aliases.begin(), entry.aliases.end());
  }
  const std::string_view near = nearest(canonical_name(text), spellings);
  const std::string guess = near.empty() ? "" : fmt::format("; did you mean {}?", near);
  return fail(fmt::format("unknown device {}{} Known: {}; or the path of a device file",
                          in_quotes(text), guess.empty() ? "." : guess, join(names)),
              place);
}

}  // namespace

DeviceSpec read_device(const Node& node) {
  DeviceSpec spec;
  if (!node.is_map()) {
    node.error("must be a device, a mapping with name, peaks, memory, ...");
    return spec;
  }
  node.only({"name", "aliases", "vendor", "architecture", "sm_count", "boost_clock", "peaks",
             "memory", "visible_memory", "memory_bandwidth", "l2_cache", "scale_up",
             "pcie_bandwidth", "host_bandwidth", "node", "power", "sources", "unconfirmed",
             "note"});
  spec.name = node.required("name").text();
  if (const auto aliases = node.find("aliases")) spec.aliases = texts(*aliases);
  spec.vendor = node.required("vendor").text();
  spec.architecture = node.required("architecture").text();
  spec.sm_count = static_cast<int>(node.required("sm_count").integer(1, 4096));
  const Node clock = node.required("boost_clock");
  spec.boost_clock_hz = clock.hertz();
  if (spec.boost_clock_hz > kMostHertz) clock.error("no device runs above 100 GHz");
  read_peaks(node, spec);
  read_memory(node, spec);
  spec.pcie_bandwidth = link_rate(node.required("pcie_bandwidth"));
  if (const auto host = node.find("host_bandwidth")) spec.host_bandwidth = link_rate(*host);
  read_node(node, spec);
  read_scale_up(node, spec);
  spec.power_w = watts(node.required("power"));
  read_provenance(node, spec);
  return spec;
}

Result<DeviceSpec> read_device(const std::filesystem::path& file) {
  const auto document = Document::read_yaml(file);
  if (!document) return fail(document.error());
  DeviceSpec spec = read_device(document->root());
  if (!document->ok()) return fail(document->errors());
  return spec;
}

Result<std::vector<std::string>> device_names() {
  const auto catalogue = read_catalogue();
  if (!catalogue) return fail(catalogue.error());
  std::vector<std::string> names;
  names.reserve(catalogue->size());
  for (const auto& entry : *catalogue) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<DeviceSpec> find_device(std::string_view text, const Place& place) {
  if (is_file_path(text)) return read_device(resolve_path(text, place));
  const auto catalogue = read_catalogue();
  if (!catalogue) return fail(catalogue.error());
  const std::string wanted = canonical_name(text);
  for (const auto& entry : *catalogue) {
    const bool is_alias =
        std::any_of(entry.aliases.begin(), entry.aliases.end(),
                    [&](const std::string& alias) { return canonical_name(alias) == wanted; });
    if (is_alias || canonical_name(entry.name) == wanted) return read_device(entry.file);
  }
  return unknown_device(text, place, *catalogue);
}

}  // namespace foreplan::scenarios
