#!/usr/bin/env python3
"""How well one measurement of a matrix product tells another of the same product on the same kind of device.

  scripts/repeat_floor.py [results/calibration/gemm.fpm]

Two campaigns timed PyTorch's bf16 linear layer, which both leave to cuBLAS, on the same shapes. What their times differ
by, less a running median over size (what one library costs more), is the scatter of two measurements; divided by the
root of two, of one. No model that knows the shape alone can be nearer to a campaign than that. Needs NumPy.
"""

import collections
import pathlib
import shlex
import sys

import numpy

PAIRS = [("trtllm:torch_flow", "vllm:torch.nn.functional.linear"), ("trtllm:torch_flow", "vllm:vllm_default")]
NEIGHBOURS = 31  # rows of the running median


def groups(path):
    """(device, library) -> {(m, n, k): microseconds} of plain bf16 linear layers."""
    times = collections.defaultdict(dict)
    wanted = None
    for line in pathlib.Path(path).read_text().splitlines()[1:]:
        if line.startswith("@"):
            common, columns = line[1:].split(" : ")
            fields = dict(word.split("=", 1) for word in shlex.split(common))
            plain = fields.get("op") == "linear" and "quant" not in fields and fields.get("dtype_in", "bf16") == "bf16"
            names = columns.split()
            wanted = times[fields["device"], fields["library"]] if plain and "batch" not in names else None
        elif wanted is not None and not line.startswith("#"):
            row = dict(zip(names, line.split()))
            if all(name in row for name in ("m", "n", "k", "time_us")):
                wanted[int(row["m"]), int(row["n"]), int(row["k"])] = float(row["time_us"])
    return times


def scatter(first, second):
    shapes = sorted(first.keys() & second.keys(), key=first.get)
    ratio = numpy.log([first[shape] / second[shape] for shape in shapes])
    half = NEIGHBOURS // 2
    padded = numpy.pad(ratio, half, mode="reflect")
    usual = numpy.array([numpy.median(padded[i : i + NEIGHBOURS]) for i in range(len(ratio))])
    return numpy.abs(ratio - usual) / numpy.sqrt(2)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "results/calibration/gemm.fpm"
    times = groups(path)
    print(f"{'device':16} {'campaigns':52} {'shapes':>6} {'median':>7} {'p95':>7}")
    for device in sorted({device for device, library in times}):
        for first, second in PAIRS:
            one, other = times.get((device, first), {}), times.get((device, second), {})
            if len(one.keys() & other.keys()) < 2 * NEIGHBOURS:
                continue
            left = scatter(one, other)
            print(
                f"{device:16} {first + ', ' + second:52} {len(left):6} {numpy.median(left):7.1%} "
                f"{numpy.quantile(left, 0.95):7.1%}"
            )


if __name__ == "__main__":
    main()
