"""How this process's allocator treats memory that tensors gave back."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Freed memory stays with the process, as the allocators that PyTorch's guides recommend for CPUs do.

    glibc hands large blocks back to the system, which clears every page when it is next asked for one; in a
    training step that costs as much as the element-wise kernels. False where the C library is another one.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_ARENA_MAX, 1)])
