#pragma once
// A run as somebody made it: the job, the plan, the framework, and what was measured.

#include "scenarios/scenario.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::scenarios {

/// What a source calls peak memory; the four kinds that published tables use.
enum class MemoryDefinition : std::uint8_t {
  allocated,            ///< torch max_memory_allocated, busiest rank
  allocated_last_rank,  ///< the same, of the last pipeline rank only
  reserved,             ///< torch max_memory_reserved, busiest rank
  device,               ///< nvidia-smi: with CUDA context and communication buffers
};
inline constexpr std::string_view kMemoryDefinitionNames[] = {"allocated", "allocated_last_rank",
                                                              "reserved", "device"};

/// What happened.
struct RunOutcome {
  std::optional<double> step_time_s;
  std::optional<double> peak_bytes;
  MemoryDefinition memory = MemoryDefinition::allocated;
  bool out_of_memory = false;  ///< it ended so; `peak_bytes` is then what it had
  bool fitted = false;         ///< it ran, and whether it would was the question
};

struct Run {
  std::string id, source;
  int line = 0;         ///< in its file
  std::string problem;  ///< equal for runs of one model, machine and batch: planner groups
  Scenario scenario;    ///< with `plan`
  std::vector<std::string> assumptions;  ///< what the row does not state
  RunOutcome measured;
};

/// A row that says too little, or asks for what foreplan does not model.
struct SkippedRun {
  std::string id, source, reason;
  int line = 0;
};

struct RunTable {
  std::string file, format;
  std::vector<Run> runs;
  std::vector<SkippedRun> skipped;
};

/// Reads a table of runs, whichever of the known formats its header names. Fails where the text is
/// none of them or broken as a whole; a row that cannot be used is in `skipped`.
[[nodiscard]] Result<RunTable> read_runs(std::string_view text, std::string file);

/// True if the header line is one that `read_runs` knows.
[[nodiscard]] bool is_run_table(std::string_view text);

}  // namespace foreplan::scenarios
