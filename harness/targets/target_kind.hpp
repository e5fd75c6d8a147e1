#pragma once
// A kind of machine as the program chooses one: a name, whether it is there, how to get it.

#include "core/result.hpp"
#include "harness/measuring/sampling.hpp"
#include "harness/session/nominal.hpp"
#include "harness/standard.hpp"
#include "harness/target.hpp"
#include "results/bench_rows.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::harness {

/// A library or driver that a target loads at run time.
struct LoadedPart {
  std::string name;
  std::string version;  ///< empty = it is not there
  std::string reason;   ///< what is missing, in the loader's words
};

/// Whether this machine has what the target needs.
struct Availability {
  bool usable = false;
  std::string reason;  ///< why not, in one sentence
  std::vector<LoadedPart> parts;
};

/// What a target is made from. `settings` are those behind the name, `host:threads=2`.
struct TargetRequest {
  std::string device_name;  ///< empty = what the machine says
  std::uint64_t seed = 0;   ///< of the data
  Clock* clock = nullptr;
  std::map<std::string, std::string> settings;
};

/// One line of the registry.
struct TargetKind {
  std::string_view name, summary;
  std::string_view settings;  ///< "threads=N", for help; empty = none
  bool automatic = true;      ///< `auto` may choose it; the first usable one is taken
  results::BenchOrigin origin = results::BenchOrigin::measured;
  NominalSpeed speed;
  StandardScope scope;
  Rules rules{};  ///< when a point is done, where nothing else is asked
  Availability (*look)();
  /// Fails for settings that it does not know; throws std::runtime_error where the machine fails.
  Result<std::unique_ptr<Target>> (*make)(const TargetRequest& request);
};

/// All kinds, in the order in which `auto` tries them.
[[nodiscard]] std::span<const TargetKind> target_kinds();

/// A kind as a person names it: "cuda", "auto", "synthetic:noise=0.02,seed=7".
struct ChosenTarget {
  const TargetKind* kind = nullptr;  ///< null: `auto`, and none is usable
  std::map<std::string, std::string> settings;
};
[[nodiscard]] Result<ChosenTarget> choose_target(std::string_view text);

}  // namespace foreplan::harness
