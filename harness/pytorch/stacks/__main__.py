"""Predicts training steps of three layer stacks on this device, then runs them, and prints both.

  python -m stacks --device cuda|cpu --device-name NAME --profile FILE --foreplan PROGRAM --out DIR

Llama-3-8B-like, mixture-of-experts and diffusion-transformer layers, with and without recomputation: six
runs of one process, sized by the device.

1. Writes every prediction from the profile, with the time of day, into DIR/predictions.json.
2. Trains each for some steps, in a process of its own.
3. Prints the table: time of a step, and the peak of memory.

Exit code 0: all ran; 1: a run failed, which the table says; 2: wrong arguments; 3: foreplan failed.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
from typing import Any, Sequence

import torch

from . import report
from .configurations import PRECISIONS, SIZES, Configuration, configurations, size_for


class Failed(RuntimeError):
    """foreplan ended badly; the text is what it said."""


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def say(text: str) -> None:
    print(f"stacks: {text}", file=sys.stderr, flush=True)


def predict_one(configuration: Configuration, args: argparse.Namespace) -> dict[str, Any]:
    model = args.out / f"{configuration.stack_name}.json"
    model.write_text(configuration.stack.config.hugging_face())
    command = [args.foreplan, "simulate", "--json", "--model", str(model), "--cluster",
               f"1x1x{args.device_name}", "--profile", args.profile,
               *configuration.scenario_options(args.precision)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: it would not fit
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    memory = answer["memory"]
    # Of a processor tensors are counted: the matrix library's own workspace is none.
    workspace = 0 if args.device == "cuda" else memory["workspace_bytes"]
    return {"step_time_s": answer["step_time_s"], "low_s": answer["step_time_low_s"],
            "high_s": answer["step_time_high_s"], "breakdown": answer["breakdown"], "memory": memory,
            "peak_bytes": memory["allocated_bytes"] - workspace, "kept_bytes": memory["activations_bytes"]}


def train_one(configuration: Configuration, args: argparse.Namespace) -> dict[str, Any]:
    """What was measured, or {"failed": the last line that the run said}."""
    out = args.out / f"{configuration.name}.json"
    done = subprocess.run([sys.executable, "-m", "stacks.training", args.size, configuration.name, args.device,
                           args.precision, str(args.steps), str(out)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": lines[-1][:160]}
    return json.loads(out.read_text())


def write(file: pathlib.Path, key: str, runs: dict[str, Any]) -> None:
    file.write_text(json.dumps({key: now(), "runs": runs}, indent=1))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--device-name", required=True, help="what foreplan calls the device")
    parser.add_argument("--profile", required=True, help="file or name of the profile to predict from")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="bf16")
    parser.add_argument("--size", choices=tuple(SIZES), help="default: by the device's memory")
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each run")
    parser.add_argument("--foreplan", required=True, help="the program")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for everything that is written")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no CUDA device here, or PyTorch was built without CUDA")
    args.size = args.size or size_for(torch.device(args.device))
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    wanted = configurations(args.size)
    try:
        predicted = {one.name: predict_one(one, args) for one in wanted}
    except Failed as failure:
        say(str(failure))
        return 3
    write(args.out / "predictions.json", "predicted_at", predicted)
    measured = {}
    for one in wanted:
        say(f"training {one.name}")
        measured[one.name] = train_one(one, args)
    write(args.out / "measured.json", "measured_at", measured)
    print(report.table([one.name for one in wanted], predicted, measured))
    return 1 if any("failed" in one for one in measured.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
