#include "harness/targets/host/launcher.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace foreplan::harness {
namespace {

struct Mark {
  const char *launcher, *ranks;
};
/// In order: mpirun under Slurm sets both its own and Slurm's.
constexpr Mark kMarks[] = {{"mpirun", "OMPI_COMM_WORLD_SIZE"},
                           {"mpirun", "PMI_SIZE"},
                           {"mpirun", "MV2_COMM_WORLD_SIZE"},
                           {"srun", "SLURM_STEP_NUM_TASKS"},
                           {"torchrun", "WORLD_SIZE"}};

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

}  // namespace

std::optional<Launch> find_launch(const std::function<const char*(const char*)>& variable) {
  for (const Mark& mark : kMarks) {
    const char* const text = variable(mark.ranks);
    if (text == nullptr) continue;
    Launch launch{mark.launcher, 0};
    const char* const end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, launch.ranks);
    if (error == std::errc{} && stop == end && launch.ranks > 1) return launch;
    return std::nullopt;
  }
  return std::nullopt;
}

Result<std::unique_ptr<MessagePassing>> join_ranks(const Launch& launch) {
  if (launch.launcher == "torchrun") {
    return fail(
        fmt::format("started by torchrun as one of {} ranks; processors measure collectives over "
                    "MPI: start with mpirun or srun",
                    launch.ranks));
  }
  const Loaded library = load();
  if (library.handle == nullptr) {
    return fail(
        fmt::format("started by {} as one of {} ranks, but {} cannot be loaded ({}); it is built "
                    "where Open MPI is found (apt-get install libopenmpi-dev)",
                    launch.launcher, launch.ranks, kMessagePassingLibrary, library.reason));
  }
  const auto open = symbol<OpenMessagePassing>(library.handle, kOpenMessagePassing);
  if (open == nullptr) return fail(fmt::format("{} is of another version", kMessagePassingLibrary));
  std::string failure;
  std::unique_ptr<MessagePassing> ranks(open(failure));
  if (ranks == nullptr) return fail("MPI does not start: " + failure);
  if (ranks->size() != launch.ranks) {
    return fail(fmt::format("{} says {} ranks, MPI {}: the launcher is of another MPI than {}",
                            launch.launcher, launch.ranks, ranks->size(),
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
