#pragma once
// Ranks that a launcher started, and the library through which they talk.

#include "harness/launch/rank_environment.hpp"
#include "harness/mpi/message_passing.hpp"
#include "harness/targets/target_kind.hpp"

#include <memory>

namespace foreplan::harness {

/// Joins the ranks of which this process is one. Where they outnumber the processors they are asked
/// to yield while they wait. Fails, in words, where the launcher is not one of MPI's, or the
/// library is missing or does not start.
[[nodiscard]] Result<std::unique_ptr<MessagePassing>> join_ranks(const RankPlace& place);

/// The library, loaded without starting MPI; with the loader's reason where it is not there.
[[nodiscard]] LoadedPart message_passing_part();

}  // namespace foreplan::harness
