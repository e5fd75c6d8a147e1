#pragma once
// The formats of import_formats(); one source file each.

#include "results/import/import.hpp"

namespace foreplan::results {

[[nodiscard]] ImportFormat csv_format();               ///< csv.cpp
[[nodiscard]] ImportFormat nccl_text_format();         ///< nccl_text.cpp
[[nodiscard]] ImportFormat nccl_json_format();         ///< nccl_json.cpp
[[nodiscard]] ImportFormat bench_lines_format();       ///< bench_lines.cpp
[[nodiscard]] ImportFormat google_benchmark_format();  ///< google_benchmark.cpp
[[nodiscard]] ImportFormat compact_format();           ///< compact.cpp

}  // namespace foreplan::results
