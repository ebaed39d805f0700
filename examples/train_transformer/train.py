"""Train a small transformer to reverse sequences, and plot the losses and the accuracy.

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

# Okabe and Ito's colours, which are safe for colour-blind readers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_INK = "#222222"


def number_from(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of command-line arguments: whole numbers within bounds."""
    bounds_text = f"from {least} {'on' if most is None else f'to {most}'}"

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number {bounds_text}")
        return int(text)

    return number


def figure_path(text: str) -> Path:
    """Parse the path of a figure, and check it before hours of training."""
    path = Path(text)
    is_in_folder = path.parent.is_dir() and not path.is_dir()
    if path.suffix not in (".png", ".svg", ".pdf") or not is_in_folder:
        raise argparse.ArgumentTypeError(f"{text!r} is no .png, .svg or .pdf in a folder")
    if importlib.util.find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("a figure needs matplotlib, which is not installed")
    return path


LOGITS_INTERVAL = 10
"""The number of steps between downloads of the logits; the other steps download only the loss."""


def train(name: str, steps: int, seed: int) -> tuple[list[float], dict[int, float]]:
    """Train on a device; return the loss of each step, and the accuracy by step."""
    losses, accuracy_by_step = [], {}
    with open_device(name) as device:
        begin = time.perf_counter()
        training = Training(device, Shape(), seed)
        start = time.perf_counter()
        print(
            f"{name}: {len(training.recording.steps)} steps of work recorded in "
            f"{start - begin:.1f} s, {training.model.parameters.nbytes // 4:,} parameters"
        )
        for number, loss in enumerate(training.losses(steps), 1):
            losses.append(loss)
            if number in (1, steps) or not number % LOGITS_INTERVAL:
                accuracy_by_step[number] = accuracy(training.logits(), training.targets)
            if number in (1, steps) or not number % (5 * LOGITS_INTERVAL):
                print(f"step {number}: loss {loss:.4f}, {accuracy_by_step[number]:.1%} right")
        seconds = time.perf_counter() - start
    print(f"{1000 * seconds / steps:.2f} ms a step")
    return losses, accuracy_by_step


def draw(curves: Mapping[str, tuple[list[float], dict[int, float]]], path: Path) -> None:
    """Plot the losses and the accuracy on each device."""
    # Not pyplot: it would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for index, (name, (losses, shares)) in enumerate(curves.items()):
        style = {
            "label": name, "color": _COLOURS[index % len(_COLOURS)],
            "linewidth": 3.5 / (1 + index), "alpha": 1 if index else 0.5,
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
    """Train on each device of --device, and compare their losses."""
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
        first_curve, other_curve = (
            np.array(curves[device_name][0]) for device_name in (first, name)
        )
        difference = float(np.max(np.abs(first_curve - other_curve) / first_curve))
        print(f"losses of {name} differ from those of {first} by at most {difference:.1e} of them")
    if options.plot is not None:
        try:
            draw(curves, options.plot)
        except OSError as error:
            parser.exit(OutputError.exit_code, f"{options.plot}: {error.strerror}\n")


if __name__ == "__main__":
    main()
