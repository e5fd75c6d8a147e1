#pragma once
// Importing from texts and from the samples in tests/data/import, with three made-up data sheets.

#include "results/import/import.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace foreplan::results::testing_import {

/// H100 SXM5 and A100 PCIe by their data sheets, V100 with nothing but a name; "H100" is short.
inline Result<DeviceLimits> some_devices(std::string_view name) {
  const auto index = [](DType type) { return static_cast<std::size_t>(type); };
  DeviceLimits limits;
  if (name == "H100-SXM5-80GB" || name == "H100") {
    limits.name = "H100-SXM5-80GB";
    limits.short_name = name == "H100";
    limits.peak[index(DType::bf16)] = limits.peak[index(DType::fp16)] = FlopsPerSecond{989.5e12};
    limits.peak[index(DType::fp8_e4m3)] = FlopsPerSecond{1979e12};
    limits.peak[index(DType::fp32)] = FlopsPerSecond{67e12};
    limits.memory_bandwidth = BytesPerSecond{3.35e12};
    limits.cache = Bytes{50 * kMiB};
    limits.link = "NVLink4";
    limits.link_bandwidth = BytesPerSecond{450e9};
    return limits;
  }
  if (name == "A100-PCIE-80GB") {
    limits.name = name;
    limits.link = "PCIe4";
    limits.link_bandwidth = BytesPerSecond{32e9};
    return limits;
  }
  if (name == "V100-SXM2-32GB") {
    limits.name = name;
    return limits;
  }
  return fail("unknown device " + in_quotes(name) + ", did you mean \"H100-SXM5-80GB\"");
}

inline ImportOptions some_options() {
  return {.find_device = some_devices,
          .sources = {{"own-lab", {.licence = "CC0-1.0", .date = "2026-01-31"}}},
          .operation = {},
          .device = {}};
}

inline std::string sample(const std::string& name) {
  std::ifstream in(std::filesystem::path{FOREPLAN_SOURCE_DIR} / "tests/data/import" / name,
                   std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What came of a text: its report, or the errors that kept it from being read.
struct Outcome {
  FileReport report;
  MeasurementSet rows;
  std::string errors;
};

inline Outcome import_of(const std::string& text, const ImportOptions& options = some_options(),
                         const std::string& file = "rows.txt") {
  Outcome outcome;
  const auto report = import_text({text, file}, options, outcome.rows);
  if (report) {
    outcome.report = *report;
  } else {
    outcome.errors = to_text(report.error());
    if (outcome.errors.ends_with('\n')) outcome.errors.pop_back();
  }
  return outcome;
}

/// "line: reason" of each.
inline std::vector<std::string> texts_of(const std::vector<LineReport>& lines) {
  std::vector<std::string> texts;
  for (const LineReport& line : lines)
    texts.push_back(std::to_string(line.line) + ": " + line.reason);
  return texts;
}

/// A table of GEMM rows: the columns that it needs, and the given lines.
inline std::string gemm_table(const std::string& lines) {
  return "device,m,n,k,dtype_in,time_us,tflops\n" + lines;
}

}  // namespace foreplan::results::testing_import
