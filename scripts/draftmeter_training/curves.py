"""Curves of a training run: losses of the decoder and its head, and drafts that match held-out text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

STYLE: dict[str, Any] = {
    "font.size": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "draftmeter training curves",
}
# Each point of the training losses is the mean of so many reports: one batch alone is noisy.
SMOOTHED = 5


def plot_training(history: Sequence[dict[str, Any]], paths: Sequence[Path]) -> None:
    """Three panels from the entries of history.json, written to each of `paths` (.svg, .png).

    Raises ValueError for a history without a watch of held-out text.
    """
    reports = [entry for entry in history if "loss" in entry]
    watches = [entry for entry in history if "held_out" in entry]
    if not watches:
        raise ValueError("history: holds no watch of held-out text")
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        losses, held_out, drafts = figure.subplots(1, 3)
        steps = _smoothed([entry["step"] for entry in reports])
        losses.plot(steps, _smoothed([entry["loss"] for entry in reports]), label="decoder", color="black")
        for depth in range(len(reports[0]["head_loss"]) if reports else 0):
            values = _smoothed([entry["head_loss"][depth] for entry in reports])
            losses.plot(steps, values, label=f"head, draft {depth + 1}", linewidth=0.8, color=f"{0.3 + 0.2 * depth}")
        at = [entry["step"] for entry in watches]
        for kind in watches[0]["held_out"]:
            found = [entry["held_out"][kind] for entry in watches]
            line = held_out.plot(at, [one["loss"] for one in found], marker=".", label=kind)[0]
            drafts.plot(at, [one["drafts_match"][0] for one in found], marker=".", color=line.get_color())
            drafts.plot(at, [one["drafts_match"][-1] for one in found], color=line.get_color(), linestyle=":")
        losses.set(xlabel="step", ylabel="training loss (nats a token)")
        held_out.set(xlabel="step", ylabel="held-out loss (nats a token)")
        drafts.set(xlabel="step", ylabel="held-out drafts that are the text", ylim=(0, 1))
        drafts.set_title("first draft: solid, all drafts: dotted", fontsize=7)
        losses.legend()
        figure.legend(*held_out.get_legend_handles_labels(), loc="outside upper right", ncols=len(watches[0]["held_out"]))
        for path in paths:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _smoothed(values: list[float]) -> list[float]:
    return [
        sum(values[first : first + SMOOTHED]) / len(values[first : first + SMOOTHED]) for first in range(0, len(values), SMOOTHED)
    ]
