"""How the pictures of these notebooks look, and the few drawings that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import HTML, Markdown, display
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

# Okabe and Ito's colours, which all kinds of eyes tell apart.
BLUE, ORANGE, GREEN, RED, SKY, PINK, YELLOW = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442")
INK, GREY, PALE = "#222222", "#8a8a8a", "#d9d9d9"
CYCLE = (BLUE, ORANGE, GREEN, RED, PINK, SKY, GREY)

# Kinds of a step's time: computing in blues and greens, exposed communication in warm colours, idle in greys.
TIME_KINDS = {
    "gemm": ("matrix products", "#0b3c5d"), "attention": ("attention", "#2f7fb5"),
    "elementwise": ("norms, activations", "#85bbdd"), "recompute": ("recompute", "#7cc6a4"),
    "optimizer": ("optimizer", "#2d8b67"), "host": ("launches", "#c7c7c7"),
    "tp": ("tensor parallel", "#e69f00"), "cp": ("context parallel", "#f2c45a"), "ep": ("expert parallel", "#d55e00"),
    "dp": ("data parallel", "#a63c06"), "pp": ("stage to stage", "#cc79a7"), "bubble": ("bubble", "#9a9a9a"),
}
MEMORY_KINDS = {
    "context": ("CUDA context", "#5a5a5a"), "communication": ("NCCL buffers", "#8a8a8a"),
    "workspace": ("workspaces", "#b5b5b5"), "parameters": ("parameters", "#0b3c5d"), "gradients": ("gradients", "#2f7fb5"),
    "optimizer_state": ("optimizer state", "#85bbdd"), "fp8_copies": ("FP8 copies", "#56b4e9"),
    "gathered": ("gathered parameters", "#2d8b67"), "fragmentation": ("fragmentation", "#d9d9d9"),
    "transient": ("transient", "#f2c45a"), "activations": ("activations", "#e69f00"),
}

GIB = 2.0**30


def use() -> None:
    """Sets matplotlib up: quiet axes, readable text, pictures as wide as a page."""
    plt.rcParams.update({
        "figure.figsize": (8.6, 4.3), "figure.dpi": 110, "figure.constrained_layout.use": True,
        "font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
        "axes.edgecolor": GREY, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.axisbelow": True, "grid.color": "#ececec", "grid.linewidth": 0.8,
        "axes.prop_cycle": plt.cycler(color=CYCLE), "xtick.color": INK, "ytick.color": INK,
        "legend.frameon": False, "legend.fontsize": 9, "lines.linewidth": 1.8, "scatter.edgecolors": "none",
    })


def share(value: float, digits: int = 1) -> str:
    """0.0512 -> 5.1 %"""
    return f"{100 * value:.{digits}f} %"


def say(text: str) -> None:
    """A sentence with computed numbers, as text of the page."""
    display(Markdown(text))


def table(frame: Any, formats: Mapping[str, str]) -> None:
    """A pandas frame as a table of the page; `formats` by column, as in "{:.1%}"."""
    display(HTML(frame.to_html(index=False, border=0, formatters={name: text.format for name, text in formats.items()})))


def percent(axis: Any) -> None:
    """Shares on an axis as percent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def powers(axis: Any, name: Callable[[float], str], ticks: Sequence[float]) -> None:
    """Ticks of a logarithmic axis, named."""
    axis.set_ticks(list(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: name(value)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def bytes_text(size: float) -> str:
    """1048576 -> 1 MiB"""
    for unit, scale in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size:g} B"


def seconds_text(time_s: float) -> str:
    """0.0001 -> 100 us"""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if time_s >= 0.999 * scale:
            return f"{time_s / scale:.3g} {unit}"
    return f"{time_s * 1e9:.3g} ns"


def stacked_bars(axes: Axes, labels: Sequence[str], rows: Sequence[Mapping[str, float]],
                 kinds: Mapping[str, tuple[str, str]], *, least: float = 0.0) -> None:
    """One horizontal bar per row, first on top; kinds that nowhere exceed `least` are left out."""
    places = np.arange(len(rows))
    left = np.zeros(len(rows))
    for kind, (name, colour) in kinds.items():
        values = np.array([row.get(kind, 0.0) for row in rows])
        if values.max(initial=0.0) <= least:
            continue
        axes.barh(places, values, left=left, color=colour, label=name, height=0.68)
        left += values
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)


def legend_beside(axes: Axes) -> None:
    """The legend to the right of the picture, where it covers nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.0)
