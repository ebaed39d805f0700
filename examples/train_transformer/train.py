"""Trains a small transformer to say sequences backwards, and draws how it learns.

python examples/train_transformer/train.py --device cpu
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from reversal import accuracy
from training import Training
from transformer import Shape

from quod.device import open_device
from quod.errors import OutputError, QuodError

# Okabe and Ito's colours, which all kinds of sight tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_INK = "#222222"


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type of arguments: whole numbers within bounds."""
    within = f"from {least} {'on' if most is None else f'to {most}'}"

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number {within}")
        return int(text)

    return number


def figure_path(text: str) -> Path:
    """Parse the path of a figure, and check it before hours of training."""
    path = Path(text)
    is_placed = path.parent.is_dir() and not path.is_dir()
    if path.suffix not in (".png", ".svg", ".pdf") or not is_placed:
        raise argparse.ArgumentTypeError(f"{text!r} is no .png, .svg or .pdf in a folder")
    if importlib.util.find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("a figure needs matplotlib, which is not installed")
    return path


LOOKS = 10
"""The steps from one look at the logits to the next; between them, the loss alone comes back."""


def train(name: str, steps: int, seed: int) -> tuple[list[float], dict[int, float]]:
    """The losses of all steps on a device, and the share that is right by step."""
    losses, right = [], {}
    with open_device(name) as device:
        begin = time.perf_counter()
        training = Training(device, Shape(), seed)
        recorded = time.perf_counter()
        print(
            f"{name}: {len(training.recording.steps)} steps of work recorded in "
            f"{recorded - begin:.1f} s, {training.model.parameters.nbytes // 4:,} parameters"
        )
        for number, loss in enumerate(training.losses(steps), 1):
            losses.append(loss)
            if number in (1, steps) or not number % LOOKS:
                right[number] = accuracy(training.logits(), training.targets)
            if number in (1, steps) or not number % (5 * LOOKS):
                print(f"step {number}: loss {loss:.4f}, {right[number]:.1%} right")
        seconds = time.perf_counter() - recorded
    print(f"{1000 * seconds / steps:.2f} ms a step")
    return losses, right


def draw(curves: Mapping[str, tuple[list[float], dict[int, float]]], path: Path) -> None:
    """The losses of several devices, and what share was right, as a figure."""
    # Not pyplot: it would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for at, (name, (losses, shares)) in enumerate(curves.items()):
        style = {
            "label": name, "color": _COLOURS[at % len(_COLOURS)],
            "linewidth": 3.5 / (1 + at), "alpha": 1 if at else 0.5,
        }  # fmt: skip
        left.plot(np.arange(1, len(losses) + 1), losses, **style)
        right.plot([*shares], [*shares.values()], **style)
    left.set(xlabel="step", ylabel="cross-entropy", yscale="log")
    right.set(xlabel="step", ylabel="symbols that are right", ylim=(0, 1.02))
    right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, labelsize=9)
        axes.grid(color="#e6e6e6", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=120, metadata={"Software": None} if path.suffix == ".png" else None)


def main() -> None:
    """Trains on each device that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", nargs="+", default=["cpu"], help="one or several, to compare")
    parser.add_argument("--steps", type=number_from(1), default=200)
    parser.add_argument("--seed", type=number_from(0), default=0)
    parser.add_argument("--plot", type=figure_path, metavar="FILE", help="where the figure goes")
    options = parser.parse_args()
    curves = {}
    try:
        for name in options.device:
            curves[name] = train(name, options.steps, options.seed)
    except QuodError as error:
        parser.exit(error.exit_code, f"{error}\n")
    first, *others = options.device
    for name in others:
        first_curve, other_curve = (np.array(curves[each][0]) for each in (first, name))
        apart = float(np.max(np.abs(first_curve - other_curve) / first_curve))
        print(f"losses of {name} differ from those of {first} by at most {apart:.1e} of them")
    if options.plot is not None:
        try:
            draw(curves, options.plot)
        except OSError as error:
            parser.exit(OutputError.exit_code, f"{options.plot}: {error.strerror}\n")


if __name__ == "__main__":
    main()
