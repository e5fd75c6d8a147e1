"""Real training steps of one configuration: their times, the peak of memory, what autograd keeps.

  python -m stacks.training SIZE NAME DEVICE PRECISION STEPS OUT.json
"""

import json
import pathlib
import sys
import time
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import process_memory

from .configurations import PRECISIONS, Configuration, named
from .memory import PeakBytes, kept_bytes

WARM_UP_STEPS = 3


class Clock:
    """Seconds of a step: between two events on the device, or of the host where the host computes."""

    def __init__(self, device: torch.device):
        self._on_device = device.type == "cuda"

    def begin(self) -> None:
        if self._on_device:
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            torch.cuda.synchronize()
            self._events[0].record()
        self._begin = time.perf_counter()

    def end(self) -> float:
        if not self._on_device:
            return time.perf_counter() - self._begin
        self._events[1].record()
        torch.cuda.synchronize()
        return self._events[0].elapsed_time(self._events[1]) * 1e-3


class Run:
    """A model with its optimizer and one batch, on one device."""

    def __init__(self, configuration: Configuration, device: torch.device, precision: str):
        torch.manual_seed(0)
        dtype = PRECISIONS[precision].dtype
        self._device = device
        with torch.device(device):
            model = configuration.stack.model().to(dtype)
        if configuration.recompute:
            for i, layer in enumerate(model.layers):
                # Without early stop the whole layer is rebuilt, as torchtitan does it.
                model.layers[i] = checkpoint_wrapper(layer, preserve_rng_state=False, early_stop=False)
        self._model: nn.Module = model
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self._inputs = configuration.stack.inputs(device, dtype)
        self._clock = Clock(device)

    def _forward(self) -> torch.Tensor:
        return self._model(*self._inputs)

    def _step(self) -> None:
        self._forward().backward()
        self._optimizer.step()
        self._optimizer.zero_grad()

    def step(self) -> float:
        """Seconds of one training step."""
        self._clock.begin()
        self._step()
        return self._clock.end()

    def _held(self) -> list[torch.Tensor]:
        """All tensors that outlive a step."""
        states = [value for state in self._optimizer.state.values() for value in state.values()
                  if isinstance(value, torch.Tensor)]
        return [*self._model.parameters(), *self._model.buffers(), *self._inputs, *states]

    def peak_bytes(self) -> int:
        """The most that tensors hold during a step. Of a GPU: what PyTorch's allocator has handed out."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            self._step()
            return torch.cuda.max_memory_allocated()
        with PeakBytes(self._held()) as counter:
            self._step()
        return counter.peak

    def kept_bytes(self) -> int:
        kept = kept_bytes(self._model, self._forward)
        self._optimizer.zero_grad()
        return kept


def outcome(configuration: Configuration, device: torch.device, precision: str, steps: int) -> dict[str, Any]:
    run = Run(configuration, device, precision)
    for _ in range(WARM_UP_STEPS):
        run.step()
    times = [run.step() for _ in range(steps)]
    return {"times_s": times, "peak_bytes": run.peak_bytes(), "kept_bytes": run.kept_bytes()}


def main(size: str, name: str, device: str, precision: str, steps: str, out: str) -> None:
    process_memory.keep_freed_memory()
    measured = outcome(named(size, name), torch.device(device), precision, int(steps))
    pathlib.Path(out).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
