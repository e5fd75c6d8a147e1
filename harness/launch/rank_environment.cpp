#include "harness/launch/rank_environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace foreplan::harness {
namespace {

/// How one launcher calls what it tells; null = it does not tell.
struct Launcher {
  const char* name;
  const char *rank, *world_size, *local_rank, *local_size;
};
/// What names a job, the same on all of its ranks.
constexpr const char* kJobs[] = {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "PMI_ID", "SLURM_JOB_ID"};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

constexpr int kMostRanks = 1'000'000;
constexpr int kMostPort = 65535;

class Reader {
 public:
  explicit Reader(const Variables& variable) : variable_(variable) {}

  std::optional<int> number(const char* name, int least, int most) {
    const auto text = variable_(name);
    if (!text) return std::nullopt;
    int value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    // "8(x2)" is what Slurm writes for eight tasks on each of two nodes.
    const bool whole = stop == end || *stop == '(';
    if (error == std::errc{} && whole && value >= least && value <= most) return value;
    errors.push_back(
        {fmt::format("{} is not a number from {} to {}", in_quotes(*text), least, most),
         {{}, 0, 0, name}});
    return std::nullopt;
  }

  Errors errors;

 private:
  const Variables& variable_;
};

/// Above the ports of known services and below those that systems give to clients.
int port_of_job(const std::string& job) {
  constexpr int kFirst = 20000, kCount = 10000;
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return kFirst + static_cast<int>(hash % kCount);
}

}  // namespace

std::optional<std::string> process_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string{text};
}

std::string first_host(const std::string& node_list) {
  const auto end = node_list.find_first_of(",[");
  std::string host = node_list.substr(0, end);
  if (end == std::string::npos || node_list[end] == ',') return host;
  const auto stop = node_list.find_first_of(",-]", end + 1);
  return host + node_list.substr(end + 1, stop - end - 1);
}

Result<RankPlace> rank_place(const Variables& variable) {
  for (const Launcher& launcher : kLaunchers) {
    if (!variable(launcher.rank) || !variable(launcher.world_size)) continue;
    Reader reader(variable);
    RankPlace place;
    place.launcher = launcher.name;
    place.world_size = reader.number(launcher.world_size, 1, kMostRanks).value_or(1);
    place.rank = reader.number(launcher.rank, 0, kMostRanks).value_or(0);
    place.local_size = reader.number(launcher.local_size, 1, kMostRanks).value_or(place.world_size);
    place.local_rank =
        reader.number(launcher.local_rank, 0, kMostRanks).value_or(place.rank % place.local_size);
    if (!reader.errors.empty()) return fail(std::move(reader.errors));
    if (place.world_size == 1) return RankPlace{};
    if (place.rank >= place.world_size || place.local_rank >= place.local_size ||
        place.local_size > place.world_size) {
      return fail(fmt::format("{} says rank {} of {}, on its node {} of {}", launcher.name,
                              place.rank, place.world_size, place.local_rank, place.local_size));
    }
    return place;
  }
  return RankPlace{};
}

Result<RankPlace> with_meeting_point(RankPlace place, const Variables& variable) {
  if (place.world_size == 1) return place;
  Reader reader(variable);
  if (const auto port = reader.number("MASTER_PORT", 1, kMostPort)) place.master_port = *port;
  if (!reader.errors.empty()) return fail(std::move(reader.errors));
  if (const auto host = variable("MASTER_ADDR")) {
    place.master_host = *host;
  } else if (place.local_size < place.world_size) {
    const auto nodes = variable("SLURM_NODELIST");
    if (!nodes) {
      return fail("the ranks are on several nodes: set MASTER_ADDR to the first one's name",
                  {{}, 0, 0, "MASTER_ADDR"});
    }
    place.master_host = first_host(*nodes);
  }
  if (place.master_port != 0) return place;
  std::string job;
  for (const char* name : kJobs) {
    if (job.empty()) job = variable(name).value_or("");
  }
  place.master_port = port_of_job(job);
  return place;
}

}  // namespace foreplan::harness
