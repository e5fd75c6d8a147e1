// Device files of one's own: found by name in the folder that FOREPLAN_DEVICES names.

#include "scenarios/device_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace foreplan::scenarios {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDevice = R"(name: My-Host-2T
aliases: []
vendor: V
architecture: CPU
sm_count: 2
boost_clock: 2.6 GHz
peaks:
  fp32: 0.2 TFLOP/s
memory: 16 GiB
memory_bandwidth: 20 GB/s
l2_cache: 2 MiB
pcie_bandwidth: 10 GB/s
power: 100 W
sources: ["measured here"]
)";

class OwnDevices : public ::testing::Test {
 protected:
  OwnDevices() {
    setenv("FOREPLAN_DATA", FOREPLAN_SOURCE_DIR, 0);
    folder_ =
        std::filesystem::temp_directory_path() / ("foreplan-own-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "my-host-2t.yaml") << kDevice;
  }
  ~OwnDevices() override {
    unsetenv("FOREPLAN_DEVICES");
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(OwnDevices, AreFoundByNameBesideTheShippedOnes) {
  setenv("FOREPLAN_DEVICES", folder_.c_str(), 1);
  const auto own = find_device("my_host 2t");
  ASSERT_TRUE(own) << to_text(own.error());
  EXPECT_EQ(own->name, "My-Host-2T");
  EXPECT_EQ(own->peak(DType::fp32)->value, 0.2e12);
  EXPECT_TRUE(find_device("H100-SXM5-80GB"));
  EXPECT_THAT(*device_names(), Contains("My-Host-2T"));
}

TEST_F(OwnDevices, AreUnknownWithoutTheVariable) {
  EXPECT_FALSE(find_device("My-Host-2T"));
  EXPECT_THAT(*device_names(), Not(Contains("My-Host-2T")));
}

TEST_F(OwnDevices, AFolderThatIsNotThereIsToldByName) {
  setenv("FOREPLAN_DEVICES", "/no/such/folder", 1);
  const auto device = find_device("My-Host-2T");
  ASSERT_FALSE(device);
  EXPECT_THAT(to_text(device.error()),
              HasSubstr("FOREPLAN_DEVICES is \"/no/such/folder\", which cannot be listed"));
}

}  // namespace
}  // namespace foreplan::scenarios
