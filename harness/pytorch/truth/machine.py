"""Starts the processes of the harness: measuring, planning and training, each in its own."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any, Sequence

HARNESS = pathlib.Path(__file__).resolve().parent.parent
DEVICE = "This-Host"
CORES = 2  # processes that work at once; what is alone finds the other core just as busy


class Failed(RuntimeError):
    """A command ended badly; the text is what it said."""


class Machine:
    """Where things are and how they are started. `undisturbed`: real-time priority while something is timed,
    so that other work on the machine waits; only root may."""

    def __init__(self, folder: pathlib.Path, foreplan: str, undisturbed: bool):
        self.folder, self._foreplan = folder, foreplan
        self._devices = folder / "devices"
        self._devices.mkdir(exist_ok=True)
        self._undisturbed = undisturbed
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HARNESS),
                             "FOREPLAN_DEVICES": str(self._devices), "PYTHONWARNINGS": "ignore"}

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def foreplan(self, *arguments: str) -> str:
        return self._run([self._foreplan, *arguments])

    def _torchrun(self, *arguments: str) -> None:
        self._run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(CORES),
                   "--master-port", str(free_port()), *arguments])

    def measure(self, points: list[dict[str, Any]], out: pathlib.Path, collectives: bool, limit_s: float) -> None:
        """Measures the points into `out`; each core's process measures all of them, the first one's count."""
        bench_file = out.with_suffix(".yaml")  # JSON is YAML
        bench_file.write_text(json.dumps({"foreplan_bench": 1, "device": DEVICE, "points": points}))
        self._torchrun(str(HARNESS / "bench_torch.py"), "--device-name", DEVICE, "--threads", "1", "--core", "0",
                       "--points", str(bench_file), "--out", str(out), "--budget", "1h",
                       "--point-limit", str(limit_s), "--statistic", "mean",
                       *(["--collectives"] if collectives else ["--describe-host", str(self._devices)]),
                       *(["--undisturbed"] if self._undisturbed else []))

    def train(self, name: str, steps: int) -> dict[str, Any]:
        out = self.folder / f"{name}.json"
        self._torchrun("-m", "truth.training", name, str(steps), str(out),
                       *(["undisturbed"] if self._undisturbed else []))
        return json.loads(out.read_text())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
