#!/usr/bin/env python3
"""Writes tests/data/torch_schedules/orders.csv: what PyTorch's pipeline schedules do, in order.

Needs torch (CPU) 2.10 or later: every schedule class computes the order of all ranks from the numbers
of ranks, stages and micro-batches, so that no process group is made. One line a rank:

    schedule,pp,vpp,micro_batches,rank,slots

A slot is work (F forward, B backward, I input gradient, W weight gradient), stage in the whole pipeline
and micro-batch, e.g. "F3.0"; two that run as one are joined by "+".
"""

import pathlib

from torch.distributed.pipelining import schedules as torch_schedules

SHAPES = {
    "Interleaved1F1B": [(2, 2, 4), (4, 3, 8), (4, 2, 4)],
    "InterleavedZeroBubble": [(4, 1, 8), (4, 1, 3), (4, 2, 8), (3, 3, 6)],
    "ZBVZeroBubble": [(2, 2, 8), (4, 2, 12), (4, 2, 5), (3, 2, 9)],
    "DualPipeV": [(2, 2, 4), (4, 2, 12), (3, 2, 7), (4, 2, 8)],
}
LETTERS = {
    torch_schedules.FORWARD: "F",
    torch_schedules.FULL_BACKWARD: "B",
    torch_schedules.BACKWARD_INPUT: "I",
    torch_schedules.BACKWARD_WEIGHT: "W",
}


class Bare:
    """The attributes that the order of one rank is computed from."""

    def __init__(self, pp, vpp, micro_batches):
        self.pp_group_size = pp
        self.n_local_stages = vpp
        self.num_stages = self._num_stages = pp * vpp
        self._n_microbatches = micro_batches
        self.number_of_rounds = max(1, micro_batches // pp)
        self.microbatches_per_round = micro_batches // self.number_of_rounds


def text(action):
    if action.sub_actions:
        return "+".join(text(each) for each in action.sub_actions)
    return f"{LETTERS[action.computation_type]}{action.stage_index}.{action.microbatch_index}"


def main():
    lines = ["schedule,pp,vpp,micro_batches,rank,slots"]
    for name, shapes in SHAPES.items():
        order = torch_schedules.get_schedule_class(name)._calculate_single_rank_operations
        for pp, vpp, micro_batches in shapes:
            for rank in range(pp):
                actions = order(Bare(pp, vpp, micro_batches), rank)
                slots = " ".join(text(action) for action in actions if action is not None)
                lines.append(f"{name},{pp},{vpp},{micro_batches},{rank},{slots}")
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = root / "tests/data/torch_schedules"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
