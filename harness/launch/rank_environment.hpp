#pragma once
// Which rank this process is, whoever started it: torchrun, mpirun or srun.

#include "core/result.hpp"

#include <functional>
#include <optional>
#include <string>

namespace foreplan::harness {

/// A process among those that measure together.
struct RankPlace {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_size = 1;  ///< on this node
  std::string master_host = "127.0.0.1";
  int master_port = 0;   ///< where rank 0 listens
  std::string launcher;  ///< "torchrun", "mpirun", "srun"; empty = a lone process
};

/// Value of an environment variable, empty where it is not set.
using Variables = std::function<std::optional<std::string>(const char*)>;
[[nodiscard]] std::optional<std::string> process_variable(const char* name);

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE (torchrun); OMPI_COMM_WORLD_* (Open MPI);
/// MV2_COMM_WORLD_* (MVAPICH2); PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH, Intel
/// MPI); SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NTASKS_PER_NODE (srun), in this
/// order. Fails for numbers that are none or do not go together. A job step of one task (an
/// interactive shell of Slurm) and a batch script, which is no step, are lone processes.
[[nodiscard]] Result<RankPlace> rank_place(const Variables& variable);

/// The place with where rank 0 listens, for ranks that meet over TCP: MASTER_ADDR and MASTER_PORT.
/// Without MASTER_ADDR rank 0 is looked for on this machine if all ranks are here and on the first
/// host of SLURM_NODELIST otherwise; without MASTER_PORT the port follows from the job's number.
/// Fails for a port that is none, and where rank 0 cannot be found.
[[nodiscard]] Result<RankPlace> with_meeting_point(RankPlace place, const Variables& variable);

/// The first host of a list of Slurm ("gpu[03-05,9],login1" -> "gpu03").
[[nodiscard]] std::string first_host(const std::string& node_list);

}  // namespace foreplan::harness
