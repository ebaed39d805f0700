"""Recordings that were exported run in a browser as they run on a device."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest

from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.weierstrass.affine import affine_group
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.groth16.gpu.graph import GraphBases
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.examples import histogram, reduce_sum, saxpy
from quod.web import GraphFiles, Stage, compression, graph_files, runtime_files
from quod.web.compression import REPLAYED, compress_bases
from quod.web.data_files import DataFiles
from tests.support.browser import Browser
from tests.support.site import serve

RUN = """async (inputs, options) => {
    const { loadGraph } = await import("./quod.js");
    const graph = await loadGraph("./", undefined, options);
    const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const given = Object.fromEntries(Object.entries(inputs).map(([k, v]) => [k, bytes(v)]));
    const found = [];
    for (let i = 0; i < 2; i++) found.push((await graph.run(given)).outputs);
    const text = (bytes) => btoa(String.fromCharCode(...bytes));
    return found.map((o) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, text(v)])));
}"""


def write(folder: Path, graph: GraphFiles) -> None:
    for name, content in {**runtime_files(), **graph.files}.items():
        with (folder / name).open("wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)


def run(
    browser: Browser, folder: Path, inputs: Mapping[str, np.ndarray[Any, Any]]
) -> list[dict[str, bytes]]:
    """Run a graph in a folder twice, and return the outputs of each run."""
    encoded_inputs = {
        name: base64.b64encode(array.tobytes()).decode() for name, array in inputs.items()
    }
    with serve(folder) as site, browser.page() as page:
        (folder / "empty.html").write_text("<!doctype html><title>graph</title>")
        page.navigate(site.url + "empty.html")
        runs = page.call(RUN, encoded_inputs, {}, timeout=120)
    return [{name: base64.b64decode(text) for name, text in outputs.items()} for outputs in runs]


@kernel
def weigh(
    k: Builder, n: U32, x: Pointer[U32], nothing: Pointer[U32], weight: U32, out: Pointer[U32]
) -> None:
    """out[i] = weight * x[i], and what is in nothing where there is something."""
    i = k.global_id()
    with k.if_(i < n):
        out[i] = x[i] * weight
        with k.if_(i > n):
            out[i] = nothing[i]


def record(device: ExportDevice, work: Any) -> Stage:
    recording: RecordingStream = device.stream("test").record()
    work(recording)
    return Stage("test", recording.finish().recording)


def test_a_recording_runs_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    device = ExportDevice()
    n = 1000
    x = device.allocate(4 * n, zero=False)
    rows = np.random.default_rng(1)
    constant = rows.integers(0, 1 << 31, n, dtype=np.uint32)
    floats = rows.random(n, np.float32)
    y = device.upload(constant)
    z = device.allocate(4 * n, zero=False)
    f, g = device.upload(floats), device.allocate(4 * n, zero=False)
    sums = device.allocate(4 * 16, zero=False)
    counts = device.allocate(4 * 8, zero=False)
    empty = device.allocate(0)
    filled = device.allocate(4 * 300, zero=False)
    twice = device.compile(weigh)
    add = device.compile(reduce_sum)
    count = device.compile(histogram)
    scale = device.compile(saxpy)

    def first(recording: RecordingStream) -> None:
        recording.launch(twice, 16, n, x, empty, 3, z)
        recording.launch(add, 16, n, z, sums)
        recording.copy(f, g)
        recording.launch(scale, 16, n, 2.5, f, g)

    def second(recording: RecordingStream) -> None:
        recording.fill(counts)
        recording.launch(count, 4, n, z, 8, counts)
        # Parts of one buffer, one behind the other, at no multiple of 256 bytes.
        recording.launch(twice, 16, 100, y.slice(400, 800), empty, 5, x.slice(16, 416))
        recording.launch(twice, 16, 100, x.slice(16, 416), empty, 7, x.slice(1008, 1408))
        recording.fill(filled, 7)
        recording.fill(filled.slice(40, 80), 0xFFFFFFFF)

    stages = [record(device, first), record(device, second)]
    outputs: dict[str, Buffer] = {
        "z": z, "sums": sums, "g": g, "counts": counts, "part": x.slice(1008, 1408),
        "filled": filled,
    }  # fmt: skip
    write(tmp_path, graph_files(device, stages, inputs={"x": x}, outputs=outputs))
    input_words = rows.integers(0, 1 << 32, n, dtype=np.uint32)
    for run_outputs in run(browser, tmp_path, {"x": input_words}):
        words = {name: np.frombuffer(data, np.uint32) for name, data in run_outputs.items()}
        tripled = input_words * np.uint32(3)
        assert (words["z"] == tripled).all()
        assert words["sums"].tolist() == [
            int(tripled[at : at + 64].sum(dtype=np.uint32)) for at in range(0, 1024, 64)
        ]
        scaled = np.frombuffer(run_outputs["g"], np.float32)
        assert np.allclose(scaled, floats + np.float32(2.5) * floats)
        assert words["counts"].tolist() == np.bincount(tripled % 8, minlength=8).tolist()
        assert (words["part"] == constant[100:200] * np.uint32(35)).all()
        filled_with = np.full(300, 7, np.uint32)
        filled_with[10:20] = 0xFFFFFFFF
        assert (words["filled"] == filled_with).all()


def compressed_graph() -> tuple[GraphFiles, np.ndarray[Any, Any]]:
    """A graph that copies points which its setup completes; and the points."""
    group = GROUPS["bls12_381.g1"]
    law = affine_group(group)
    points = [None, *(law.multiply(index, group.parameters.generator) for index in range(1, 40))]
    words = from_points(group, points)
    device = ExportDevice(replayed=REPLAYED)
    memory = device.upload(words)
    target = device.allocate(words.nbytes, zero=False)
    stage = record(device, lambda recording: recording.copy(memory, target))
    with patch.object(compression, "MIN_SAVING", 1):
        compress_bases(device, [GraphBases(group, words, memory)])
    return graph_files(device, [stage], inputs={}, outputs={"points": target}), words


def test_points_are_compressed_where_it_saves_much() -> None:
    files, words = compressed_graph()
    graph = json.loads(cast(bytes, files.files["graph.json"]))
    (row,) = graph["data"]["ranges"]
    assert row["bytes"] == words.nbytes // 2
    assert [graph["kernels"][step["kernel"]]["name"] for step in graph["setup"]] == [
        "curve_decompress"
    ]
    assert graph["stages"][0]["steps"][0]["source"]["buffer"] != row["buffer"]
    group = GROUPS["bls12_381.g1"]
    device = ExportDevice(replayed=REPLAYED)
    memory = device.upload(words)
    compress_bases(device, [GraphBases(group, words, memory)])
    assert device.setup == []
    # A point off the curve has no second half.
    off_curve = words.copy()
    off_curve[5, 1, 0] ^= 4
    with patch.object(compression, "MIN_SAVING", 1), pytest.raises(InputError, match="not on the"):
        compress_bases(device, [GraphBases(group, off_curve, device.upload(off_curve))])


def test_other_forms_of_bases_are_left_alone() -> None:
    """Memory with multiples has more than the points; other curves have no quick roots."""
    device = ExportDevice(replayed=REPLAYED)
    with patch.object(compression, "MIN_SAVING", 1):
        for name in ("bls12_381.g1", "bls12_377.g1"):
            group = GROUPS[name]
            words = from_points(group, [group.parameters.generator] * 3)
            content = words if "377" in name else np.concatenate([words, words])
            compress_bases(device, [GraphBases(group, words, device.upload(content))])
    assert device.setup == []


def test_constants_in_the_shorter_form() -> None:
    """Small steps are stored in fewer bytes; random words as they are."""
    device = ExportDevice()
    counts = np.arange(5000, dtype=np.uint32)
    noise = np.random.default_rng(2).integers(0, 1 << 32, 5000, dtype=np.uint64).astype(np.uint32)
    data = DataFiles(
        device, [device.upload(counts), device.upload(noise), device.upload(counts[:9])]
    )
    (first, second, third) = data.ranges
    assert (first["bytes"], first["deflated"] < 200) == (20_000, True)
    assert [row.get("deflated") for row in (second, third)] == [None, None]
    padded = -(-first["deflated"] // 4) * 4
    assert data.nbytes == padded + 20_000 + 36
    stored = b"".join(bytes(piece) for piece in data.pieces(0, data.nbytes))
    planes = np.frombuffer(zlib.decompress(stored[: first["deflated"]]), np.uint8).reshape(4, -1)
    steps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    assert np.array_equal(np.cumsum(steps, dtype=np.uint32), counts)


@pytest.mark.thorough
def test_the_setup_runs_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    files, words = compressed_graph()
    write(tmp_path, files)
    for outputs in run(browser, tmp_path, {}):
        assert outputs["points"] == words.tobytes()


BROKEN = """async (inputs) => {
    const { loadGraph } = await import("./quod.js");
    const steps = [];
    const graph = await loadGraph("./");
    const onProgress = ({ step }) => steps.push(step);
    const x = new Uint32Array(64);
    const failed = await graph.run({ x }, { onProgress }).catch((error) => error);
    return [steps, failed.name, failed.message];
}"""


def test_a_run_reports_a_kernel_that_does_not_compile(browser: Browser, tmp_path: Path) -> None:
    """The stages before it run, as they do not wait for it."""
    device = ExportDevice()
    x, out = (device.allocate(4 * 64, zero=False) for _ in range(2))
    scale, add = device.compile(weigh), device.compile(reduce_sum)
    stages = [
        record(device, lambda recording: recording.launch(scale, 1, 64, x, x, 3, out)),
        record(device, lambda recording: recording.launch(add, 1, 64, out, x)),
    ]
    graph = graph_files(device, stages, inputs={"x": x}, outputs={"out": out})
    write(tmp_path, graph)
    texts = json.loads((tmp_path / "kernels.json").read_text())
    assert len(texts) == 2
    kernels = json.dumps([texts[0], texts[1].replace("fn main", "fn other")]).encode()
    (tmp_path / "kernels.json").write_bytes(kernels)
    document = json.loads((tmp_path / "graph.json").read_text())
    document["files"]["kernels.json"] = {
        "bytes": len(kernels), "sha256": hashlib.sha256(kernels).hexdigest(),
    }  # fmt: skip
    (tmp_path / "graph.json").write_text(json.dumps(document))
    (tmp_path / "empty.html").write_text("<!doctype html><title>graph</title>")
    with serve(tmp_path) as site, browser.page() as page:
        page.navigate(site.url + "empty.html")
        steps, name, message = page.call(BROKEN, timeout=120)
    assert steps in ([], ["test"])
    assert name == "DeviceError"
    assert message.startswith("this browser does not compile kernel reduce_sum: ")
