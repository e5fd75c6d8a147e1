"""Plans exported by the program, for tests that show them to the frameworks themselves."""

import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("FOREPLAN_PROGRAM", str(ROOT / "build" / "tests" / "cli" / "foreplan"))


def missing(*modules: str) -> str:
    """The modules that are not installed, as the reason for a skip; empty where all are."""
    absent = [m for m in modules if importlib.util.find_spec(m) is None]
    return f"not installed: {', '.join(absent)} (scripts/frameworks.sh)" if absent else ""


@dataclasses.dataclass(frozen=True)
class Case:
    """A question about one plan, as options of `foreplan export`."""

    name: str
    model: str
    cluster: str
    options: str
    sequence_length: int = 4096
    global_batch: int = 256

    def arguments(self) -> list[str]:
        return ["--model", self.model, "--cluster", self.cluster, "--sequence-length",
                f"{self.sequence_length} tokens", "--global-batch", f"{self.global_batch} sequences",
                *self.options.split()]


def run(arguments: list[str]) -> subprocess.CompletedProcess:
    environment = {**os.environ, "FOREPLAN_DATA": str(ROOT)}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment)


@functools.cache
def exported(case: Case, to: str) -> dict:
    """What `export --json` answers: the text, the plan; fails the test where the plan is refused."""
    done = run(["export", *case.arguments(), "--to", to, "--json"])
    if done.returncode != 0:
        raise AssertionError(f"{case.name}: {done.stderr}")
    return json.loads(done.stdout)


def export(case: Case, to: str) -> str:
    return exported(case, to)["text"]


def plan_of(case: Case, to: str) -> dict:
    return exported(case, to)["plan"]


def refusal(case: Case, to: str) -> str:
    """The reason why nothing is written."""
    done = run(["export", *case.arguments(), "--to", to])
    if done.returncode != 2 or done.stdout:
        raise AssertionError(f"{case.name}: exit code {done.returncode}, {done.stdout[:200]}")
    return done.stderr
