"""The table of predicted against measured runs, and whether it meets the targets."""

from typing import Any, Mapping, Sequence

from .configurations import Configuration

TIME_TOLERANCE, SHARE_WITHIN = 0.20, 0.8  # eight of ten runs within 20 %
RANK_CORRELATION = 0.9
BYTES_TOLERANCE = 0.05


def ranks(values: Sequence[float]) -> list[float]:
    """Positions when sorted, from 1; equal values share their mean position."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation: Pearson's of the ranks. 0 where one side is constant."""
    x, y = ranks(a), ranks(b)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((i - mean_x) * (j - mean_y) for i, j in zip(x, y))
    spread = (sum((i - mean_x) ** 2 for i in x) * sum((j - mean_y) ** 2 for j in y)) ** 0.5
    return covariance / spread if spread > 0 else 0.0


class Table:
    def __init__(self, wanted: Sequence[Configuration], predictions: Mapping[str, Any],
                 measured: Mapping[str, Any]):
        self._rows = [(c.name, c.ranks, predictions[c.name], measured[c.name]) for c in wanted]

    def time_errors(self) -> list[float]:
        return [p["step_time_s"] / m["mean_s"] - 1 for _, _, p, m in self._rows]

    def bytes_errors(self) -> list[float]:
        return [p["kept_bytes"] / m["kept_bytes"] - 1 for _, _, p, m in self._rows]

    def rank_correlation(self) -> float:
        return spearman([p["step_time_s"] for _, _, p, _ in self._rows],
                        [m["mean_s"] for _, _, _, m in self._rows])

    def within(self) -> int:
        return sum(abs(error) <= TIME_TOLERANCE for error in self.time_errors())

    def targets_met(self) -> bool:
        return (self.within() >= SHARE_WITHIN * len(self._rows) and self.rank_correlation() >= RANK_CORRELATION
                and max(map(abs, self.bytes_errors())) <= BYTES_TOLERANCE)

    def text(self) -> str:
        lines = [f"{'run':24} {'ranks':>5} {'predicted ms':>12} {'measured ms':>11} {'error':>7}   "
                 f"{'kept MB, predicted':>18} {'measured':>9} {'error':>7}"]
        for (name, count, p, m), time_error, bytes_error in zip(self._rows, self.time_errors(),
                                                                self.bytes_errors()):
            lines.append(f"{name:24} {count:5} {1e3 * p['step_time_s']:12.1f} {1e3 * m['mean_s']:11.1f} "
                         f"{time_error:+7.1%}   {p['kept_bytes'] / 1e6:18.2f} {m['kept_bytes'] / 1e6:9.2f} "
                         f"{bytes_error:+7.2%}")
        absolute = sorted(map(abs, self.time_errors()))
        lines.append(f"\nstep time: {self.within()} of {len(self._rows)} runs within {TIME_TOLERANCE:.0%}, median error "
                     f"{absolute[len(absolute) // 2]:.1%}, rank correlation {self.rank_correlation():.3f}; "
                     f"kept activations: largest error {max(map(abs, self.bytes_errors())):.2%}")
        return "\n".join(lines)
