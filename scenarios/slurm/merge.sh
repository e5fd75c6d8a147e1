#!/bin/bash
# Joins what sweep-array.sh computed: FOLDER/shard-*.db become FOLDER/runs.db, the sweep row for row.
# Exit code 1 where shards are still missing; the same command completes it later.
#SBATCH --job-name=foreplan-merge
#SBATCH --time=00:30:00
set -eu

folder=$1
exec "${FOREPLAN:-foreplan}" merge "$folder/runs.db" "$folder"/shard-*.db
