#pragma once
// What one run of nccl-tests says about all its rows, in whichever format it was written.

#include "results/measurement.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace foreplan::results {

class ImportSink;

struct NcclRun {
  std::string operation;  ///< as the program's name has it: "all_reduce"
  std::string device;     ///< as the driver names it, or empty
  std::string library_version, date;
  std::int64_t ngpus = 0, nodes = 1;
};

/// One half of a row of nccl-tests, as texts: times in microseconds, bandwidths in 1e9 B/s.
struct NcclTiming {
  std::string_view bytes, dtype, time_us, algbw, busbw, wrong;
  bool inplace = false;
};

/// Hands the timing to the sink, or the reason why it cannot be used.
void add_nccl_timing(const NcclRun& run, const NcclTiming& timing, int line, ImportSink& sink);

/// "all_reduce_perf" and "/opt/build/all_reduce_perf_mpi" are "all_reduce"; empty when `text` names
/// no program of nccl-tests.
[[nodiscard]] std::string nccl_operation(std::string_view text);

/// "2.27.8" of NCCL_VERSION_CODE 22708, and "2.8.4" of 2804, the form before 2.9.
[[nodiscard]] std::string nccl_version(int code);

/// Catalogue name of a device as its driver reports it ("NVIDIA H100 80GB HBM3"), the text itself
/// without the vendor's name where the table has no entry.
[[nodiscard]] std::string device_of_driver_name(std::string_view text);

}  // namespace foreplan::results
