// The host target: what it reads from the system, how it names itself, what it refuses, and that
// its clock sees work.

#include "harness/targets/host/cpu_facts.hpp"
#include "harness/targets/host/host_kind.hpp"
#include "harness/targets/host/launcher.hpp"
#include "scenarios/device_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

namespace foreplan::harness {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A folder that looks like the root of a system; removed at the end.
class MadeUpRoot {
 public:
  MadeUpRoot() {
    std::string name = (fs::temp_directory_path() / "foreplan-root-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~MadeUpRoot() { fs::remove_all(path_); }
  MadeUpRoot(const MadeUpRoot&) = delete;
  MadeUpRoot& operator=(const MadeUpRoot&) = delete;
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(CpuFacts, AreReadFromTheSystemsFiles) {
  const MadeUpRoot root;
  root.write(
      "proc/cpuinfo",
      "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"
      "cpu MHz\t\t: 2450.000\n\nprocessor\t: 1\nvendor_id\t: AuthenticAMD\n");
  root.write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    400 kB\n");
  const std::string cache = "sys/devices/system/cpu/cpu0/cache/";
  root.write(cache + "index0/level", "1\n");
  root.write(cache + "index1/level", "2\n");
  root.write(cache + "index1/size", "512K\n");
  root.write(cache + "index2/level", "3\n");
  root.write(cache + "index2/size", "32M\n");
  root.write(cache + "index2/shared_cpu_list", "0-7,64-71\n");
  root.write("sys/devices/system/node/online", "0-1\n");
  root.write("sys/devices/system/cpu/cpufreq/boost", "1\n");
  const CpuFacts facts = read_cpu_facts(root.path());
  EXPECT_EQ(facts.vendor, "AuthenticAMD");
  EXPECT_EQ(facts.model, "AMD EPYC 7763 64-Core Processor");
  EXPECT_EQ(facts.cpus, 2);
  EXPECT_DOUBLE_EQ(facts.clock_hz, 2.45e9);
  EXPECT_EQ(facts.private_cache_bytes, kMiB / 2);
  EXPECT_EQ(facts.shared_cache_bytes, 32 * kMiB);
  EXPECT_EQ(facts.cpus_sharing_cache, 16);
  EXPECT_EQ(facts.numa_nodes, 2);
  EXPECT_EQ(facts.memory_bytes, 1000 * 1024);
  EXPECT_EQ(facts.turbo, true);
  EXPECT_EQ(available_memory(root.path()), 400 * 1024);
}

TEST(CpuFacts, AreUnknownWhereTheSystemSaysNothing) {
  const MadeUpRoot root;
  const CpuFacts facts = read_cpu_facts(root.path());
  EXPECT_EQ(facts.cpus, 0);
  EXPECT_EQ(facts.private_cache_bytes, 0);
  EXPECT_EQ(facts.turbo, std::nullopt);
  EXPECT_EQ(available_memory(root.path()), std::nullopt);
  EXPECT_EQ(cold_bytes(facts, 1), kLeastColdBytes);
}

TEST(CpuFacts, GiveAModelAShortName) {
  EXPECT_EQ(short_model("Intel(R) Xeon(R) Platinum 8480+"), "intel-xeon-platinum-8480+");
  EXPECT_EQ(short_model("Intel(R) Core(TM) i7-1185G7 CPU @ 3.00GHz"), "intel-i7-1185g7");
  EXPECT_EQ(short_model("AMD EPYC 7763 64-Core Processor"), "amd-epyc-7763");
  EXPECT_EQ(short_model("AMD Ryzen 7 5800U with Radeon Graphics"), "amd-ryzen-7-5800u");
  EXPECT_EQ(short_model(""), "cpu");
}

TEST(CpuFacts, ColdBuffersAreTwiceTheCachesWithinBounds) {
  CpuFacts facts;
  facts.private_cache_bytes = 2 * kMiB;
  facts.shared_cache_bytes = 32 * kMiB;
  facts.cpus_sharing_cache = 8;
  EXPECT_EQ(cold_bytes(facts, 4),
            2 * (8 + 16) * kMiB);  // four private caches and half of the shared one
  EXPECT_EQ(cold_bytes(facts, 1), kLeastColdBytes);  // 12 MiB is less
  facts.shared_cache_bytes = 4096 * kMiB;
  EXPECT_EQ(cold_bytes(facts, 4), kMostColdBytes);
}

TEST(Launcher, TorchrunIsRefusedWithWhatToUseInstead) {
  const auto joined = join_ranks({.world_size = 2, .launcher = "torchrun"});
  ASSERT_FALSE(joined);
  EXPECT_THAT(to_text(joined.error()), testing::HasSubstr("mpirun"));
}

class Host : public testing::Test {
 protected:
  void SetUp() override {
    const Availability there = host_kind().look();
    if (!there.usable) GTEST_SKIP() << there.reason;
  }
  static Result<std::unique_ptr<Target>> make(std::map<std::string, std::string> settings) {
    return host_kind().make(
        {.device_name = {}, .seed = 1, .clock = nullptr, .settings = std::move(settings)});
  }
  static Point copy_of(std::int64_t rows) {
    Point point;
    point.question = kernels::Question{.op = "copy",
                                       .pass = Pass::forward,
                                       .shape = RowShape{rows, 1024},
                                       .input = DType::fp32,
                                       .output = DType::fp32,
                                       .parameters = {}};
    return point;
  }
};

TEST_F(Host, NamesItselfByProcessorAndThreads) {
  const auto target = make({{"threads", "3"}});
  ASSERT_TRUE(target) << to_text(target.error());
  const std::string name = (*target)->device();
  EXPECT_TRUE(name.starts_with("host-")) << name;
  EXPECT_TRUE(name.ends_with("-3t")) << name;
}

TEST_F(Host, ReportsEveryMistakeInItsSettings) {
  const auto target = make({{"threads", "0"}, {"priority", "high"}, {"colour", "blue"}});
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().size(), 3U);
}

TEST_F(Host, SaysWhyALoneProcessMeasuresNoCollectives) {
  const auto target = make({{"threads", "1"}});
  ASSERT_TRUE(target);
  Point point;
  point.question = CollectivePoint{.kind = CollectiveKind::all_reduce, .size_bytes = 1024};
  const auto ready = (*target)->prepare(point);
  ASSERT_FALSE(ready);
  EXPECT_THAT(to_text(ready.error()), testing::HasSubstr("mpirun"));
}

TEST_F(Host, RefusesWhatDoesNotFitIntoMemory) {
  const auto target = make({{"threads", "1"}});
  ASSERT_TRUE(target);
  const auto ready = (*target)->prepare(copy_of(std::int64_t{1} << 29));  // 2 x 2 TiB
  ASSERT_FALSE(ready);
  EXPECT_THAT(to_text(ready.error()), testing::HasSubstr("GiB"));
}

TEST_F(Host, CountsTheWorkOfACopy) {
  const auto target = make({{"threads", "1"}});
  ASSERT_TRUE(target);
  const auto ready = (*target)->prepare(copy_of(16));
  ASSERT_TRUE(ready);
  EXPECT_EQ((*ready)->work().read, Bytes{65536});
  EXPECT_EQ((*ready)->work().written, Bytes{65536});
  EXPECT_GT((*ready)->run(3), Seconds{0});
}

TEST_F(Host, ComparesLargePointsAtASmallerSizeOfTheSameKind) {
  const auto target = make({{"threads", "1"}});
  ASSERT_TRUE(target);
  Point point;
  // 2e10 steps of the reference would take minutes.
  point.question = kernels::Question{.op = "gemm",
                                     .pass = Pass::forward,
                                     .shape = GemmShape{4096, 2048, 2400, 1},
                                     .input = DType::fp32,
                                     .output = DType::fp32,
                                     .parameters = {}};
  auto ready = (*target)->prepare(point);
  ASSERT_TRUE(ready);
  EXPECT_TRUE((*ready)->check().right);
}

TEST_F(Host, DescribesItselfInAFileThatTheCatalogueReads) {
  const MadeUpRoot folder;
  const auto target = make({{"threads", "1"}, {"describe", folder.path().string()}});
  ASSERT_TRUE(target) << to_text(target.error());
  const auto device = scenarios::read_device(folder.path() / ((*target)->device() + ".yaml"));
  ASSERT_TRUE(device) << to_text(device.error());
  EXPECT_EQ(device->name, (*target)->device());
  EXPECT_EQ(device->sm_count, 1);
}

}  // namespace
}  // namespace foreplan::harness
