"""The table of predicted and measured steps."""

import statistics
from typing import Any, Mapping, Sequence

TIME_TOLERANCE = 0.20


def error(predicted: float, measured: float) -> float:
    return predicted / measured - 1


def table(names: Sequence[str], predicted: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """Time of a step in the median of those measured, and the peak of memory."""
    lines = [f"{'run':18} {'predicted ms':>12} {'measured ms':>11} {'error':>7}   "
             f"{'peak GB, predicted':>18} {'measured':>9} {'error':>7}"]
    times, peaks = [], []
    for name in names:
        p, m = predicted[name], measured[name]
        if "failed" in m:
            lines.append(f"{name:18} {1e3 * p['step_time_s']:12.1f} {'-':>11} {'-':>7}   "
                         f"{p['peak_bytes'] / 1e9:18.3f} {m['failed']}")
            continue
        step_s = statistics.median(m["times_s"])
        times.append(error(p["step_time_s"], step_s))
        peaks.append(error(p["peak_bytes"], m["peak_bytes"]))
        lines.append(f"{name:18} {1e3 * p['step_time_s']:12.1f} {1e3 * step_s:11.1f} {times[-1]:+7.1%}   "
                     f"{p['peak_bytes'] / 1e9:18.3f} {m['peak_bytes'] / 1e9:9.3f} {peaks[-1]:+7.1%}")
    if times:
        within = sum(abs(one) <= TIME_TOLERANCE for one in times)
        lines.append(f"\nstep time: {within} of {len(names)} runs within {TIME_TOLERANCE:.0%}, median error "
                     f"{statistics.median(map(abs, times)):.1%}; peak of memory: largest error "
                     f"{max(map(abs, peaks)):.1%}")
    return "\n".join(lines)
