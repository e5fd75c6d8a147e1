#!/usr/bin/env python3
"""Measures what users run through PyTorch and writes foreplan's bench lines.

  bench_torch.py --device-name MyHost --describe-host DIR --out torch.jsonl
  bench_torch.py --device-name H100 --target cuda --graph --out torch.jsonl --db runs.db --foreplan foreplan
  torchrun --nproc-per-node 2 bench_torch.py --device-name MyHost --collectives --out gloo.jsonl

Under torchrun without --collectives every process measures all operators by itself and the first one's times
count: they are what an operator takes while the other cores work, too. Lines are written one by one; a run that was cut off leaves out what its file already holds.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any, Callable

import torch

import bench_points
import collectives as groups
import host_device
import measuring
import process_memory
import process_priority
from bench_points import COLLECTIVES, BadPoint, Point
from torch_operators import RECIPES, Built

BAD_INPUT, NO_DEVICE = 2, 3
COLD_BYTES = 128 << 20  # buffers that take turns hold this much, so that caches hold little of them
MOST_ROTATIONS, MOST_OUTPUTS = 16, 64


def seconds(text: str) -> float:
    """"90 s", "5min" or a number of seconds."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|h)?\s*", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s or 5min")
    return float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2] or "s"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-name", required=True, help="DeviceSpec name that the rows carry")
    parser.add_argument("--points", help="bench file (YAML); default: the standard list")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of a CPU process")
    parser.add_argument("--core", type=int, help="CPU that the process stays on; with torchrun the first one's")
    parser.add_argument("--dtype", choices=bench_points.DTYPES, default="fp32", help="of the standard list")
    parser.add_argument("--largest", type=int, default=2048, help="largest size of the standard list")
    parser.add_argument("--collectives", action="store_true", help="only collectives, under torchrun")
    parser.add_argument("--budget", type=seconds, default=120.0, help="for all points, e.g. 5min")
    parser.add_argument("--point-limit", type=seconds, default=1.0, help="for one point")
    parser.add_argument("--noise", type=float, default=0.01, help="relative error of the median to stop at")
    parser.add_argument("--undisturbed", action="store_true", help="real-time priority: other work waits")
    parser.add_argument("--statistic", choices=("median", "mean"), default="median",
                        help="what the row's time is of its samples; mean: what a long run sees on a machine "
                        "that other work disturbs")
    parser.add_argument("--hot", action="store_true", help="one set of buffers instead of several in turn")
    parser.add_argument("--graph", action="store_true", help="CUDA: replay a graph of the launches")
    parser.add_argument("--describe-host", metavar="DIR", help="write DIR/NAME.yaml, this CPU as a device")
    parser.add_argument("--out", required=True, help="file of bench lines; appended to")
    parser.add_argument("--db", help="also import the file into this database")
    parser.add_argument("--foreplan", default="foreplan", help="program for --db")
    return parser.parse_args()


class Lines:
    """The output file. A row is known by everything but its time."""

    def __init__(self, path: pathlib.Path, origin: dict[str, str], setting: str):
        self._path, self._origin, self._setting = path, origin, setting
        self._known: set[str] = set()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self._known.add(self._key(json.loads(line)))
                except json.JSONDecodeError:
                    continue  # the last line of a run that was killed while it wrote

    def _key(self, row: dict[str, Any]) -> str:
        left_out = {"time_s", "samples", "note", *self._origin}
        return json.dumps({k: v for k, v in row.items() if k not in left_out}, sort_keys=True)

    def holds(self, row: dict[str, Any]) -> bool:
        return self._key(row) in self._known

    def add(self, row: dict[str, Any], sample: measuring.Sample) -> None:
        # What follows "; p10" is not part of what tells campaigns apart (simulator/calibration/samples.cpp).
        time_s = sample.mean_s if self._origin["statistic"] == "mean" else sample.median_s
        note = (f"{self._setting}; p10 {sample.first_tenth_s:.4g} p25 {sample.low_s:.4g} "
                f"p75 {sample.high_s:.4g} p90 {sample.last_tenth_s:.4g} s")
        line = {**row, **self._origin, "time_s": time_s, "samples": sample.count, "note": note}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._known.add(self._key(row))


def origin_of(args: argparse.Namespace, library: str) -> dict[str, str]:
    return {"device": args.device_name, "library": library, "library_version": torch.__version__,
            "source": "bench_torch", "statistic": args.statistic,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}


def output_bytes(output: object) -> int:
    tensors = output if isinstance(output, (tuple, list)) else [output]
    return sum(t.untyped_storage().nbytes() for t in tensors if isinstance(t, torch.Tensor))


def rotations(build: Callable[[], Built], hot: bool) -> list[Callable[[], object]]:
    """Calls on as many sets of buffers as make caches cold. Results are kept for as long, so that the next
    one is written to memory that was not touched lately, as activations are."""
    first = build()
    if hot:
        return [first.call]
    sets = min(MOST_ROTATIONS, 1 + COLD_BYTES // max(first.held_bytes, 1))
    each = max(output_bytes(first.call()), 1)
    results: collections.deque[object] = collections.deque(maxlen=min(MOST_OUTPUTS, 1 + COLD_BYTES // each))
    built = [first, *(build() for _ in range(sets - 1))]
    return [lambda call=one.call: results.append(call()) for one in built]


class Session:
    """Points in order, until the budget is spent."""

    def __init__(self, args: argparse.Namespace, group: groups.RankGroup | None):
        self._args, self._group = args, group
        self._device = torch.device(args.target)
        library = "pytorch" if group is None else ("nccl" if args.target == "cuda" else "gloo")
        setting = "graph" if args.graph else f"{args.threads} threads" if args.target == "cpu" else "stream"
        self._lines = Lines(pathlib.Path(args.out), origin_of(args, library), setting)
        self._end = time.monotonic() + args.budget
        self.left_out = 0

    def _agree(self, value: float) -> float:
        return self._group.largest(value) if self._group else value

    def _question(self, point: Point) -> tuple[dict[str, Any], Callable[[], Built]]:
        if self._group:
            ranks = self._group.size
            return ({"kind": "collectives", **groups.collective_row(point, ranks)},
                    lambda: groups.build_collective(point, ranks, self._device))
        recipe = RECIPES[point.op]
        return {"kind": recipe.kind, **recipe.row(point)}, lambda: recipe.build(point, self._device)

    def run(self, points: list[Point]) -> None:
        clock = measuring.clock_for(self._device, self._args.graph)
        for done, point in enumerate(points):
            row, build = self._question(point)
            if self._agree(1.0 if self._lines.holds(row) else 0.0) == 1.0:
                continue
            if self._agree(time.monotonic() - self._end) > 0:
                self.left_out = len(points) - done
                return
            calls = rotations(build, self._args.hot)
            sample = measuring.measure(calls, clock, self._args.point_limit, self._args.noise, self._agree)
            self._lines.add(row, sample)


def wanted_points(args: argparse.Namespace) -> list[Point]:
    if args.points:
        points = bench_points.read_bench_file(args.points)
    elif args.collectives:
        points = bench_points.standard_collectives(args.dtype)
    else:
        points = bench_points.standard_points(args.dtype, args.largest)
    return [point for point in dict.fromkeys(points) if (point.op in COLLECTIVES) == args.collectives]


def say(text: str) -> None:
    print(f"bench_torch: {text}", file=sys.stderr)


def main() -> int:
    args = arguments()
    process_memory.keep_freed_memory()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    if args.core is not None:
        os.sched_setaffinity(0, {args.core + int(os.environ.get("LOCAL_RANK", "0"))})
    if args.target == "cuda" and not torch.cuda.is_available():
        say("no CUDA device here, or PyTorch was built without CUDA")
        return NO_DEVICE
    if args.collectives and "RANK" not in os.environ:
        say("collectives need several processes: start this with torchrun --nproc-per-node N")
        return BAD_INPUT
    try:
        points = wanted_points(args)
    except (BadPoint, OSError) as wrong:
        say(str(wrong))
        return BAD_INPUT
    group = None
    if args.collectives:
        if args.target == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        group = groups.RankGroup("nccl" if args.target == "cuda" else "gloo")
    is_first = int(os.environ.get("LOCAL_RANK", "0")) == 0
    if not is_first:
        args.out = os.devnull  # the first process writes for all
    session = Session(args, group)
    if args.undisturbed and not process_priority.run_undisturbed():
        say("no right to a real-time priority; measuring without")
    if args.describe_host and is_first:
        file = pathlib.Path(args.describe_host) / f"{args.device_name.lower()}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(host_device.device_text(args.device_name, args.threads), encoding="utf-8")
    session.run(points)
    if session.left_out and is_first:
        say(f"the budget is spent; {session.left_out} of {len(points)} points are left, the same command goes on")
    if args.db and is_first:
        return subprocess.run([args.foreplan, "import", args.out, "--db", args.db], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
