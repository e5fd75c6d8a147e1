// Clusters from text, from mappings and from the shipped files, and what wrong ones get.

#include "scenarios/cluster_file.hpp"

#include "core/data_directory.hpp"
#include "scenarios/device_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace foreplan::scenarios {
namespace {

using ::testing::HasSubstr;

class ClusterFile : public ::testing::Test {
 protected:
  // The test program may be built outside the source tree.
  ClusterFile() { setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0); }
};

ClusterSpec found(std::string_view text) {
  auto cluster = find_cluster(text);
  if (!cluster) {
    ADD_FAILURE() << to_text(cluster.error());
    return {};
  }
  return *std::move(cluster);
}

/// Reads a mapping the way a scenario does: both lists of errors together.
Result<ClusterSpec> read(std::string text) {
  const auto document = Document::parse_yaml(std::move(text), "c.yaml");
  if (!document) return fail(document.error());
  auto cluster = read_cluster(document->root());
  Errors errors = document->errors();
  if (!cluster) errors.insert(errors.end(), cluster.error().begin(), cluster.error().end());
  if (!errors.empty()) return fail(errors);
  return cluster;
}

std::string errors_of(const Result<ClusterSpec>& cluster) {
  return cluster ? "no error" : to_text(cluster.error());
}

// ---- text -------------------------------------------------------------------------------------

TEST_F(ClusterFile, NodesTimesDevicesPerNodeTimesDevice) {
  const ClusterSpec cluster = found("8x8xH100");
  EXPECT_EQ(cluster.name, "8x8xH100-SXM5-80GB");
  EXPECT_EQ(cluster.nodes, 8);
  EXPECT_EQ(cluster.devices_per_node, 8);
  EXPECT_EQ(cluster.devices(), 64);
  EXPECT_EQ(cluster.device.name, "H100-SXM5-80GB");
  EXPECT_EQ(cluster.topology.scale_up_size, 8);
  EXPECT_EQ(cluster.topology.scale_up_bandwidth.value, 450e9);
  EXPECT_TRUE(cluster.topology.scale_up_switched);
  EXPECT_EQ(cluster.topology.nics_per_node, 8);
  EXPECT_EQ(cluster.topology.nic_bandwidth.value, 50e9);
  EXPECT_EQ(cluster.topology.oversubscription, 1);
  EXPECT_EQ(cluster.topology.nodes_per_pod, 0);
  EXPECT_EQ(cluster.host_bandwidth.value, 64e9);
}

TEST_F(ClusterFile, LatenciesAreThoseOfNcclsTuningModel) {
  // NVIDIA/nccl 2.30.7, src/graph/tuning.cc, hardware latencies of the LL protocol.
  EXPECT_DOUBLE_EQ(found("8xH100").topology.scale_up_latency.value, 0.6e-6);
  EXPECT_DOUBLE_EQ(found("8xH100").topology.nic_latency.value, 5.0e-6);
  EXPECT_DOUBLE_EQ(found("8xL40S").topology.scale_up_latency.value, 1.0e-6);
}

TEST_F(ClusterFile, ATotalIsSplitIntoTypicalNodes) {
  EXPECT_EQ(found("64xH100").nodes, 8);
  EXPECT_EQ(found("64xH100").name, "8x8xH100-SXM5-80GB");
  EXPECT_EQ(found("72xGB200").nodes, 18);
  EXPECT_EQ(found("72xGB200").devices_per_node, 4);
  // Fewer than a node's worth is a smaller node.
  EXPECT_EQ(found("1xRTX-4090").devices(), 1);
  EXPECT_EQ(found("4xH100").nodes, 1);
  EXPECT_EQ(found("4xH100").devices_per_node, 4);
  EXPECT_EQ(found("4xH100").topology.scale_up_size, 4);
  EXPECT_EQ(found("1000000xH100").devices(), 1'000'000);
}

TEST_F(ClusterFile, SpellingIsFree) {
  for (const char* text : {"2x8xh100", "2X8XH100", " 2 x 8 x H100 ", "16xH100", "2x8xH100 SXM"}) {
    EXPECT_EQ(found(text).name, "2x8xH100-SXM5-80GB") << text;
  }
  EXPECT_EQ(found("1x8x4090").device.name, "RTX-4090");
  EXPECT_EQ(found("8x4090").devices_per_node, 8) << "4090 is the device, not a count";
}

TEST_F(ClusterFile, ScaleUpDomainsAreNodesPartsOfNodesOrRacks) {
  EXPECT_EQ(found("18x4xGB200").topology.scale_up_size, 72);
  EXPECT_EQ(found("36x4xGB200").topology.scale_up_size, 72);
  EXPECT_EQ(found("2x4xGB200").topology.scale_up_size, 8) << "no larger than the cluster";
  EXPECT_EQ(found("1x8xA40").topology.scale_up_size, 2) << "bridges join pairs";
  EXPECT_EQ(found("1x3xA40").topology.scale_up_size, 1) << "pairs cannot tile three devices";
  const ClusterSpec box = found("1x4xRTX-4090");
  EXPECT_EQ(box.topology.scale_up_size, 4);
  EXPECT_FALSE(box.topology.scale_up_switched);
  EXPECT_EQ(box.topology.nics_per_node, 0) << "none is typical";
}

struct BadText {
  const char* name;
  const char* text;
  const char* message;
};

constexpr BadText kBadTexts[] = {
    {"Empty", "", "the cluster is empty"},
    {"Blank", "  ", "the cluster is empty"},
    {"UnknownDevice", "8x8xH10O", "did you mean H100?"},
    {"UnknownCluster", "selene-a10", "did you mean selene-a100?"},
    {"NoNodes", "0x8xH100", "at least 1"},
    {"NoDevices", "8x0xH100", "at least 1"},
    {"ZeroTotal", "0xH100", "at least 1"},
    {"Negative", "-8x8xH100", "unknown cluster \"-8x8xH100\""},
    {"NotANumber", "nanx8xH100", "unknown cluster \"nanx8xH100\""},
    {"Fraction", "1.5x8xH100", "unknown cluster \"1.5x8xH100\""},
    {"NoDevice", "8x8", "no device is named"},
    {"NoDeviceAfterX", "8x8x", "no device is named"},
    {"DoubledX", "8xx8", "no device is named"},
    {"TripleCount", "8x8x8", "no device is named"},
    {"TooMany", "1000001xH100", "at most 1000000"},
    {"TooManyTogether", "200000x8xH100", "at most 1000000"},
    {"BeyondTheType", "99999999999999999999999xH100", "at most 1000000"},
    {"BeyondTheTypeTwice", "8x99999999999999999999999xH100", "at most 256"},
    {"FatNode", "1x257xH100", "at most 256"},
    {"DoesNotFill", "60xH100", "write 56 or 64"},
    {"DeviceAlone", "H100", "say how many, e.g. 8xH100 for one node"},
    {"NoNetwork", "2x8xRTX-4090", "no typical network"},
    {"MissingFile", "no/such.yaml", "no/such.yaml"},
    {"Folder", "./", "./"},
};

class ClusterText : public ClusterFile, public ::testing::WithParamInterface<BadText> {};

TEST_P(ClusterText, IsRejectedWithItsReasonAndPlace) {
  const Place place{.file = "s.yaml", .line = 3, .column = 10, .key = "cluster"};
  const auto cluster = find_cluster(GetParam().text, place);
  ASSERT_FALSE(cluster);
  EXPECT_THAT(to_text(cluster.error()), HasSubstr(GetParam().message));
  const std::string name = GetParam().name;
  if (name != "MissingFile" && name != "Folder") {
    EXPECT_THAT(to_text(cluster.error()), HasSubstr("s.yaml:3:10 cluster: "));
  }
}

INSTANTIATE_TEST_SUITE_P(Bad, ClusterText, ::testing::ValuesIn(kBadTexts),
                         [](const auto& each) { return std::string(each.param.name); });

// ---- shipped files ----------------------------------------------------------------------------

TEST_F(ClusterFile, EveryShippedClusterReadsAndNamesItsSource) {
  const auto names = cluster_names().value();
  for (const char* name : {"selene-a100", "eos-h100", "meta-24k", "aws-p4d", "aws-p5",
                           "gcp-a3-mega", "deepseek-h800", "gb200-nvl72", "rtx4090-8x"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
  for (const auto& name : names) {
    const ClusterSpec cluster = found(name);
    EXPECT_EQ(cluster.name, name);
    EXPECT_FALSE(cluster.source.empty()) << name;
    EXPECT_FALSE(cluster.note.empty()) << name;
    EXPECT_GT(cluster.topology.scale_up_bandwidth.value, 0) << name;
  }
}

TEST_F(ClusterFile, MetasClusterHasTheFactsOfTheLlama3Paper) {
  // arXiv 2407.21783 section 3.3.1: 24K GPUs, pods of 3072 GPUs, 8 pods, 1:7, 400 Gb/s per GPU.
  const ClusterSpec meta = found("Meta-24K");
  EXPECT_EQ(meta.devices(), 8 * 3072);
  EXPECT_EQ(meta.topology.nodes_per_pod * meta.devices_per_node, 3072);
  EXPECT_EQ(meta.topology.oversubscription, 7);
  EXPECT_EQ(meta.topology.nic_bandwidth.value, 50e9);
}

TEST_F(ClusterFile, CloudNodesHaveTheirPublishedNetworks) {
  const auto node_rate = [](const char* name) {
    const Topology topology = found(name).topology;
    return topology.nics_per_node * topology.nic_bandwidth.value * 8 / 1e9;  // Gbit/s
  };
  EXPECT_DOUBLE_EQ(node_rate("aws-p4d"), 400);
  EXPECT_DOUBLE_EQ(node_rate("aws-p5"), 3200);
  EXPECT_DOUBLE_EQ(node_rate("gcp-a3-mega"), 1600);
  EXPECT_DOUBLE_EQ(node_rate("selene-a100"), 1600);
  EXPECT_DOUBLE_EQ(node_rate("eos-h100"), 3200);
  EXPECT_EQ(found("deepseek-h800").devices(), 2048);
  EXPECT_EQ(found("aws-p4d").device.name, "A100-SXM4-40GB");
}

TEST_F(ClusterFile, MeasuredFabricLatenciesGiveBackTheMeasuredAllReduce) {
  // The tree formula of NCCL's model on two nodes of eight, small messages:
  // base 6.8 us + 2 * (7 hops * 0.6 us + network latency). 69 us and 135 us were measured.
  const auto all_reduce = [](const char* name) {
    const Topology t = found(name).topology;
    return 6.8e-6 + 2 * (7 * t.scale_up_latency.value + t.nic_latency.value);
  };
  EXPECT_NEAR(all_reduce("aws-p5"), 69e-6, 0.5e-6);
  EXPECT_NEAR(all_reduce("gcp-a3-mega"), 135e-6, 0.5e-6);
  EXPECT_NEAR(all_reduce("aws-p4d") + 7e-6, 165e-6, 0.5e-6) << "an A100 adds 7 us";
}

TEST_F(ClusterFile, OneNvl72RackIsOneDomain) {
  const ClusterSpec rack = found("gb200-nvl72");
  EXPECT_EQ(rack.devices(), 72);
  EXPECT_EQ(rack.topology.scale_up_size, 72);
}

// ---- mappings ---------------------------------------------------------------------------------

TEST_F(ClusterFile, AMinimalMappingEqualsTheText) {
  const auto cluster = read("device: H100\nnodes: 8\n");
  ASSERT_TRUE(cluster) << errors_of(cluster);
  const ClusterSpec text = found("8x8xH100");
  EXPECT_EQ(cluster->name, text.name);
  EXPECT_EQ(cluster->devices(), text.devices());
  EXPECT_EQ(cluster->topology.nic_bandwidth, text.topology.nic_bandwidth);
  EXPECT_EQ(cluster->host_memory_per_node, text.host_memory_per_node);
  const auto scalar = read("8x8xH100\n");
  ASSERT_TRUE(scalar) << errors_of(scalar);
  EXPECT_EQ(scalar->name, text.name);
}

constexpr const char* kFull = R"(name: mine
device: RTX-4090
nodes: 4
devices_per_node: 8
scale_up: {size: 4, bandwidth: 20 GB/s, latency: 2 us, switched: false}
network:
  nics_per_node: 2
  nic_bandwidth: 100 Gbit/s
  latency: 7 us
  rail_aligned: false
  oversubscription: 2.5
  nodes_per_pod: 2
host_memory: 512 GiB
pcie_bandwidth: 25 GB/s
source: a visit
note: mine.
)";

TEST_F(ClusterFile, EveryKeyOfAMappingIsTaken) {
  const auto cluster = read(kFull);
  ASSERT_TRUE(cluster) << errors_of(cluster);
  EXPECT_EQ(cluster->name, "mine");
  EXPECT_EQ(cluster->nodes, 4);
  EXPECT_EQ(cluster->devices_per_node, 8);
  const Topology& t = cluster->topology;
  EXPECT_EQ(t.scale_up_size, 4);
  EXPECT_EQ(t.scale_up_bandwidth.value, 20e9);
  EXPECT_DOUBLE_EQ(t.scale_up_latency.value, 2e-6);
  EXPECT_FALSE(t.scale_up_switched);
  EXPECT_EQ(t.nics_per_node, 2);
  EXPECT_EQ(t.nic_bandwidth.value, 12.5e9);
  EXPECT_DOUBLE_EQ(t.nic_latency.value, 7e-6);
  EXPECT_FALSE(t.rail_aligned);
  EXPECT_EQ(t.oversubscription, 2.5);
  EXPECT_EQ(t.nodes_per_pod, 2);
  EXPECT_EQ(cluster->host_memory_per_node.value, 512 * kGiB);
  EXPECT_EQ(cluster->host_bandwidth.value, 25e9);
  EXPECT_EQ(cluster->source, "a visit");
  EXPECT_EQ(cluster->note, "mine.");
}

TEST_F(ClusterFile, ANetworkRateAloneGivesOneNicPerDevice) {
  const auto cluster = read("device: RTX-4090\nnodes: 2\nnetwork: {nic_bandwidth: 25 Gbit/s}\n");
  ASSERT_TRUE(cluster) << errors_of(cluster);
  EXPECT_EQ(cluster->topology.nics_per_node, 8);
}

TEST_F(ClusterFile, AFileCanNameADeviceFileBesideIt) {
  const auto folder = std::filesystem::temp_directory_path() / "foreplan_cluster_file_test";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::string(FOREPLAN_SOURCE_DIR) + "/scenarios/devices/l4.yaml",
                             folder / "own.yaml",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "c.yaml") << "device: own.yaml\nnodes: 1\n";
  std::ofstream(folder / "self.yaml") << "device: self.yaml\nnodes: 1\n";
  std::ofstream(folder / "text.yaml") << "text.yaml\n";
  const auto cluster = find_cluster((folder / "c.yaml").string());
  const auto counted = find_cluster("1x2x" + (folder / "own.yaml").string());
  const auto itself = find_cluster((folder / "self.yaml").string());
  const auto text = find_cluster((folder / "text.yaml").string());
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(cluster) << errors_of(cluster);
  EXPECT_EQ(cluster->device.name, "L4");
  EXPECT_EQ(cluster->name, "c") << "a file's stem names it";
  ASSERT_TRUE(counted) << errors_of(counted);
  EXPECT_EQ(counted->devices(), 2);
  EXPECT_THAT(errors_of(itself), HasSubstr("nodes")) << "a cluster is not a device";
  EXPECT_THAT(errors_of(text), HasSubstr("must be a cluster, a mapping")) << "and does not loop";
}

// ---- what-ifs ---------------------------------------------------------------------------------

TEST_F(ClusterFile, AScaleMultipliesItsRatesOnlyAndIsToldEverywhere) {
  const ClusterSpec plain = found("8x8xH100");
  const auto cluster = read(R"(device: H100
nodes: 8
note: as built.
scale: {network_bandwidth: 50 %, scale_up_bandwidth: 200 %, memory_bandwidth: 150 %, compute: 110 %}
)");
  ASSERT_TRUE(cluster) << errors_of(cluster);
  EXPECT_DOUBLE_EQ(cluster->topology.nic_bandwidth.value, 25e9);
  EXPECT_DOUBLE_EQ(cluster->topology.scale_up_bandwidth.value, 900e9);
  EXPECT_DOUBLE_EQ(cluster->device.memory_bandwidth.value, 1.5 * 3350e9);
  EXPECT_DOUBLE_EQ(cluster->device.peak_bf16->value, 1.1 * 989e12);
  EXPECT_DOUBLE_EQ(cluster->device.peak_fp8->value, 1.1 * 1979e12);
  EXPECT_FALSE(cluster->device.peak_fp4) << "a unit that is absent stays absent";
  EXPECT_EQ(cluster->device.scale_up_bandwidth, plain.device.scale_up_bandwidth);
  EXPECT_EQ(cluster->topology.nic_latency, plain.topology.nic_latency);
  EXPECT_EQ(cluster->device.memory, plain.device.memory);
  for (const std::string& told : {cluster->name, cluster->note}) {
    EXPECT_THAT(told, HasSubstr("network_bandwidth 50 %, scale_up_bandwidth 200 %, "
                                "memory_bandwidth 150 %, compute 110 %"));
  }
  EXPECT_THAT(cluster->name, HasSubstr("8x8xH100-SXM5-80GB ("));
  EXPECT_THAT(cluster->note, HasSubstr("as built."));
}

TEST_F(ClusterFile, AScaleOfOneHundredPercentChangesNothing) {
  const auto cluster = read("device: H100\nnodes: 8\nscale: {compute: 100 %}\n");
  ASSERT_TRUE(cluster) << errors_of(cluster);
  EXPECT_EQ(cluster->name, "8x8xH100-SXM5-80GB");
  EXPECT_EQ(cluster->note, "");
}

TEST_F(ClusterFile, ScalesMultiply) {
  const ClusterSpec plain = found("8x8xH100");
  const ClusterSpec twice =
      apply_scale(apply_scale(plain, {.network_bandwidth = 2}), {.network_bandwidth = 2});
  const ClusterSpec once = apply_scale(plain, {.network_bandwidth = 4});
  EXPECT_EQ(twice.topology.nic_bandwidth, once.topology.nic_bandwidth);
}

// ---- mistakes ---------------------------------------------------------------------------------

struct Mistake {
  const char* name;
  const char* text;
  const char* message;
  int errors = 1;
};

constexpr Mistake kMistakes[] = {
    {"NoDevice", "nodes: 2\n", "device"},
    {"NoNodes", "device: H100\n", "nodes"},
    {"DeviceIsANumber", "device: 4090\nnodes: 1\n", "quotes"},
    {"DeviceIsAList", "device: [H100]\nnodes: 1\n", "text"},
    {"DeviceIsEmpty", "device: ''\nnodes: 1\n", "unknown device \"\""},
    {"UnknownDevice", "device: H10O\nnodes: 1\n", "did you mean H100?"},
    {"UnknownKey", "device: H100\nnode: 1\nnodes: 1\n", "did you mean nodes?"},
    {"UnknownNetworkKey", "device: H100\nnodes: 2\nnetwork: {nics: 8}\n", "nics"},
    {"ZeroNodes", "device: H100\nnodes: 0\n", "from 1 to 1000000"},
    {"NegativeNodes", "device: H100\nnodes: -4\n", "from 1 to 1000000"},
    {"FractionalNodes", "device: H100\nnodes: 1.5\n", "integer"},
    {"NanNodes", "device: H100\nnodes: .nan\n", "integer"},
    {"TooManyDevices", "device: H100\nnodes: 200000\n", "at most 1000000 devices"},
    {"MissingUnit", "device: H100\nnodes: 2\nnetwork: {nic_bandwidth: 400}\n", "nic_bandwidth"},
    {"WrongUnit", "device: H100\nnodes: 2\nnetwork: {nic_bandwidth: 400 GB}\n", "nic_bandwidth"},
    {"ZeroRate", "device: H100\nnodes: 2\nnetwork: {nic_bandwidth: 0 Gbit/s}\n", "more than 0"},
    {"HugeRate", "device: H100\nnodes: 2\nnetwork: {nic_bandwidth: 1e9 GB/s}\n", "beyond any"},
    {"NoNics", "device: H100\nnodes: 2\nnetwork: {nics_per_node: 0}\n", "from 1 to 1024"},
    {"SlowNetwork", "device: H100\nnodes: 2\nnetwork: {latency: 3 min}\n", "latency"},
    {"NetworkIsText", "device: H100\nnodes: 2\nnetwork: fast\n", "mapping"},
    {"ScaleUpIsText", "device: H100\nnodes: 2\nscale_up: fast\n", "mapping"},
    {"NoNetwork", "device: L4\nnodes: 2\n", "L4 has no typical network"},
    {"PodsMissing", "device: H100\nnodes: 2\nnetwork: {oversubscription: 7}\n", "nodes_per_pod"},
    {"RatioBelowOne", "device: H100\nnodes: 2\nnetwork: {oversubscription: 0.5}\n", "from 1"},
    {"DomainTooLarge", "device: H100\nnodes: 2\nscale_up: {size: 32}\n", "larger than the cluster"},
    {"DomainDoesNotTile", "device: H100\nnodes: 2\nscale_up: {size: 3}\n", "does not fit nodes"},
    {"DomainCutsNodes", "device: H100\nnodes: 2\nscale_up: {size: 12}\n", "does not fit nodes"},
    {"SwitchedIsText", "device: H100\nnodes: 2\nscale_up: {switched: maybe}\n", "true"},
    {"ScaleIsZero", "device: H100\nnodes: 2\nscale: {compute: 0 %}\n", "above 0 %"},
    {"ScaleIsHuge", "device: H100\nnodes: 2\nscale: {compute: 1001 %}\n", "at most 1000 %"},
    {"ScaleIsAFraction", "device: H100\nnodes: 2\nscale: {compute: 0.5}\n", "compute"},
    {"ScaleIsNegative", "device: H100\nnodes: 2\nscale: {compute: -5 %}\n", "compute"},
    {"ScaleUnknown", "device: H100\nnodes: 2\nscale: {network: 50 %}\n", "network"},
    {"ScaleIsANumber", "device: H100\nnodes: 2\nscale: 2\n", "mapping"},
    {"List", "- device: H100\n", "must be a cluster, a mapping"},
    {"KeyTwice", "device: H100\nnodes: 2\nnodes: 3\n", "nodes"},
    {"Alias", "device: &a [*a]\nnodes: 2\n", "part of"},
    {"AllInOneGo", "device: H10O\nnodes: 0\nscale: {compute: 0 %}\n", "above 0 %", 3},
};

class ClusterMistake : public ClusterFile, public ::testing::WithParamInterface<Mistake> {};

TEST_P(ClusterMistake, IsToldOnceWithItsPlace) {
  const auto cluster = read(GetParam().text);
  const std::string text = errors_of(cluster);
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_THAT(text, HasSubstr("c.yaml:"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), GetParam().errors) << text;
}

INSTANTIATE_TEST_SUITE_P(All, ClusterMistake, ::testing::ValuesIn(kMistakes),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(ClusterFile, AScaleOfOneThousandPercentIsTheMost) {
  EXPECT_TRUE(read("device: H100\nnodes: 2\nscale: {compute: 1000 %}\n"));
}

}  // namespace
}  // namespace foreplan::scenarios
