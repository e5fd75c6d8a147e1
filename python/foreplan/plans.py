"""Plans, and what is predicted of them. Times in seconds, sizes in bytes, shares from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._record import Record


@dataclass(frozen=True)
class Plan(Record):
    """How one training step is spread over a cluster. Fields are named as in scenario files."""

    gpus: int
    tp: int
    """tensor parallel degree"""
    pp: int
    """pipeline stages"""
    vpp: int
    """model chunks per stage"""
    dp: int
    """data parallel degree: gpus / (tp * pp * cp)"""
    cp: int
    """context parallel degree"""
    ep: int
    """expert parallel degree"""
    etp: int
    """tensor parallel degree inside an expert"""
    sequence_parallel: bool
    zero: int
    """ZeRO stage: 1 shares out optimizer states, 2 gradients too, 3 parameters too (FSDP)"""
    micro_batch: int
    """sequences"""
    recompute: str
    """``none``, ``full``, ``full:N``, or modules joined by ``+``"""
    precision: str
    schedule: str
    framework: str
    dp_replicate: int = 1
    """copies of what ``zero`` shares out (HSDP, optimizer instances), 1: shared out over all data parallel ranks; stored
    plans of older releases do not say it"""
    micro_batch_group: int = 0
    """micro-batches that an interleaved schedule deals to a model chunk at a time, 0: as many as stages"""
    offload_optimizer: float = 0
    """share of the optimizer state in host memory"""
    offload_parameters: float = 0
    """share of the sharded parameters in host memory"""
    offload_activations: float = 0
    """share of the layers whose activations are in host memory"""


@dataclass(frozen=True)
class Memory(Record):
    """Bytes on the fullest rank of a stage at its worst moment, by what they are for."""

    stage: int
    parameters_bytes: float
    gradients_bytes: float
    optimizer_state_bytes: float
    fp8_copies_bytes: float
    activations_bytes: float
    transient_bytes: float
    gathered_bytes: float
    workspace_bytes: float
    fragmentation_bytes: float
    communication_bytes: float
    context_bytes: float
    allocated_bytes: float
    """what the framework's allocator hands out"""
    reserved_bytes: float
    """that and its fragmentation"""
    device_total_bytes: float
    """that, communication buffers and the context: what ``nvidia-smi`` shows"""


@dataclass(frozen=True)
class Stage(Record):
    """One pipeline stage; times are those of one micro-batch."""

    stage: int
    layers: int
    forward_s: float
    backward_s: float
    memory: Memory


@dataclass(frozen=True)
class Timing(Record):
    """The time of one step, by kind, with its 90 % interval."""

    step_time_s: float
    step_time_low_s: float
    step_time_high_s: float
    breakdown: dict[str, float]
    """seconds by kind (``gemm_s``, ``tp_s``, ``bubble_s``, ...); communication is what compute does not hide"""
    basis_fraction: dict[str, float]
    """share of the time that rests on measured, interpolated, extrapolated, datasheet costs"""
    micro_batches: int
    critical_stage: int
    stage_forward_s: float
    stage_backward_s: float
    bubble_fraction: float
    tokens_per_s_per_gpu: float
    mfu_fraction: float
    """model FLOPs with full attention over the 16-bit dense peak"""
    mfu_causal_fraction: float
    """the same with causal attention halved"""
    hfu_fraction: float
    """FLOPs that the hardware executed over the same peak"""


# Keyword-only from here on: fields of parts come between those of the base.
@dataclass(frozen=True, kw_only=True)
class Report(Timing):
    """The full prediction of one plan."""

    plan: Plan
    memory: Memory
    """of the fullest stage"""
    usable_memory_bytes: float
    headroom_bytes: float
    """usable memory less the peak; negative = does not fit"""
    peak_low_bytes: float
    peak_high_bytes: float
    """ends of the 90 % interval of the peak"""
    oom_probability: float
    """chance of running out of memory"""
    host_memory_bytes: float = 0
    """offloaded, on the fullest node"""
    host_update_s: float = 0
    """of the step, the update on the host beyond the device's own"""
    stages: tuple[Stage, ...]

    def row(self) -> dict[str, Any]:
        """The report as one flat row: plan, times, utilisation, peak memory."""
        numbers = ("step_time_s", "step_time_low_s", "step_time_high_s", "tokens_per_s_per_gpu",
                   "mfu_fraction", "mfu_causal_fraction", "hfu_fraction", "bubble_fraction")
        return {**self.plan.to_dict(), **{name: getattr(self, name) for name in numbers},
                **self.breakdown, "peak_memory_bytes": self.memory.device_total_bytes,
                "headroom_bytes": self.headroom_bytes, "oom_probability": self.oom_probability}


@dataclass(frozen=True, kw_only=True)
class NearestFit(Report):
    """A plan that fits although the asked one, or any of the asked space, does not."""

    more_gpus: bool
    """it needs more GPUs than the scenario has"""
    assumed_network: bool
    """the cluster has no network, so that more nodes were given one NIC of 100 Gbit/s each"""


@dataclass(frozen=True)
class FrontPlan(Record):
    """A plan that no other plan beats in step time, peak memory and GPUs at once."""

    plan: Plan
    step_time_s: float
    peak_memory_bytes: float
    gpus: int


@dataclass(frozen=True)
class Share(Record):
    """Of kernels or collectives together: d log(step time) / d log(their cost)."""

    name: str
    share: float


@dataclass(frozen=True)
class Dependence(Record):
    """A kernel or collective that the step time hangs on."""

    what: str
    detail: str
    share: float
    """d log(step time) / d log(its cost), what hides behind other work left out"""
    time_s: float
    """of one call"""
    relative_error: float
    basis: str
    """measured, interpolated, extrapolated or datasheet"""


@dataclass(frozen=True)
class WhatIf(Record):
    """The same plan on a cluster that is faster or slower in one respect."""

    name: str
    step_time_s: float


@dataclass(frozen=True)
class Sensitivity(Record):
    """What the step time of one plan hangs on."""

    groups: tuple[Share, ...]
    """largest first; together at most about 1"""
    single: tuple[Dependence, ...]
    """the kernels and collectives with most, largest first"""
    what_if: tuple[WhatIf, ...]


@dataclass(frozen=True)
class MemoryCurve(Record):
    """Device memory of one stage over the step: a value holds from its time to the next."""

    stage: int
    time_s: tuple[float, ...]
    bytes: tuple[float, ...]
