#pragma once
// Ranks that a launcher started, and the library through which they talk.

#include "harness/mpi/message_passing.hpp"
#include "harness/targets/target_kind.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace foreplan::harness {

/// What a launcher left in the environment.
struct Launch {
  std::string launcher;  ///< "mpirun", "srun", "torchrun"
  int ranks = 1;
};

/// Reads variables by `variable` (null = not set), std::getenv outside of tests. Empty for a
/// process that no launcher started, or that is the only one.
[[nodiscard]] std::optional<Launch> find_launch(
    const std::function<const char*(const char*)>& variable);

/// Joins the ranks. Fails, in words, where the launcher is not one of MPI's, or the library is
/// missing or does not start.
[[nodiscard]] Result<std::unique_ptr<MessagePassing>> join_ranks(const Launch& launch);

/// The library, loaded without starting MPI; with the loader's reason where it is not there.
[[nodiscard]] LoadedPart message_passing_part();

}  // namespace foreplan::harness
