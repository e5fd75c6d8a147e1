// The measurements that come with the program: as many as their description says, each with a
// source that is described, each held against the data sheets once more.

#include "results/import/import.hpp"
#include "results/measurement_fields.hpp"
#include "results/measurement_file.hpp"
#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>

namespace foreplan::results {
namespace {

using testing_rows::contents;
using testing_rows::fs::path;

const path kFolder = path{FOREPLAN_SOURCE_DIR} / "results" / "calibration";

/// "| gemm.fpm | 26,249 | ..." in the description.
std::size_t described_rows(const std::string& file) {
  std::istringstream lines(contents(kFolder / "README.md"));
  for (std::string line; std::getline(lines, line);) {
    const std::string start = "| " + file + " | ";
    if (!line.starts_with(start)) continue;
    std::string digits;
    for (const char c : line.substr(start.size(), line.find('|', start.size()) - start.size())) {
      if (c >= '0' && c <= '9') digits += c;
    }
    return std::stoul(digits);
  }
  ADD_FAILURE() << file << " is not described";
  return 0;
}

TEST(ShippedMeasurements, AreAsManyAsTheirDescriptionSays) {
  for (const auto kind : texts(MeasurementKind{})) {
    const std::string file = std::string{kind} + ".fpm";
    const auto set = read_measurement_file(kFolder / file);
    ASSERT_TRUE(set) << to_text(set.error());
    EXPECT_EQ(set->size(), described_rows(file)) << file;
    EXPECT_LT(std::filesystem::file_size(kFolder / file), 3u << 20) << file;
  }
}

TEST(ShippedMeasurements, AreWrittenAsTheProgramWritesThem) {
  for (std::size_t i = 0; i < texts(MeasurementKind{}).size(); ++i) {
    const auto kind = static_cast<MeasurementKind>(i);
    const path file = kFolder / (std::string{name(kind)} + ".fpm");
    const auto set = read_measurement_file(file);
    ASSERT_TRUE(set) << to_text(set.error());
    EXPECT_TRUE(measurement_file_text(*set, kind) == contents(file)) << file;
  }
}

TEST(ShippedMeasurements, NameASourceThatIsDescribedAndADeviceOfTheCatalogue) {
  const auto sources = read_sources(kFolder / "sources.yaml");
  ASSERT_TRUE(sources) << to_text(sources.error());
  std::set<std::string> used;
  for (std::size_t i = 0; i < texts(MeasurementKind{}).size(); ++i) {
    const auto set = read_measurement_file(
        kFolder / (std::string{name(static_cast<MeasurementKind>(i))} + ".fpm"));
    ASSERT_TRUE(set) << to_text(set.error());
    for (const MeasurementOrigin& origin : set->origins) {
      ASSERT_TRUE(sources->contains(origin.source)) << origin.source;
      EXPECT_EQ(origin.licence, sources->at(origin.source).licence);
      used.insert(origin.source);
    }
  }
  EXPECT_EQ(used.size(), sources->size()) << "a source is described and nothing comes from it";
}

TEST(ShippedMeasurements, PassTheChecksOfTheImportAgain) {
  std::vector<std::string> arguments = {"import", "--to", "again", "--json"};
  for (const auto kind : texts(MeasurementKind{}))
    arguments.push_back((kFolder / (std::string{kind} + ".fpm")).string());
  const testing_rows::TemporaryFolder folder;
  const auto got = testing_program::run_program({.arguments = arguments, .folder = folder.path()});
  ASSERT_EQ(got.exit_code, 0) << got.err;
  for (const auto& file : nlohmann::json::parse(got.out)) {
    EXPECT_EQ(file["rejected"].size(), 0u) << file["file"];
    EXPECT_EQ(file["duplicates"], 0) << file["file"];
  }
  for (const auto kind : texts(MeasurementKind{})) {
    const std::string file = std::string{kind} + ".fpm";
    EXPECT_TRUE(contents(folder.path() / "again" / file) == contents(kFolder / file)) << file;
  }
}

}  // namespace
}  // namespace foreplan::results
