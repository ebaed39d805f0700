"""A model in Chromium: exported launches, token by token with a cache, the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quod.device.export.device import ExportDevice
from quod.errors import InputError
from quod.formats import write_all_atomically
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.program import Program
from quod.inference.transformer.reference import Reference
from quod.web import Stage, graph_files, graph_runtime_files
from quod.web.serve import HEADERS
from tests.inference.transformer.models import VOCABULARY
from tests.support.browser import Browser
from tests.support.site import serve

TOKENS = np.random.default_rng(9).integers(0, VOCABULARY, 4)
RUN = """async (tokens) => {
    const { loadGraph } = await import("./graph.js");
    const graph = await loadGraph("./");
    const logits = [];
    for (const [position, token] of tokens.entries()) {
        const { outputs } = await graph.run({
            state: new Uint32Array([position, 0]), tokens: new Uint32Array([token]),
        });
        logits.push([...new BigInt64Array(outputs.logits.slice().buffer)].map(String));
    }
    graph.destroy();
    return logits;
}"""


@pytest.fixture(scope="module")
def folder(programs: dict[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of the model, of one token for each run."""
    folder = tmp_path_factory.mktemp("page")
    device = ExportDevice()
    graph = DeviceModel(device, programs["uniform"], context=8).graph(1)
    exported = graph_files(
        device, [Stage("token", graph.recording)],
        inputs={"state": graph.state, "tokens": graph.tokens}, outputs={"logits": graph.logits},
    )  # fmt: skip
    files = graph_runtime_files() | exported.files
    write_all_atomically({folder / name: content for name, content in files.items()})
    (folder / "index.html").write_text("<!doctype html><title>model</title>")
    return folder


def test_logits_in_a_browser_equal_the_reference(
    browser: Browser, folder: Path, programs: dict[str, Program]
) -> None:
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.navigate(site.url)
        logits = page.call(RUN, TOKENS.tolist())
        assert page.exceptions == []
    expected = Reference(programs["uniform"]).logits(TOKENS)
    assert [[int(text) for text in row] for row in logits] == expected.tolist()


def test_graphs_have_at_most_a_chunk(programs: dict[str, Program]) -> None:
    model = DeviceModel("cpu", programs["uniform"], context=8, chunk=4)
    with pytest.raises(InputError, match="tokens must be a whole number from 1 to 4"):
        model.graph(5)
