#!/usr/bin/env python3
"""Counts what PyTorch sends between real gloo processes, as an oracle for collectives of plans.

A small Llama (two layers, fp32) runs one forward and one backward under each way of PyTorch to
split it, in 2 or 4 processes on this machine. Every collective that rank 0 hands to its process
group is counted by its tensors: bytes have nccl-tests' meaning (all_reduce: the buffer; all_gather:
what is received; reduce_scatter, all_to_all: what is given; send_recv: the message).

Writes tests/data/wire_counts/counts.csv, one row per case, pass and kind, and model.json. Needs
torch and runs on the CPU in a minute.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
    parallelize_module)
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH, SEQUENCE = 2, 32
EXPERTS, TOP_K, MICRO_BATCHES = 8, 2, 4
MODEL = dict(model_type="llama", hidden_size=64, intermediate_size=160, num_hidden_layers=2,
             num_attention_heads=8, num_key_value_heads=4, vocab_size=128,
             max_position_embeddings=64, tie_word_embeddings=False)
HEADS, KV_HEADS = MODEL["num_attention_heads"], MODEL["num_key_value_heads"]
HIDDEN, WIDE, VOCABULARY = MODEL["hidden_size"], MODEL["intermediate_size"], MODEL["vocab_size"]
HEAD_DIM = HIDDEN // HEADS


class RingAttention(torch.autograd.Function):
    """PyTorch's ring over the ranks of the default group, with the CPU's kernel for the blocks."""

    @staticmethod
    def forward(ctx, q, k, v):
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        call = lambda query, key, value, is_causal: kernel(query, key, value, 0.0, is_causal)
        out, lse = ring._templated_ring_attention(dist.group.WORLD, 2, call, q, k, v,
                                                  is_causal=True)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, out, lse = ctx.saved_tensors
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

        def call(grad_out, query, key, value, out, logsumexp, is_causal):
            return kernel(grad_out, query, key, value, out, logsumexp, 0.0, is_causal)

        return ring._templated_ring_attention_backward(
            dist.group.WORLD, 2, call, gradient, "grad_out", q, k, v, out, lse, is_causal=True)


class Attention(nn.Module):
    def __init__(self, core=None):
        super().__init__()
        self.core = core or (lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True))
        self.wq = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.wk = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.wv = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.wo = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        return self.wo(self.core(q, k, v).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """Experts of this rank, with the three exchanges of torchtitan's all-to-all token dispatcher
    (models/common/token_dispatcher.py): counts, tokens, outputs. Every expert gets as many tokens."""

    def __init__(self, world):
        super().__init__()
        self.world = world
        self.w1 = nn.Parameter(torch.randn(EXPERTS // world, HIDDEN, WIDE) / 8)
        self.w2 = nn.Parameter(torch.randn(EXPERTS // world, WIDE, HIDDEN) / 8)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        copies = tokens.repeat_interleave(TOP_K, 0)
        counts = torch.full((EXPERTS,), len(copies) // EXPERTS)
        dist.all_to_all_single(torch.empty_like(counts), counts)
        even = [len(copies) // self.world] * self.world
        received = all_to_all_single_autograd(copies, even, even, dist.group.WORLD)
        rows = received.view(len(self.w1), -1, HIDDEN)
        made = (F.silu(rows @ self.w1) @ self.w2).flatten(0, 1)
        returned = all_to_all_single_autograd(made, even, even, dist.group.WORLD)
        return returned.view(len(tokens), TOP_K, HIDDEN).sum(1).view_as(x)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(HIDDEN, WIDE, bias=False)
        self.w2 = nn.Linear(WIDE, HIDDEN, bias=False)
        self.w3 = nn.Linear(HIDDEN, WIDE, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(MODEL["num_hidden_layers"]))
        self.norm = nn.RMSNorm(HIDDEN)
        self.output = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(0, 1))


def bytes_of(tensors):
    tensors = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return sum(bytes_of(t) if isinstance(t, (list, tuple)) else t.nbytes for t in tensors)


# Operator of c10d -> (kind, which of its arguments is the buffer in nccl-tests' sense).
C10D = {
    "allreduce_": ("all_reduce", 0), "allreduce_coalesced_": ("all_reduce", 0),
    "_allgather_base_": ("all_gather", 0), "allgather_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1), "reduce_scatter_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "alltoall_base_": ("all_to_all", 1), "alltoall_": ("all_to_all", 1),
    "broadcast_": ("broadcast", 0), "send": ("send_recv", 0),
}
FUNCTIONAL = {
    "all_reduce": "all_reduce", "all_reduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all", "broadcast": "broadcast",
}
# Nothing is sent, or it is counted where it is sent.
SILENT = ("wait_tensor", "_wrap_tensor_autograd", "recv_", "recv_any_source_", "barrier")


class Wire(TorchDispatchMode):
    """Counts collectives by pass and kind."""

    def __init__(self):
        super().__init__()
        self.during = None
        self.counts = collections.Counter()
        self.bytes = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # first DTensor, then what it does to local tensors
        result = function(*args, **(kwargs or {}))
        space, name = function.namespace, function._schema.name.split("::")[1]
        if space == "c10d" and name in C10D:
            kind, place = C10D[name]
            self.add(kind, bytes_of(args[place]))
        elif space == "_c10d_functional" and name in FUNCTIONAL:
            kind = FUNCTIONAL[name]
            # Rotating a buffer is an all-to-all with one receiver.
            if kind == "all_to_all" and sum(split > 0 for split in args[2] or [1, 1]) == 1:
                kind = "send_recv"
            self.add(kind, bytes_of(result if kind == "all_gather" else args[0]))
        elif space in ("c10d", "_c10d_functional") and name not in SILENT:
            raise RuntimeError(f"{space}::{name} is not counted")
        return result

    def add(self, kind, size):
        if self.during is not None:
            self.counts[self.during, kind] += 1
            self.bytes[self.during, kind] += size


def batch():
    torch.manual_seed(1)
    return torch.randint(0, VOCABULARY, (2, BATCH, SEQUENCE))


def one_step(model, wire, part=slice(None)):
    tokens, labels = batch()[:, :, part]
    with wire:
        wire.during = "forward"
        loss = loss_of(model(tokens), labels)
        wire.during = "backward"
        loss.backward()
        wire.during = None


def ddp(wire, world):
    model = nn.parallel.DistributedDataParallel(Llama())
    one_step(model, wire)


def fsdp(wire, world, reshard):
    model = Llama()
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)
    one_step(model, wire)


def tensor_parallel(wire, world, sequence):
    mesh = init_device_mesh("cpu", (world,))
    model = Llama()
    kept = Shard(1) if sequence else Replicate()
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=kept),
        "output": ColwiseParallel(input_layouts=kept, output_layouts=Shard(-1),
                                  use_local_output=False),
    }
    if sequence:
        plan["norm"] = SequenceParallel()
    parallelize_module(model, mesh, plan)
    for layer in model.layers:
        plan = {
            "attention": PrepareModuleInput(input_layouts=(kept,),
                                            desired_input_layouts=(Replicate(),)),
            "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(),
            "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=kept),
            "feed_forward": PrepareModuleInput(input_layouts=(kept,),
                                               desired_input_layouts=(Replicate(),)),
            "feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=kept),
        }
        if sequence:
            plan |= {"attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel()}
        parallelize_module(layer, mesh, plan)
    with loss_parallel():
        one_step(model, wire)


def context_parallel(wire, world, method):
    ring.set_rotate_method(method)
    model = Llama()
    for layer in model.layers:
        layer.attention.core = lambda q, k, v: RingAttention.apply(
            q, *(x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v)))
    share = SEQUENCE // world
    one_step(model, wire, slice(dist.get_rank() * share, (dist.get_rank() + 1) * share))


def expert_parallel(wire, world):
    model = Llama()
    for layer in model.layers:
        layer.feed_forward = Experts(world)
    one_step(model, wire)


def pipeline(wire, world):
    model = Llama()
    rank = dist.get_rank()
    first, last = rank == 0, rank == world - 1
    if not first:
        model.tok_embeddings = nn.Identity()
    if not last:
        model.norm = model.output = nn.Identity()
    count = MODEL["num_hidden_layers"] // world
    model.layers = model.layers[rank * count:(rank + 1) * count]
    tokens, labels = (x.repeat(MICRO_BATCHES, 1) for x in batch())
    state = torch.zeros(BATCH, SEQUENCE, HIDDEN, requires_grad=True)
    stage = PipelineStage(model, rank, world, torch.device("cpu"),
                          input_args=tokens[:BATCH] if first else state,
                          output_args=torch.zeros(BATCH, SEQUENCE, VOCABULARY) if last else state)
    schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=loss_of)
    with wire:
        wire.during = "step"
        schedule.step(*([tokens] if first else []), **(dict(target=labels) if last else {}))
        wire.during = None


CASES = {
    "ddp": (ddp, {}, (2, 4)),
    "fsdp_reshard": (fsdp, dict(reshard=True), (2, 4)),
    "fsdp_keep": (fsdp, dict(reshard=False), (2, 4)),
    "tp": (tensor_parallel, dict(sequence=False), (2, 4)),
    "tp_sp": (tensor_parallel, dict(sequence=True), (2, 4)),
    "cp_ring": (context_parallel, dict(method="alltoall"), (2, 4)),
    "cp_all_gather": (context_parallel, dict(method="allgather"), (2, 4)),
    "ep": (expert_parallel, {}, (2, 4)),
    "pp": (pipeline, {}, (2,)),
}


def worker(rank, world, case, port_file, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{port_file}", rank=rank, world_size=world)
    run, options, _ = CASES[case]
    torch.manual_seed(0)
    wire = Wire()
    run(wire, world, **options)
    if rank == 0:
        rows = [dict(case=case, ranks=world, **{"pass": during}, kind=kind, calls=calls,
                     bytes=wire.bytes[during, kind])
                for (during, kind), calls in sorted(wire.counts.items())]
        (pathlib.Path(folder) / "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="only these, printed instead of written")
    chosen = parser.parse_args().cases
    rows = []
    for case in chosen or CASES:
        for world in CASES[case][2]:
            with tempfile.TemporaryDirectory() as folder:
                mp.spawn(worker, (world, case, os.path.join(folder, "store"), folder), nprocs=world)
                rows += json.loads((pathlib.Path(folder) / "rows.json").read_text())
    for row in rows:
        row["torch"] = torch.__version__.split("+")[0]
        print(*row.values())
    if chosen:
        return
    out = ROOT / "tests/data/wire_counts"
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.json").write_text(json.dumps(MODEL, indent=1) + "\n")
    with open(out / "counts.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
