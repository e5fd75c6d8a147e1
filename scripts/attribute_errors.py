#!/usr/bin/env python3
"""Which part of the prediction the errors of published runs point at.

  foreplan validate results/runs/training_runs.csv --json scores.json
  scripts/attribute_errors.py scores.json SOURCE [SOURCE...]

Fits one factor per kind of cost (gemm, attention, tp, ...) to the runs of the named sources together, so that the
scaled breakdowns add up to the measured times: least squares in log time with outliers cut, each factor held to 1 by
a prior of 40 %. Kinds below 1 % of the time keep factor 1. A factor that several independent sources agree on points
at physics; one source's alone points at that source. Needs NumPy.
"""

import json
import sys

import numpy

PRIOR = 0.4  # standard deviation of a factor's logarithm, against one run's 5 %
RUN = 0.05
SMALLEST_SHARE = 0.01


def breakdowns(rows, sources):
    kinds, parts, measured = [], [], []
    for row in rows:
        prediction = row.get("prediction")
        if row["source"] not in sources or not prediction or not row.get("measured_step_time_s"):
            continue
        costs = prediction["time"]["breakdown"]
        kinds = list(costs)
        parts.append([costs[kind] for kind in kinds])
        measured.append(row["measured_step_time_s"])
    return kinds, numpy.array(parts), numpy.array(measured)


def factors(parts, measured):
    """Gauss-Newton on log(sum of factor x part / measured), Huber weights."""
    logs = numpy.zeros(parts.shape[1])
    for _ in range(50):
        scaled = parts * numpy.exp(logs)
        total = scaled.sum(axis=1)
        error = numpy.log(total / measured) / RUN
        weight = 1 / numpy.maximum(1, numpy.abs(error))
        slope = scaled / total[:, None] / RUN
        normal = slope.T @ (weight[:, None] * slope) + numpy.eye(len(logs)) / PRIOR**2
        logs -= numpy.linalg.solve(normal, slope.T @ (weight * error) + logs / PRIOR**2)
    return numpy.exp(logs)


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    kinds, parts, measured = breakdowns(rows, set(sys.argv[2:]))
    if not len(measured):
        known = sorted({row["source"] for row in rows})
        print(f"no timed run of {', '.join(sys.argv[2:])}; sources: {', '.join(known)}", file=sys.stderr)
        return 2
    share = (parts / measured[:, None]).mean(axis=0)
    used = share > SMALLEST_SHARE
    rest = parts[:, ~used].sum(axis=1)
    found = factors(parts[:, used], measured - numpy.minimum(rest, 0.5 * measured))

    def mean_error(total):
        return 100 * numpy.abs(total / measured - 1).mean()

    before, after = parts.sum(axis=1), parts[:, used] @ found + rest
    print(f"{len(measured)} runs, mean error {mean_error(before):.1f} %, with these factors {mean_error(after):.1f} %")
    for kind, part, factor in zip(numpy.array(kinds)[used], share[used], found):
        print(f"  {kind.removesuffix('_s'):<12} {100 * part:5.1f} % of the time  x {factor:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
