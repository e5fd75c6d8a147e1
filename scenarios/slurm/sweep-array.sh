#!/bin/bash
# A sweep as a Slurm array: every task computes its shard into a database of its own.
#
#   array=$(sbatch --parsable --array=1-16 scenarios/slurm/sweep-array.sh SCENARIO FOLDER)
#   sbatch --dependency=afterok:$array scenarios/slurm/merge.sh FOLDER
#
# FOLDER lies on a file system that all nodes share. A task that is requeued goes on where it was cut off.
# FOREPLAN names the program where it is not on PATH.
#SBATCH --job-name=foreplan-sweep
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --requeue
set -eu

scenario=$1
folder=$2
mkdir -p "$folder"
exec "${FOREPLAN:-foreplan}" sweep "$scenario" \
  --db "$folder/shard-$SLURM_ARRAY_TASK_ID.db" \
  --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
  --threads "${SLURM_CPUS_PER_TASK:-0}"
