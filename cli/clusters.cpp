// clusters: the shipped clusters, and what a text such as 8x8xH100 stands for.

#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/units_text.hpp"
#include "scenarios/answers/catalogue.hpp"
#include "scenarios/cluster_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string cluster_text(const ClusterSpec& c) {
  const Topology& t = c.topology;
  Table table({"", ""});
  table.add({"devices", fmt::format("{} nodes x {} = {} {}", c.nodes, c.devices_per_node,
                                    c.devices(), c.device.name)});
  table.add(
      {"scale-up domain", fmt::format("{} devices, {} each, {} per hop{}", t.scale_up_size,
                                      readable(t.scale_up_bandwidth), readable(t.scale_up_latency),
                                      t.scale_up_switched ? ", switched" : "")});
  table.add({"network", fmt::format("{} NICs per node, {} each, {} per hop{}", t.nics_per_node,
                                    readable(t.nic_bandwidth), readable(t.nic_latency),
                                    t.rail_aligned ? ", rail-aligned" : "")});
  table.add({"oversubscription",
             t.nodes_per_pod > 0
                 ? fmt::format("{:g} between pods of {} nodes", t.oversubscription, t.nodes_per_pod)
                 : std::string("none")});
  table.add({"host memory", c.host_memory_per_node.value > 0
                                ? readable(c.host_memory_per_node) + " per node"
                                : "unknown"});
  table.add({"host link", readable(c.host_bandwidth) + " per device"});
  if (!c.note.empty()) table.add({"note", c.note});
  return styled(c.name, Style::title) + '\n' + table.text();
}

class Clusters final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "clusters"; }
  [[nodiscard]] std::string_view summary() const override {
    return "the shipped clusters, or one in detail";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n  foreplan clusters\n  foreplan clusters 8x8xH100\n  foreplan clusters "
           "eos-h100 --json";
  }
  void declare(CLI::App& app) override {
    app.add_option("NAME", cluster_, "8x8xH100, 64xH100, a shipped cluster or a file");
    app.add_flag("--json", json_, "print as JSON");
  }
  Result<ExitCode> run() override {
    if (!cluster_.empty()) {
      auto cluster = scenarios::find_cluster(cluster_, Place{{}, 0, 0, "NAME"});
      if (!cluster) return fail(std::move(cluster.error()));
      print(json_ ? scenarios::describe(*cluster).dump(2) + '\n' : cluster_text(*cluster));
      return kDone;
    }
    auto names = scenarios::cluster_names();
    if (!names) return fail(std::move(names.error()));
    Table table({"cluster", ">nodes", ">devices", "device", ">scale-up", ">NICs", ">NIC"});
    Json out = Json::array();
    for (const std::string& name : *names) {
      auto cluster = scenarios::find_cluster(name);
      if (!cluster) return fail(std::move(cluster.error()));
      table.add({name, std::to_string(cluster->nodes), std::to_string(cluster->devices()),
                 cluster->device.name, readable(cluster->topology.scale_up_bandwidth),
                 std::to_string(cluster->topology.nics_per_node),
                 readable(cluster->topology.nic_bandwidth)});
      out.push_back(scenarios::describe(*cluster));
    }
    print(json_ ? out.dump(2) + '\n' : table.text());
    return kDone;
  }

 private:
  std::string cluster_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_clusters() { return std::make_unique<Clusters>(); }

}  // namespace foreplan::cli
