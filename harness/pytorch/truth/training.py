"""A real training run of one configuration: parallel wrapping, timed steps, counted activations.

  torchrun --nproc-per-node 2 -m truth.training NAME STEPS OUT.json [undisturbed]

Every process stays on a core of its own. A configuration of one process runs in each of them by itself, so
that all configurations find the machine equally busy; the first one's times count.
"""

import json
import os
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, loss_parallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

import process_memory
import process_priority
from gpt import Gpt, loss_of

from .configurations import BY_NAME, Configuration

WARM_UP_STEPS = 2


def split_tensors(model: Gpt) -> None:
    """Tensor parallelism as Megatron-LM splits a layer; vocabulary-parallel embedding and head."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan: dict[str, object] = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    for i in range(len(model.blocks)):
        plan |= {f"blocks.{i}.qkv": ColwiseParallel(), f"blocks.{i}.attention_output": RowwiseParallel(),
                 f"blocks.{i}.fc1": ColwiseParallel(), f"blocks.{i}.fc2": RowwiseParallel()}
    parallelize_module(model, mesh, plan)


def wrapped(configuration: Configuration) -> nn.Module:
    model = Gpt(configuration.model)
    if configuration.parallelism == "tp":
        split_tensors(model)
    if configuration.recompute:
        for i, block in enumerate(model.blocks):
            # Without early stop the whole layer is rebuilt, as torchtitan does it.
            model.blocks[i] = checkpoint_wrapper(block, preserve_rng_state=False, early_stop=False)
    if configuration.parallelism == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    if configuration.parallelism == "fsdp":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Fused AdamW; sharded and plain parameters in groups of their own, since one kernel takes one kind."""
    parameters = list(model.parameters())
    kinds = ([p for p in parameters if isinstance(p, DTensor)],
             [p for p in parameters if not isinstance(p, DTensor)])
    return torch.optim.AdamW([{"params": kind} for kind in kinds if kind], lr=1e-4, fused=True)


class Run:
    def __init__(self, configuration: Configuration):
        self._configuration = configuration
        self._model = wrapped(configuration)
        self._optimizer = optimizer_of(self._model)
        shape = (configuration.micro_batch, configuration.sequence_length)
        # Tensor-parallel ranks work on the same tokens.
        torch.manual_seed(dist.get_rank() if configuration.data_parallel > 1 else 0)
        self._tokens = torch.randint(0, configuration.model.vocabulary, shape)
        self._targets = torch.randint(0, configuration.model.vocabulary, shape)

    def _forward(self) -> torch.Tensor:
        return loss_of(self._model(self._tokens), self._targets)

    def _loss_region(self):
        """Logits stay split over the vocabulary where tensors are."""
        return loss_parallel() if self._configuration.tensor_parallel > 1 else nullcontext()

    def step(self) -> float:
        """Seconds of one training step; the ranks start together."""
        if self._configuration.ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        with self._loss_region():
            self._forward().backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return time.perf_counter() - begin

    def _parameter_storages(self) -> set[int]:
        """Storages of the parameters as the modules hold them now, gathered or sharded."""
        return {local(p).untyped_storage().data_ptr() for p in self._model.parameters()}

    def kept_bytes(self) -> int:
        """Bytes of the storages that autograd keeps from forward to backward, parameters left out."""
        kept: dict[int, torch.UntypedStorage] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = local(tensor).untyped_storage()
            if storage.data_ptr() not in self._parameter_storages():
                kept[storage.data_ptr()] = storage
            return tensor

        with self._loss_region():
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                loss = self._forward()
            held = sum(storage.nbytes() for storage in kept.values())
            loss.backward()
        self._optimizer.zero_grad()
        return held


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def main(name: str, steps: int, out: str, undisturbed: bool) -> None:
    configuration = BY_NAME[name]
    rank = int(os.environ["LOCAL_RANK"])
    os.sched_setaffinity(0, {rank})
    process_memory.keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if configuration.ranks > 1:
        dist.init_process_group("gloo")
    run = Run(configuration)
    if undisturbed:
        process_priority.run_undisturbed()
    for _ in range(WARM_UP_STEPS):
        run.step()
    times = [run.step() for _ in range(steps)]
    kept = run.kept_bytes()
    if rank == 0:
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"name": name, "times_s": times, "kept_bytes": kept}, file)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:] == ["undisturbed"])
