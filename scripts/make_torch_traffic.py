#!/usr/bin/env python3
"""Counts what FSDP2 sends between four real processes, as an oracle for simulator/step.

Writes tests/data/torch_traffic/fsdp2.csv: the collectives of one forward and one backward of
tests/data/torch_counts/llama_gqa.json, each layer and the root sharded by `fully_shard` with bf16
parameters and fp32 reduction, on meshes of (dp_replicate, dp_shard) ranks over gloo. Bytes have the
meaning of nccl-tests: the whole receive buffer of a gather, the whole send buffer of a
reduce-scatter, the buffer of an all-reduce. Needs torch and transformers; runs on the CPU.
"""

import collections
import csv
import os
import pathlib

import torch
import torch.distributed as dist
import torch.multiprocessing
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

DATA = pathlib.Path(__file__).resolve().parents[1] / "tests" / "data"
RANKS, MESHES = 4, [(1, 4), (2, 2)]
# Names in torch 2.13; where the counted buffer stands.
COUNTED = {"all_gather_single": ("all_gather", "output_tensor"),
           "reduce_scatter_single": ("reduce_scatter", "input"), "all_reduce": ("all_reduce", "tensor")}


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def counting(log: collections.Counter) -> None:
    """Notes every collective that FSDP starts from here on."""
    for name, (kind, buffer) in COUNTED.items():
        real = getattr(dist, name)

        def counted(*arguments, real=real, kind=kind, buffer=buffer, **named):
            if buffer in named:
                tensor = named[buffer]
            else:
                tensor = arguments[1 if buffer == "input" else 0]
            log[kind, bytes_of(tensor), dist.get_world_size(named.get("group"))] += 1
            return real(*arguments, **named)

        setattr(dist, name, counted)


def train(rank: int, mesh_shape: tuple[int, int], port: int, answer) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    config = transformers.AutoConfig.from_pretrained(DATA / "torch_counts" / "llama_gqa.json")
    model = transformers.AutoModelForCausalLM.from_config(config)
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("dp_replicate", "dp_shard"))
    mesh = mesh if mesh_shape[0] > 1 else mesh["dp_shard"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    log: collections.Counter = collections.Counter()
    counting(log)
    tokens = torch.randint(0, config.vocab_size, (1, 32))
    model(input_ids=tokens, labels=tokens).loss.backward()
    if rank == 0:
        answer.put(dict(log))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    out = DATA / "torch_traffic" / "fsdp2.csv"
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["replicas", "shards", "collective", "bytes", "ranks", "times", "torch"])
        for number, mesh in enumerate(MESHES):
            answer = torch.multiprocessing.get_context("spawn").SimpleQueue()
            workers = torch.multiprocessing.spawn(train, args=(mesh, 29600 + number, answer), nprocs=RANKS, join=False)
            counts = answer.get()
            while not workers.join():
                pass
            for (kind, size, ranks), times in sorted(counts.items()):
                writer.writerow([*mesh, kind, size, ranks, times, torch.__version__.split("+")[0]])
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
