#!/usr/bin/env python3
"""How published runs err before a container release and from it on, by model, device and precision.

  foreplan validate results/runs/training_runs.csv --json scores.json
  scripts/compare_releases.py scores.json 26.06 [results/runs/training_runs.csv]

Prints the mean of log(predicted / measured) on either side for what has runs on both. Only rows whose notes name their
container take part. What a release changed is modelled right where the two agree.
"""

import collections
import csv
import json
import math
import re
import statistics
import sys


def release(text):
    found = re.search(r"container (\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else None


def main():
    if len(sys.argv) not in (3, 4) or not re.fullmatch(r"\d+\.\d+", sys.argv[2]):
        sys.exit(__doc__)
    table = sys.argv[3] if len(sys.argv) == 4 else "results/runs/training_runs.csv"
    border = release("container " + sys.argv[2])
    with open(table, newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    with open(sys.argv[1]) as file:
        scored = json.load(file)["rows"]
    errors = collections.defaultdict(lambda: ([], []))
    for run in scored:
        row = rows.get(run["id"], {})
        when = release(row.get("notes", ""))
        if when and run.get("prediction") and run.get("measured_step_time_s"):
            error = math.log(run["prediction"]["step_time_s"] / run["measured_step_time_s"])
            errors[row["model_name"], row["gpu"], row["precision"]][when >= border].append(error)
    for key, (before, after) in sorted(errors.items()):
        if before and after:
            print(f"{' '.join(key):44} before {len(before):3} runs {statistics.mean(before):+.3f}   "
                  f"after {len(after):3} runs {statistics.mean(after):+.3f}")


if __name__ == "__main__":
    main()
