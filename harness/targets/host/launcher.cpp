#include "harness/targets/host/launcher.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace foreplan::harness {
namespace {

/// The loaded library, or its reason. Looked for beside the program, in ../lib, then by the loader.
struct Loaded {
  void* handle = nullptr;
  std::string reason;
};
Loaded load() {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path places[] = {folder / kMessagePassingLibrary,
                                          folder / "../lib" / kMessagePassingLibrary,
                                          kMessagePassingLibrary};
  Loaded loaded;
  for (const auto& place : places) {
    if (place.has_parent_path() && !std::filesystem::exists(place, ignored)) continue;
    // Open MPI loads parts of its own that look for its symbols.
    loaded.handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (loaded.handle != nullptr) return loaded;
    const char* const reason = ::dlerror();
    // The first one counts: a file that is there, and why it is not good.
    if (loaded.reason.empty()) loaded.reason = reason;
  }
  return loaded;
}

template <class Function>
Function symbol(void* handle, const char* name) {
  return reinterpret_cast<Function>(::dlsym(handle, name));
}

/// A rank that waits in a loop keeps the processor from the rank that it waits for. Open MPI yields
/// only where the way it was started tells it so; a person's own choice stays.
void let_waiting_ranks_yield(const RankPlace& place) {
  constexpr int kKeep = 0;
  if (place.local_size > ::sysconf(_SC_NPROCESSORS_ONLN)) {
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", kKeep);
  }
}

}  // namespace

Result<std::unique_ptr<MessagePassing>> join_ranks(const RankPlace& place) {
  if (place.launcher == "torchrun") {
    return fail(
        fmt::format("started by torchrun as one of {} ranks; processors measure collectives over "
                    "MPI: start with mpirun or srun",
                    place.world_size));
  }
  const Loaded library = load();
  if (library.handle == nullptr) {
    return fail(
        fmt::format("started by {} as one of {} ranks, but {} cannot be loaded ({}); it is built "
                    "where Open MPI is found (apt-get install libopenmpi-dev)",
                    place.launcher, place.world_size, kMessagePassingLibrary, library.reason));
  }
  let_waiting_ranks_yield(place);
  const auto open = symbol<OpenMessagePassing>(library.handle, kOpenMessagePassing);
  if (open == nullptr) return fail(fmt::format("{} is of another version", kMessagePassingLibrary));
  std::string failure;
  std::unique_ptr<MessagePassing> ranks(open(failure));
  if (ranks == nullptr) return fail("MPI does not start: " + failure);
  if (ranks->size() != place.world_size) {
    return fail(fmt::format("{} says {} ranks, MPI {}: the launcher is of another MPI than {}",
                            place.launcher, place.world_size, ranks->size(),
                            ranks->library_version()));
  }
  return ranks;
}

LoadedPart message_passing_part() {
  LoadedPart part{.name = "MPI", .version = {}, .reason = {}};
  const Loaded library = load();
  if (library.handle == nullptr) {
    part.reason = library.reason;
    return part;
  }
  const auto version = symbol<MessagePassingVersion>(library.handle, kMessagePassingVersion);
  if (version != nullptr) part.version = version();
  return part;
}

}  // namespace foreplan::harness
