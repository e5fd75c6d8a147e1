"""Collectives between the processes of a torchrun: sizes as nccl-tests count them."""

from typing import Any, Callable

import torch
import torch.distributed as dist

from bench_points import Point
from torch_operators import TYPES, Built

WIDTH = {"fp32": 4, "bf16": 2, "fp16": 2}


class RankGroup:
    """The processes that measure together; a lone process is a group of one."""

    def __init__(self, backend: str):
        dist.init_process_group(backend)
        self.size, self.rank = dist.get_world_size(), dist.get_rank()
        self._device = torch.device("cuda") if backend == "nccl" else torch.device("cpu")

    def largest(self, value: float) -> float:
        """The largest of what the ranks say, on all of them: a collective lasts as long as its last rank."""
        told = torch.tensor([value], dtype=torch.float64, device=self._device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        return float(told)


def collective_row(p: Point, ranks: int) -> dict[str, Any]:
    return {"op": p.op, "ngpus": ranks, "nodes": 1, "gpus_per_node": ranks, "bytes": p["size_bytes"],
            "dtype": p.dtype}


def exchange(send: torch.Tensor, receive: torch.Tensor) -> None:
    """Ranks 0 and 1 swap a message; the others wait."""
    rank = dist.get_rank()
    if rank > 1:
        return
    peer = 1 - rank
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, send, peer),
                                           dist.P2POp(dist.irecv, receive, peer)]):
        request.wait()


def build_collective(p: Point, ranks: int, device: torch.device) -> Built:
    count = max(ranks, p["size_bytes"] // WIDTH[p.dtype] // ranks * ranks)
    whole = torch.randn(count, device=device).to(TYPES[p.dtype])
    other = torch.randn(count, device=device).to(TYPES[p.dtype])
    part = whole[: count // ranks].clone()
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole, op=dist.ReduceOp.AVG if device.type == "cuda"
                                              else dist.ReduceOp.SUM),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "send_recv": lambda: exchange(whole, other),
    }
    return Built(calls[p.op], whole.untyped_storage().nbytes() * 2)
