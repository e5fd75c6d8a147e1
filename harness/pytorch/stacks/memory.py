"""Bytes that a training step keeps and holds."""

import weakref
from typing import Any, Callable, Iterable

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def kept_bytes(model: nn.Module, forward: Callable[[], torch.Tensor]) -> int:
    """Bytes of the storages that autograd keeps from forward to backward; parameters and buffers left out."""
    own = {storage_of(tensor) for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if storage_of(tensor) not in own:
            kept[storage_of(tensor)] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    held = sum(storage.nbytes() for storage in kept.values())
    loss.backward()
    return held


class PeakBytes(TorchDispatchMode):
    """The most bytes that tensors hold at once while it is entered, on a device whose allocator keeps no such
    count: every result of an operator counts until its storage is freed. What a kernel takes and gives back
    by itself is not seen. `held` counts from the start."""

    def __init__(self, held: Iterable[torch.Tensor]):
        super().__init__()
        self._sizes: dict[int, int] = {}
        self._now = self.peak = 0
        for tensor in held:
            self._count(tensor)

    def _count(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata  # pylint: disable=protected-access
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self._now += self._sizes[key]
            self.peak = max(self.peak, self._now)
            weakref.finalize(storage, self._free, key)
        return tensor

    def _free(self, key: int) -> None:
        self._now -= self._sizes.pop(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return tree_map_only(torch.Tensor, self._count, result)
