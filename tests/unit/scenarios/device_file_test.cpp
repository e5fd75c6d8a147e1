// Device files: the shipped catalogue against its sources, look-up by name, and what wrong files
// get.

#include "scenarios/device_file.hpp"

#include "core/data_directory.hpp"
#include "scenarios/lookup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace foreplan::scenarios {
namespace {

using ::testing::HasSubstr;

class DeviceFile : public ::testing::Test {
 protected:
  // The test program may be built outside the source tree.
  DeviceFile() { setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0); }

  static std::vector<std::filesystem::path> files() {
    return data_files("scenarios/devices", ".yaml").value();
  }
};

// A complete device; the tests of mistakes change one line of it.
constexpr std::string_view kDevice = R"(name: X1
aliases: [x]
vendor: V
architecture: A
sm_count: 10
boost_clock: 1000 MHz
peaks:
  bf16: 100 TFLOP/s
  fp8: 200 TFLOP/s
memory: 10 GB
memory_bandwidth: 1000 GB/s
l2_cache: 4 MiB
scale_up:
  link: L
  bandwidth: 100 GB/s
  switched: true
pcie_bandwidth: 32 GB/s
node:
  devices: 4
power: 300 W
sources:
  - a sheet
unconfirmed:
  - peaks.fp8
)";

/// kDevice with `line` replaced by `with`, read; the text of its errors, empty if there are none.
std::string errors_with(std::string_view line, std::string_view with) {
  std::string text{kDevice};
  const auto at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  text.replace(at, line.size(), with);
  const auto document = Document::parse_yaml(text, "x1.yaml");
  if (!document) return to_text(document.error());
  (void)read_device(document->root());
  return document->ok() ? "" : to_text(document->errors());
}

TEST_F(DeviceFile, EveryShippedFileReadsAndIsNamedLikeItsDevice) {
  ASSERT_GE(files().size(), 25u);
  for (const auto& file : files()) {
    const auto device = read_device(file);
    ASSERT_TRUE(device) << to_text(device.error());
    EXPECT_EQ(file.stem().string(), canonical_name(device->name));
    EXPECT_FALSE(device->sources.empty()) << device->name;
    EXPECT_GT(device->sm_count, 0);
    EXPECT_GT(device->scale_up_bandwidth.value, 0) << device->name;
  }
}

TEST_F(DeviceFile, NamesAndAliasesAreUniqueAndEachFindsItsDevice) {
  std::map<std::string, std::string> owner;
  for (const auto& file : files()) {
    const DeviceSpec device = read_device(file).value();
    std::vector<std::string> spellings = device.aliases;
    spellings.push_back(device.name);
    for (const auto& spelling : spellings) {
      const auto [it, is_new] = owner.emplace(canonical_name(spelling), device.name);
      EXPECT_TRUE(is_new) << spelling << " means both " << it->second << " and " << device.name;
      // Look-up reads only the head of the other files, so this compares it with the full reader.
      const auto found = find_device(spelling);
      ASSERT_TRUE(found) << to_text(found.error());
      EXPECT_EQ(found->name, device.name) << spelling;
    }
  }
}

TEST_F(DeviceFile, DeviceNamesListsTheFilesSorted) {
  const auto names = device_names().value();
  EXPECT_EQ(names.size(), files().size());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"V100-SXM2-32GB",
                           "V100-PCIE-32GB",
                           "A100-SXM4-40GB",
                           "A100-SXM4-80GB",
                           "A100-PCIE-40GB",
                           "A100-PCIE-80GB",
                           "A800-SXM4-80GB",
                           "H100-SXM5-80GB",
                           "H100-PCIE-80GB",
                           "H800-SXM5",
                           "H20",
                           "H200-SXM-141GB",
                           "GH200-144GB",
                           "B200-SXM",
                           "B300-SXM",
                           "GB200",
                           "GB300",
                           "L40S",
                           "L4",
                           "A40",
                           "RTX-4090",
                           "RTX-3090",
                           "MI300X",
                           "MI325X",
                           "MI355X"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
}

// Values typed from the public tables that the files name as sources (NVIDIA, AMD data sheets as
// collected by aiconfigurator 095f58a, ml-engineering 744d01e and NeuSight 6945927): dense peaks.
struct Sheet {
  const char* name;
  double bf16_tflops, fp8_tflops, memory_gb, memory_gbps, l2_mib, scale_up_gbps;
  int per_node;
  double nic_gbits, watts;
};

constexpr Sheet kSheets[] = {
    {"V100-SXM2-32GB", 0, 0, 32, 900, 6, 150, 8, 50, 300},
    {"A100-SXM4-40GB", 312, 0, 40, 1555, 40, 300, 8, 200, 400},
    {"A100-SXM4-80GB", 312, 0, 80, 2039, 40, 300, 8, 200, 400},
    {"H100-SXM5-80GB", 989, 1979, 80, 3350, 50, 450, 8, 400, 700},
    {"H100-PCIE-80GB", 756.5, 1513, 80, 2000, 50, 64, 8, 400, 350},
    {"H800-SXM5", 989, 1979, 80, 3350, 50, 200, 8, 400, 700},
    {"H200-SXM-141GB", 989, 1979, 141, 4800, 50, 450, 8, 400, 700},
    {"B200-SXM", 2250, 4500, 180, 7700, 126, 900, 8, 400, 1000},
    {"GB200", 2500, 5000, 186, 8000, 126, 900, 4, 400, 1200},
    {"L40S", 362, 733, 48, 864, 96, 32, 8, 400, 350},
    {"MI300X", 1307, 2610, 192, 5300, 32, 448, 8, 400, 750},
};

class ShippedDevice : public DeviceFile, public ::testing::WithParamInterface<Sheet> {};

TEST_P(ShippedDevice, HasTheValuesOfItsDataSheet) {
  const Sheet& sheet = GetParam();
  const auto found = find_device(sheet.name);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_DOUBLE_EQ(found->peak_bf16.value_or(FlopsPerSecond{}).value, sheet.bf16_tflops * 1e12);
  EXPECT_DOUBLE_EQ(found->peak_fp8.value_or(FlopsPerSecond{}).value, sheet.fp8_tflops * 1e12);
  EXPECT_DOUBLE_EQ(found->memory.value, sheet.memory_gb * 1e9);
  EXPECT_DOUBLE_EQ(found->memory_bandwidth.value, sheet.memory_gbps * 1e9);
  EXPECT_DOUBLE_EQ(found->l2_cache.value, sheet.l2_mib * kMiB);
  EXPECT_DOUBLE_EQ(found->scale_up_bandwidth.value, sheet.scale_up_gbps * 1e9);
  EXPECT_EQ(found->devices_per_node, sheet.per_node);
  EXPECT_DOUBLE_EQ(found->nic_bandwidth.value, sheet.nic_gbits * 1e9 / 8);
  EXPECT_DOUBLE_EQ(found->power_w, sheet.watts);
}

INSTANTIATE_TEST_SUITE_P(Sheets, ShippedDevice, ::testing::ValuesIn(kSheets), [](const auto& each) {
  std::string name = each.param.name;
  std::erase(name, '-');
  return name;
});

TEST_F(DeviceFile, AbsentTensorUnitsStayAbsent) {
  const DeviceSpec v100 = find_device("V100").value();
  EXPECT_FALSE(v100.peak_bf16 || v100.peak_fp8 || v100.peak_tf32 || v100.peak_fp4);
  EXPECT_DOUBLE_EQ(v100.peak_fp16.value().value, 125e12);
  EXPECT_DOUBLE_EQ(v100.boost_clock_hz, 1530e6);
}

TEST_F(DeviceFile, ShortNamesMeanTheCommonForm) {
  const std::pair<const char*, const char*> expected[] = {{"H100", "H100-SXM5-80GB"},
                                                          {"h100", "H100-SXM5-80GB"},
                                                          {"A100", "A100-SXM4-80GB"},
                                                          {"A100-40", "A100-SXM4-40GB"},
                                                          {"A100-80", "A100-SXM4-80GB"},
                                                          {"H200", "H200-SXM-141GB"},
                                                          {"B200", "B200-SXM"},
                                                          {"4090", "RTX-4090"},
                                                          {"rtx 4090", "RTX-4090"},
                                                          {"RTX4090", "RTX-4090"},
                                                          {"V100", "V100-SXM2-32GB"},
                                                          {"H800", "H800-SXM5"},
                                                          {"h100_sxm5_80gb", "H100-SXM5-80GB"}};
  for (const auto& [alias, name] : expected) {
    const auto found = find_device(alias);
    ASSERT_TRUE(found) << to_text(found.error());
    EXPECT_EQ(found->name, name) << alias;
  }
}

TEST_F(DeviceFile, ValuesFromMemoryAreMarked) {
  const DeviceSpec a800 = find_device("A800").value();
  EXPECT_DOUBLE_EQ(a800.scale_up_bandwidth.value, 200e9);
  EXPECT_THAT(a800.unconfirmed_fields, ::testing::Contains("scale_up.bandwidth"));
  // The source table confirms these two of the H20 and nothing else.
  const DeviceSpec h20 = find_device("H20").value();
  EXPECT_THAT(h20.unconfirmed_fields, ::testing::Not(::testing::Contains("memory_bandwidth")));
  EXPECT_THAT(h20.unconfirmed_fields, ::testing::Not(::testing::Contains("peaks.fp16")));
  EXPECT_THAT(h20.unconfirmed_fields, ::testing::Contains("peaks.bf16"));
}

TEST_F(DeviceFile, VisibleMemoryOfAnEightyGigabytePartIsAboutEightyGibibytes) {
  // vllm issue 27508: "GPU 0 has a total capacity of 79.11 GiB" on an H100 80GB HBM3.
  EXPECT_DOUBLE_EQ(find_device("H100").value().visible_memory.value, 79.11 * kGiB);
  EXPECT_EQ(find_device("L4").value().visible_memory.value, 0) << "not known";
}

TEST_F(DeviceFile, ScaleUpDomainsFollowTheHardware) {
  EXPECT_EQ(find_device("GB200").value().scale_up_size, 72);
  EXPECT_TRUE(find_device("GB200").value().scale_up_switched);
  EXPECT_EQ(find_device("A40").value().scale_up_size, 2);
  EXPECT_FALSE(find_device("MI300X").value().scale_up_switched);
  EXPECT_FALSE(find_device("RTX-4090").value().scale_up_switched);
  EXPECT_TRUE(find_device("H100").value().scale_up_switched);
  // No scale_up key: PCIe at the host link's rate.
  const DeviceSpec t4 = find_device("T4").value();
  EXPECT_EQ(t4.scale_up_link, "PCIe");
  EXPECT_EQ(t4.scale_up_bandwidth, t4.pcie_bandwidth);
  EXPECT_EQ(t4.scale_up_size, t4.devices_per_node);
}

TEST_F(DeviceFile, AFileIsFoundByPathAndBesideTheFileThatNamesIt) {
  const auto folder = std::filesystem::temp_directory_path() / "foreplan_device_file_test";
  std::filesystem::create_directories(folder);
  // Another layout than the shipped one: aliases over several lines.
  std::ofstream(folder / "mine.yaml") << kDevice;
  const auto by_path = find_device((folder / "mine.yaml").string());
  ASSERT_TRUE(by_path) << to_text(by_path.error());
  EXPECT_EQ(by_path->name, "X1");
  EXPECT_EQ(by_path->devices_per_node, 4);
  EXPECT_EQ(by_path->scale_up_size, 4) << "defaults to the node";
  const auto beside = find_device("mine.yaml", {.file = (folder / "scenario.yaml").string()});
  ASSERT_TRUE(beside) << to_text(beside.error());
  EXPECT_EQ(beside->name, "X1");
  std::filesystem::remove_all(folder);
}

TEST_F(DeviceFile, ACatalogueEntryInAnotherLayoutIsFoundToo) {
  const auto root = std::filesystem::temp_directory_path() / "foreplan_device_catalogue_test";
  std::filesystem::create_directories(root / "scenarios/devices");
  std::string text{kDevice};
  const std::string line = "aliases: [x]";
  text.replace(text.find(line), line.size(), "aliases:\n  - x\n  - y");
  std::ofstream(root / "scenarios/devices/x1.yaml") << "# a comment first\n" << text;
  const std::string before = std::getenv("FOREPLAN_DATA");
  setenv("FOREPLAN_DATA", root.c_str(), 1);
  const auto found = find_device("Y");
  setenv("FOREPLAN_DATA", before.c_str(), 1);
  std::filesystem::remove_all(root);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->name, "X1");
}

TEST_F(DeviceFile, AnUnknownNameIsToldWithTheNearestAndWithItsPlace) {
  const Place place{.file = "s.yaml", .line = 7, .column = 9, .key = "device"};
  const auto found = find_device("H10O", place);
  ASSERT_FALSE(found);
  const std::string text = to_text(found.error());
  EXPECT_THAT(text, HasSubstr("s.yaml:7:9 device: unknown device \"H10O\""));
  EXPECT_THAT(text, HasSubstr("did you mean H100?"));
  EXPECT_THAT(text, HasSubstr("RTX-4090"));
  EXPECT_THAT(to_text(find_device("").error()), HasSubstr("unknown device \"\""));
}

TEST_F(DeviceFile, MissingFilesAndFoldersAreErrorsNotCrashes) {
  const auto missing = find_device("no/such/device.yaml");
  EXPECT_THAT(to_text(missing.error()), HasSubstr("no/such/device.yaml"));
  EXPECT_FALSE(find_device(std::string(FOREPLAN_SOURCE_DIR) + "/scenarios/"));
}

TEST(DeviceMistakes, TheUnchangedDeviceHasNone) {
  EXPECT_EQ(errors_with("name: X1", "name: X1"), "");
}

struct Mistake {
  const char* name;
  const char* line;  ///< of kDevice
  const char* with;
  const char* message;
};

constexpr Mistake kMistakes[] = {
    {"UnknownKey", "l2_cache:", "l2_cash:", "l2_cache"},
    {"UnknownPeak", "  fp8:", "  fp7:", "fp7"},
    {"MissingUnit", "memory: 10 GB", "memory: 10", "memory"},
    {"WrongUnit", "memory: 10 GB", "memory: 10 GB/s", "memory"},
    {"NegativeMemory", "memory: 10 GB", "memory: -10 GB", "memory"},
    {"ZeroBandwidth", "memory_bandwidth: 1000 GB/s", "memory_bandwidth: 0 GB/s", "more than 0"},
    {"NanBandwidth", "memory_bandwidth: 1000 GB/s", "memory_bandwidth: nan GB/s",
     "memory_bandwidth: \"nan GB/s\""},
    {"HugeBandwidth", "memory_bandwidth: 1000 GB/s", "memory_bandwidth: 1000000000 GB/s",
     "beyond any machine"},
    {"HugePeak", "fp8: 200 TFLOP/s", "fp8: 1e8 TFLOP/s", "beyond any machine"},
    {"ZeroUnits", "sm_count: 10", "sm_count: 0", "from 1 to 4096"},
    {"FractionalUnits", "sm_count: 10", "sm_count: 10.5", "integer"},
    {"PowerWithoutUnit", "power: 300 W", "power: 300", "700 W"},
    {"PowerInKilowatt", "power: 300 W", "power: 0.3 kW", "700 W"},
    {"ZeroPower", "power: 300 W", "power: 0 W", "700 W"},
    {"Fp8SlowerThanBf16", "fp8: 200 TFLOP/s", "fp8: 50 TFLOP/s", "below the bf16 peak"},
    {"UnconfirmedNamesNoKey", "  - peaks.fp8", "  - peaks.fp6", "\"peaks.fp6\" is not a key"},
    {"SourcesMissing", "sources:\n  - a sheet\n", "", "sources"},
    {"SourcesEmpty", "sources:\n  - a sheet", "sources: []", "at least one source"},
    {"PeaksIsText", "peaks:\n  bf16: 100 TFLOP/s\n  fp8: 200 TFLOP/s", "peaks: fast", "mapping"},
    {"NodeIsList", "node:\n  devices: 4", "node: [4]", "mapping"},
    {"ScaleUpWithoutRate", "  bandwidth: 100 GB/s\n", "", "bandwidth"},
    {"SwitchedIsText", "switched: true", "switched: yes", "true"},
    {"VisibleTooLarge", "l2_cache: 4 MiB", "l2_cache: 4 MiB\nvisible_memory: 20 GB", "110 %"},
    {"FastClock", "boost_clock: 1000 MHz", "boost_clock: 1000 GHz", "100 GHz"},
    {"NameTwice", "vendor: V", "vendor: V\nvendor: W", "vendor"},
};

class DeviceMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(DeviceMistake, IsToldOnceWithFileAndLine) {
  const Mistake& mistake = GetParam();
  const std::string text = errors_with(mistake.line, mistake.with);
  EXPECT_THAT(text, HasSubstr(mistake.message));
  EXPECT_THAT(text, HasSubstr("x1.yaml:"));
  // A peak under a wrong key also makes `unconfirmed` point to nothing: two lines, both true.
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const std::string name = mistake.name;
  EXPECT_EQ(lines, name == "UnknownKey" || name == "UnknownPeak" || name == "PeaksIsText" ? 2 : 1)
      << text;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceMistake, ::testing::ValuesIn(kMistakes),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(DeviceMistakes, AreToldAllInOneGo) {
  const std::string text =
      errors_with("sm_count: 10\nboost_clock: 1000 MHz", "sm_count: none\nboost_clock: fast");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(DeviceMistakes, AFileThatIsNotAMappingIsTold) {
  for (const char* text : {"- a\n", "H100\n", "12\n"}) {
    const auto document = Document::parse_yaml(text, "x1.yaml").value();
    (void)read_device(document.root());
    EXPECT_THAT(to_text(document.errors()), HasSubstr("must be a device, a mapping")) << text;
  }
}

}  // namespace
}  // namespace foreplan::scenarios
