"""This CPU as a device file: peaks and bandwidth from short measurements, the rest from the system."""

import os
import pathlib
import re
from typing import Callable

import torch
from torch.nn import functional as F

from measuring import CpuClock

MIB = 1 << 20
GIB = 1 << 30


def cpu_facts() -> tuple[str, str, float]:
    """Vendor, model name and clock in Hz of the first CPU."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")

    def field(name: str, fallback: str) -> str:
        found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
        return found.group(1).strip() if found else fallback

    return field("vendor_id", "unknown"), field("model name", "CPU"), float(field("cpu MHz", "1000")) * 1e6


def level_2_cache_bytes() -> int:
    """Size of the last cache that a core has to itself; 1 MiB where the system does not say."""
    folder = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(folder.glob("index*")):
        if (index / "level").read_text().strip() == "2":
            size = (index / "size").read_text().strip()
            return int(size[:-1]) * {"K": 1 << 10, "M": MIB}[size[-1]]
    return MIB


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def fastest(call: Callable[[], object], repeats: int = 15) -> float:
    """Seconds of the least disturbed of some calls."""
    call()
    return min(CpuClock().run([call], 1) for _ in range(repeats))


def best_product_rate(dtype: torch.dtype) -> float:
    """FLOP/s of the fastest of some large products."""
    best = 0.0
    for rows, size in ((512, 512), (1024, 1024), (1024, 2048)):
        a, b = torch.randn(rows, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
        best = max(best, 2.0 * rows * size * size / fastest(lambda: F.linear(a, b)))
    return best


def stream_bandwidth() -> float:
    """Bytes read and written per second by sums of two arrays larger than a core's own cache. A last cache
    that many cores share counts as memory: what of it a process gets is not its own to say."""
    best = 0.0
    for size in (4 * MIB, 16 * MIB, 64 * MIB):
        a, b, out = (torch.randn(size // 4) for _ in range(3))
        best = max(best, 3.0 * size / fastest(lambda: torch.add(a, b, out=out)))
    return best


def device_text(name: str, threads: int) -> str:
    """A device file of a process of `threads` threads on this machine."""
    vendor, model, clock_hz = cpu_facts()
    cores = os.cpu_count() or threads
    bandwidth = stream_bandwidth() / 1e9
    fp32, bf16 = (best_product_rate(dtype) / 1e12 for dtype in (torch.float32, torch.bfloat16))
    peaks = f"  fp32: {fp32:.4f} TFLOP/s\n"
    if bf16 > fp32:  # else the machine has no unit for it
        peaks += f"  bf16: {bf16:.4f} TFLOP/s\n"
    return f"""name: {name}
aliases: []
vendor: {vendor}
architecture: CPU
sm_count: {threads}
boost_clock: {clock_hz / 1e9:.3f} GHz
peaks:
{peaks}memory: {memory_bytes() / GIB:.2f} GiB
memory_bandwidth: {bandwidth:.2f} GB/s
l2_cache: {level_2_cache_bytes() / MIB:.2f} MiB
scale_up:
  link: shared memory
  bandwidth: {bandwidth / 2:.2f} GB/s
  size: {max(1, cores // threads)}
  switched: true
pcie_bandwidth: {bandwidth / 2:.2f} GB/s
node:
  devices: {max(1, cores // threads)}
  host_memory: {memory_bytes() / GIB:.2f} GiB
power: 100 W
sources:
  - "peaks, memory_bandwidth: measured by harness/pytorch/host_device.py, torch {torch.__version__}, {threads} threads"
  - "the rest: /proc and /sys of the machine ({model})"
unconfirmed: [power, pcie_bandwidth, scale_up.bandwidth]
note: "A process of {threads} threads counts as one device. Rates are what PyTorch reached, not a data sheet's."
"""
