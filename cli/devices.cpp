// devices: the shipped data sheets.

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "scenarios/answers/catalogue.hpp"
#include "scenarios/device_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string tera(const std::optional<FlopsPerSecond>& rate) {
  return rate ? fmt::format("{:.0f}", rate->value / 1e12) : "-";
}

std::string join_texts(const std::vector<std::string>& texts) {
  return join(std::vector<std::string_view>(texts.begin(), texts.end()));
}

std::string device_text(const DeviceSpec& d) {
  std::string text =
      styled(d.name, Style::title) + fmt::format(" ({} {})\n", d.vendor, d.architecture);
  Table table({"", ""});
  table.add({"aliases", d.aliases.empty() ? "-" : join_texts(d.aliases)});
  table.add(
      {"multiprocessors", fmt::format("{} at {:.0f} MHz", d.sm_count, d.boost_clock_hz / 1e6)});
  table.add(
      {"TFLOP/s (dense)", fmt::format("fp32 {}, tf32 {}, fp16 {}, bf16 {}, fp8 {}, fp4 {}",
                                      tera(d.peak_fp32), tera(d.peak_tf32), tera(d.peak_fp16),
                                      tera(d.peak_bf16), tera(d.peak_fp8), tera(d.peak_fp4))});
  table.add({"memory",
             fmt::format("{:.0f} GB at {}", d.memory.value / 1e9, readable(d.memory_bandwidth))});
  table.add({"L2 cache", readable(d.l2_cache)});
  table.add({"scale-up link", fmt::format("{}, {} per device and direction", d.scale_up_link,
                                          readable(d.scale_up_bandwidth))});
  table.add({"PCIe", readable(d.pcie_bandwidth)});
  if (d.host_bandwidth.value > 0)
    table.add({"host link", readable(d.host_bandwidth) + " per direction"});
  table.add({"typical node", fmt::format("{} devices, NIC {} each", d.devices_per_node,
                                         readable(d.nic_bandwidth))});
  table.add({"power", fmt::format("{:.0f} W", d.power_w)});
  table.add({"sources", join_texts(d.sources)});
  table.add(
      {"unconfirmed", d.unconfirmed_fields.empty() ? "nothing" : join_texts(d.unconfirmed_fields)});
  if (!d.note.empty()) table.add({"note", d.note});
  return text + table.text();
}

class Devices final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "devices"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the shipped data sheets, or one in detail";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n  foreplan devices\n  foreplan devices H100\n\n"
           "A device of your own is such a file in the folder that FOREPLAN_DEVICES names; "
           "scenarios/devices\n"
           "has the shipped ones.";
  }
  void declare(CLI::App& app) override {
    app.add_option("NAME", device_, "device name, alias or file");
    app.add_flag("--json", json_, "print as JSON");
  }
  Result<ExitCode> run() override {
    if (!device_.empty()) {
      auto device = scenarios::find_device(device_, Place{{}, 0, 0, "NAME"});
      if (!device) return fail(std::move(device.error()));
      print(json_ ? scenarios::describe(*device).dump(2) + '\n' : device_text(*device));
      return kDone;
    }
    auto names = scenarios::device_names();
    if (!names) return fail(std::move(names.error()));
    Table table({"device", "aliases", "architecture", ">bf16 TFLOP/s", ">fp8", ">memory GB",
                 ">GB/s", "link", ">GB/s ", "unconfirmed"});
    Json out = Json::array();
    for (const std::string& name : *names) {
      auto device = scenarios::find_device(name);
      if (!device) return fail(std::move(device.error()));
      const DeviceSpec& d = *device;
      table.add({d.name, join_texts(d.aliases), d.architecture,
                 tera(d.peak_bf16 ? d.peak_bf16 : d.peak_fp16), tera(d.peak_fp8),
                 fmt::format("{:.0f}", d.memory.value / 1e9),
                 fmt::format("{:.0f}", d.memory_bandwidth.value / 1e9), d.scale_up_link,
                 fmt::format("{:.0f}", d.scale_up_bandwidth.value / 1e9),
                 d.unconfirmed_fields.empty()
                     ? ""
                     : fmt::format("{} values", d.unconfirmed_fields.size())});
      out.push_back(scenarios::describe(d));
    }
    print(json_ ? out.dump(2) + '\n' : table.text());
    return kDone;
  }

 private:
  std::string device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_devices() { return std::make_unique<Devices>(); }

}  // namespace foreplan::cli
