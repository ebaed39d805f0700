"""Write a page that trains the transformer in the browser, on the reader's own GPU.

python examples/train_transformer/export_page.py -o build/training --serve
"""

from __future__ import annotations

import argparse
import json
import math
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from train import number_from
from training import LEARNING_RATE, WARM_UP, WEIGHT_DECAY, Training
from transformer import BETAS, Shape, Transformer

from quod.device import open_device, recorder_of
from quod.device.export.device import ExportDevice
from quod.errors import OutputError, QuodError
from quod.formats import write_all_atomically
from quod.formats.output import Content
from quod.web import GraphFiles, Stage, graph_files, graph_runtime_files, runtime_files
from quod.web.data_files import listed
from quod.web.serve import site_server

PAGE = Path(__file__).parent / "page"
SCHEMA = "quod-training-1"


def step_files(shape: Shape, seed: int) -> GraphFiles:
    """Return the files of a training step's graph, with the initial parameters."""
    device = ExportDevice()
    model = Transformer(device, shape, seed)
    stream = device.stream("train").record()
    model.step(recorder_of(device, stream))
    stage = Stage("train", stream.finish().recording)
    inputs = {"tokens": model.tokens, "targets": model.targets, "rates": model.rates}
    return graph_files(
        device, [stage], inputs=inputs, outputs={"loss": model.loss, "logits": model.logits}
    )


def page_files(shape: Shape, seed: int, losses: list[float]) -> dict[str, Content]:
    """Return all files of the page by name.

    losses: the losses of training on a CPU, which the page draws next to its own.
    """
    graph = step_files(shape, seed)
    document = graph.files["graph.json"]
    assert isinstance(document, bytes)
    training: dict[str, Any] = {
        "schema": SCHEMA,
        "shape": asdict(shape),
        "parameters": sum(math.prod(sizes) for _, sizes, _ in shape.parameters()),
        "rates": {
            "learningRate": LEARNING_RATE, "warmUp": WARM_UP, "weightDecay": WEIGHT_DECAY,
            "beta1": BETAS[0], "beta2": BETAS[1],
        },
        "losses": losses,
        "needs": {"limits": dict(graph.limits), "features": [], "memory": graph.memory},
        "files": {"graph.json": listed(document)},
    }  # fmt: skip
    files: dict[str, Content] = {**graph_runtime_files(), "icon.svg": runtime_files()["icon.svg"]}
    files |= {path.name: path.read_bytes() for path in PAGE.iterdir()}
    return {**files, **graph.files, "training.json": json.dumps(training).encode()}


def write_page(folder: Path, shape: Shape, *, seed: int = 0, steps: int = 200) -> int:
    """Write the page to a new or empty folder, or over an earlier page; return its bytes.

    steps: the number of steps to train on the CPU, for comparison.
    Raises OutputError for a folder with other files, which would be published too.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "training.json").is_file():
        raise OutputError(f"{folder}: has other files; name an empty or a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: could not be made ({error.strerror}); name a folder that may be"
        ) from error
    with open_device("cpu") as device:
        losses = [*Training(device, shape, seed).losses(steps)]
    files = page_files(shape, seed, losses)
    write_all_atomically({folder / name: content for name, content in files.items()})
    return sum((folder / name).stat().st_size for name in files)


def main() -> None:
    """Write the page, and serve it with --serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", "-o", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--seed", type=number_from(0), default=0)
    parser.add_argument("--serve", action="store_true", help="on this machine, until Ctrl-C")
    parser.add_argument("--port", type=number_from(0, 65535), default=0)
    options = parser.parse_args()
    try:
        size = write_page(options.out, Shape(), seed=options.seed)
        print(f"wrote {size / 1000:.0f} kB to {options.out}")
        if options.serve:
            with site_server(options.out, options.port) as server:
                print(f"http://localhost:{server.server_port}/ (Ctrl-C ends it)", flush=True)
                with suppress(KeyboardInterrupt):
                    server.serve_forever()
    except QuodError as error:
        parser.exit(error.exit_code, f"{error}\n")


if __name__ == "__main__":
    main()
