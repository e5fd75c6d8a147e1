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


# Plans that Megatron core runs, shown to it and to what is built on it.
MEGATRON_CASES = [
    Case("dense with TP and SP", "llama3-8b", "1x8xH100", "--tp 2"),
    Case("pipeline", "llama3-70b", "8x8xH100", "--tp 8 --pp 4"),
    Case("interleaved pipeline", "llama3-70b", "8x8xH100", "--tp 4 --pp 4 --vpp 5"),
    Case("uneven pipeline", "llama3.1-405b", "16x8xH100", "--tp 8 --pp 16"),
    Case("uneven interleaved pipeline", "llama3.1-405b", "16x8xH100", "--tp 8 --pp 8 --vpp 4", global_batch=64),
    Case("context parallelism", "llama3-8b", "4x8xH100", "--tp 2 --cp 4", 131072, 32),
    Case("FP8 delayed", "llama3-70b", "8x8xH100", "--tp 8 --pp 2 --precision fp8"),
    Case("FP8 current, recompute", "llama3-8b", "1x8xH100", "--tp 2 --precision fp8_current --recompute full"),
    Case("FP8 blocks", "llama3-8b", "1x8xH100", "--tp 1 --precision fp8_block"),
    Case("MXFP8", "llama3-70b", "8x8xB200", "--tp 4 --pp 2 --precision mxfp8"),
    Case("NVFP4", "llama3-8b", "1x8xB200", "--tp 1 --precision nvfp4"),
    Case("fp16 without sharding", "gpt3-13b", "2x8xA100-80", "--tp 2 --zero 0 --precision fp16", 2048),
    Case("no sequence parallelism", "gpt3-6.7b", "1x8xA100-80", "--tp 4 --sequence-parallel false", 2048),
    Case("experts over EP", "mixtral-8x7b", "8x8xH100", "--tp 2 --pp 4 --ep 8"),
    Case("experts with their own TP", "mixtral-8x7b", "8x8xH100", "--tp 4 --pp 2 --ep 4 --etp 2"),
    Case("FP8 experts, interleaved", "qwen3-235b-a22b", "16x8xH100",
         "--tp 4 --pp 4 --vpp 2 --ep 8 --etp 1 --precision fp8_current"),
    Case("MXFP8 experts without stages", "qwen3-30b-a3b", "2x8xB200", "--tp 1 --ep 8 --etp 1 --precision mxfp8"),
    Case("latent attention, dense first layers", "deepseek-v3", "32x8xH800", "--tp 2 --pp 16 --ep 16 --etp 1"),
    Case("latent attention, recompute of modules", "deepseek-v2-lite", "4x8xH100",
         "--tp 1 --ep 8 --recompute mla_up_proj+moe_act"),
    Case("biases on q, k and v", "qwen2-7b", "1x8xH100", "--tp 2 --recompute layernorm"),
    Case("norms of q and k, tied embeddings", "qwen3-4b", "1x8xH100", "--tp 2 --pp 2 --recompute full:3"),
    Case("squared ReLU", "nemotron-4-15b", "4x8xH100", "--tp 4 --pp 2"),
    Case("Megatron-FSDP", "llama3-8b", "2x8xH100", "--framework megatron-fsdp --zero 3"),
    Case("optimizer on the host", "llama3-70b", "8x8xH100", "--tp 4 --pp 2 --vpp 5 --offload-optimizer 0.5 "
         "--micro-batch-group 4"),
    Case("activations on the host", "llama3-8b", "1x8xH100", "--tp 2 --offload-activations 0.25"),
    Case("instances of the optimizer", "llama3-70b", "8x8xH100", "--tp 4 --pp 2 --vpp 5 --dp-replicate 2"),
    Case("instances, experts, FP8", "mixtral-8x7b", "8x8xH100",
         "--tp 2 --pp 2 --ep 4 --etp 1 --dp-replicate 4 --precision fp8_current"),
    Case("instances with context parallelism", "llama3-8b", "4x8xH100", "--tp 2 --cp 4 --dp-replicate 2", 131072, 32),
    Case("Megatron-FSDP in copies", "llama3-8b", "4x8xH100", "--framework megatron-fsdp --zero 3 --dp-replicate 4"),
]


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
