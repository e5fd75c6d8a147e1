"""Predicts training runs of PyTorch on this CPU, then runs them, and prints both.

  python -m truth [--quick] [--undisturbed] [--rounds N] --foreplan PROGRAM --out DIR

1. Measures the operators and collectives of the configurations, some rounds.
2. Fits a profile of this host.
3. Writes every prediction, with the time of day, into DIR/predictions.json.
4. Runs every configuration, some rounds in turn.
5. Prints the table; exit code 1 where the predictions miss their targets.

A machine that others use too is slower at some times than at others. Kernels and training steps alike count
with the mean of all their samples, since a step is made of kernels at good and at bad moments.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import sys
from typing import Any, Iterable

from bench_points import Point

from . import configurations, report
from .configurations import Configuration
from .machine import CORES, DEVICE, Failed, Machine
from .shapes import all_points

STEPS = 5


def entry(point: Point) -> dict[str, Any]:
    return {"op": point.op, "dtype": point.dtype, "pass": point.direction, **dict(point.shape)}


def mean_of_rounds(rounds: Iterable[pathlib.Path], out: pathlib.Path) -> None:
    """One line per point into `out`: the mean over all samples."""
    known: dict[str, list[dict[str, Any]]] = {}
    for file in rounds:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            key = json.dumps({k: v for k, v in row.items() if k not in ("time_s", "samples", "note", "date")})
            known.setdefault(key, []).append(row)
    with out.open("w") as lines:
        for rows in known.values():
            samples = sum(row["samples"] for row in rows)
            mean_s = sum(row["time_s"] * row["samples"] for row in rows) / samples
            lines.write(json.dumps({**rows[0], "time_s": mean_s, "samples": samples}) + "\n")


def measure(machine: Machine, wanted: list[Configuration], rounds: int, limit_s: float) -> pathlib.Path:
    """Fits the host's profile to fresh measurements; its file."""
    operators, messages = all_points(wanted)
    files: dict[str, list[pathlib.Path]] = {"operators": [], "collectives": []}
    for number in range(rounds):
        for kind, points in (("operators", operators), ("collectives", messages)):
            if not points:
                continue
            say(f"measuring {len(points)} {kind}, round {number + 1} of {rounds}")
            file = machine.folder / f"{kind}-{number}.jsonl"
            file.unlink(missing_ok=True)
            machine.measure([entry(point) for point in points], file, kind == "collectives", limit_s)
            files[kind].append(file)
    database = machine.folder / "host.db"
    database.unlink(missing_ok=True)
    for kind, of_rounds in files.items():
        if of_rounds:
            lines = machine.folder / f"{kind}.jsonl"
            mean_of_rounds(of_rounds, lines)
            machine.foreplan("import", str(lines), "--db", str(database))
    profile = machine.folder / "host-profile.json"
    say("fitting the profile")
    machine.foreplan("calibrate", "--device", DEVICE, "--db", str(database), "--folds", "0",
                     "--out", str(profile))
    return profile


def predict(machine: Machine, wanted: list[Configuration], profile: pathlib.Path) -> dict[str, Any]:
    """What foreplan says of every configuration, stored before any of them runs."""
    predictions: dict[str, Any] = {}
    for configuration in wanted:
        model = machine.folder / f"{configuration.size}.json"
        model.write_text(configuration.model.hugging_face())
        answer = json.loads(machine.foreplan(
            "simulate", "--json", "--model", str(model), "--cluster", f"1x{configuration.ranks}x{DEVICE}",
            "--profile", str(profile), *configuration.scenario_options()))
        predictions[configuration.name] = {
            "step_time_s": answer["step_time_s"], "low_s": answer["step_time_low_s"],
            "high_s": answer["step_time_high_s"], "breakdown": answer["breakdown"],
            "kept_bytes": answer["memory"]["activations_bytes"]}
    told = {"predicted_at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "runs": predictions}
    (machine.folder / "predictions.json").write_text(json.dumps(told, indent=1))
    return predictions


def run(machine: Machine, wanted: list[Configuration], rounds: int) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    for number in range(rounds):
        for configuration in wanted:
            say(f"training {configuration.name}, round {number + 1} of {rounds}")
            outcome = machine.train(configuration.name, STEPS)
            before = measured.get(configuration.name, {"times_s": []})
            times = [*before["times_s"], *outcome["times_s"]]
            measured[configuration.name] = {"times_s": times, "mean_s": statistics.fmean(times),
                                            "kept_bytes": outcome["kept_bytes"]}
    (machine.folder / "measured.json").write_text(json.dumps(
        {"measured_at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "runs": measured}, indent=1))
    return measured


def say(text: str) -> None:
    print(f"truth: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three small configurations, one round")
    parser.add_argument("--undisturbed", action="store_true",
                        help="real-time priority (root): other work on this machine waits")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--foreplan", required=True, help="the program")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for everything that is written")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = configurations.QUICK if args.quick else configurations.ALL
    rounds = 1 if args.quick else args.rounds
    machine = Machine(args.out.resolve(), args.foreplan, args.undisturbed)
    try:
        profile = measure(machine, wanted, rounds, 0.1 if args.quick else 0.25)
        predictions = predict(machine, wanted, profile)
        measured = run(machine, wanted, rounds)
    except Failed as failure:
        say(str(failure))
        return 3
    table = report.Table(wanted, predictions, measured)
    print(table.text())
    return 0 if args.quick or table.targets_met() else 1


if __name__ == "__main__":
    sys.exit(main())
