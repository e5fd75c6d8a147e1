#pragma once
// Collectives between processes over MPI, as a library that is loaded only where a launcher started
// several ranks: a program that is linked to MPI does not start where there is none.

#include "harness/point.hpp"
#include "harness/target.hpp"

#include <memory>
#include <string>

namespace foreplan::harness {

/// The ranks of MPI_COMM_WORLD, and collectives over groups of them.
class MessagePassing : public RankGroup {
 public:
  /// "Open MPI v4.1.4"
  [[nodiscard]] virtual std::string library_version() const = 0;
  /// Called by all ranks together. Fails, in words, for types and sizes that cannot be sent.
  [[nodiscard]] virtual Result<std::unique_ptr<Runnable>> prepare(const CollectivePoint& point) = 0;
};

/// What the library exports, with C linkage. `open` starts MPI, once a process; null and `failure`
/// where that fails. The last owner of what it returns ends MPI.
using OpenMessagePassing = MessagePassing* (*)(std::string& failure);
inline constexpr const char* kOpenMessagePassing = "foreplan_open_message_passing";
/// Version of the MPI library, without starting it.
using MessagePassingVersion = const char* (*)();
inline constexpr const char* kMessagePassingVersion = "foreplan_message_passing_version";

inline constexpr const char* kMessagePassingLibrary = "libforeplan_mpi.so";

}  // namespace foreplan::harness
