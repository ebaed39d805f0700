"""The page of the transformer that learns: its steps are those of the CPU, and what it says."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from quod.errors import OutputError
from quod.web.serve import HEADERS
from tests.conftest import REPOSITORY, need
from tests.support.browser import PHONE, Browser, Page, why_no_browser
from tests.support.site import serve

EXAMPLE = REPOSITORY / "examples" / "train_transformer"
STEPS = 6
TOLERANCE = 1e-4

READY = """!document.querySelector('#run').disabled ||
    !document.querySelector('#problem').hidden"""
STEPPED = """Number(document.querySelector('#step').textContent) >= 1 ||
    !document.querySelector('#problem').hidden"""
PAUSED = "document.querySelector('#run').textContent !== 'Pause'"


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, ModuleType]]:
    """The example's modules, as its scripts find them."""
    names = ("transformer", "reversal", "training", "train", "export_page")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def shape(example: dict[str, ModuleType]) -> Any:
    """Sizes of which a driver in software compiles few kernels."""
    return example["transformer"].Shape(
        symbols=8, tokens=4, width=8, heads=2, hidden=16, layers=1, batch=4
    )


@pytest.fixture(scope="module")
def folder(
    example: dict[str, ModuleType], shape: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The exported page."""
    folder = tmp_path_factory.mktemp("training") / "page"
    size = example["export_page"].write_page(folder, shape, steps=STEPS)
    assert size == sum(path.stat().st_size for path in folder.iterdir())
    return folder


def opened(page: Page, folder_url: str) -> None:
    page.navigate(folder_url)
    page.wait_for(READY)


def test_steps_match_the_cpu(
    browser: Browser, folder: Path, shape: Any, example: dict[str, ModuleType]
) -> None:
    with serve(folder, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        training = page.call(
            """async (steps, far) => {
                const own = await import("./training.js");
                const plan = await own.readTraining();
                const batches = far.map((step) => {
                    const { inputs, targets } = own.batchOf(step, plan.shape);
                    return [[...inputs], [...targets], [...own.ratesOf(step, plan.rates)]];
                });
                const training = await own.loadTraining(plan);
                const answers = [];
                for (let i = 0; i < steps; i++) answers.push(await training.step());
                training.destroy();
                return { batches, answers };
            }""",
            STEPS, [1, 19, 20, 123456789],
        )  # fmt: skip
        assert page.exceptions == []
    for step, (inputs, targets, rates) in zip([1, 19, 20, 123456789], training["batches"]):
        wanted = example["training"].batch_for(shape, step)
        assert [inputs, targets] == [each.tolist() for each in wanted]
        assert np.allclose(rates, example["training"].rates_of(step), rtol=1e-6)
    plan = json.loads((folder / "training.json").read_text())
    losses = [answer["loss"] for answer in training["answers"]]
    assert [answer["number"] for answer in training["answers"]] == [*range(1, STEPS + 1)]
    assert losses == pytest.approx(plan["losses"], rel=TOLERANCE)
    assert len(set(losses)) == STEPS
    for answer in training["answers"]:
        length = shape.tokens // 2
        assert len(answer["given"]) == len(answer["said"]) == length
        assert 0 <= answer["right"] <= 1
        assert float(answer["right"] * shape.batch * length).is_integer()


@pytest.mark.thorough
def test_page_trains_pauses_and_restarts(browser: Browser, folder: Path) -> None:
    plan = json.loads((folder / "training.json").read_text())
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.before_load(
            """const ask = GPUAdapter.prototype.requestDevice;
            GPUAdapter.prototype.requestDevice = async function (...given) {
                return (globalThis.opened = await ask.apply(this, given));
            };"""
        )
        opened(page, site.url)
        assert page.text("#device").startswith("GPU: ")
        assert f"{plan['parameters']:,} parameters, width 8" in page.text("#model")
        for button in ("#run", "#again"):
            page.click(button)
            page.wait_for("document.querySelector('#run').textContent === 'Pause'")
            page.wait_for(STEPPED)
            page.click("#run")
            page.wait_for(PAUSED)
            assert page.text("#problem") == ""
            assert page.text("#run") == "Go on"
            points = page.evaluate("document.querySelector('#curve .now').getAttribute('points')")
            assert len(points.split()) == int(page.text("#step")) >= 1
            assert page.text("#right").endswith(" %")
            if page.text("#step") == "1":
                assert float(page.text("#loss")) == pytest.approx(plan["losses"][0], rel=1e-3)
        page.prefer(prefers_color_scheme="dark")
        page.resize(PHONE)
        page.screenshot("training")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        page.evaluate("opened.destroy()")
        page.click("#run")
        page.wait_for("!document.querySelector('#problem').hidden")
        assert page.text("#problem").startswith("The GPU was lost during the stage train")
        assert page.text("#run") == "Train"
        assert page.exceptions == []


@pytest.mark.thorough
def test_a_gpu_without_memory(browser: Browser, folder: Path) -> None:
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.before_load(
            "GPUDevice.prototype.popErrorScope = async () => new GPUOutOfMemoryError('none left')"
        )
        opened(page, site.url)
        page.click("#run")
        page.wait_for("!document.querySelector('#problem').hidden")
        assert "the GPU has not enough memory" in page.text("#problem")
        assert page.text("#problem").startswith("The GPU could not allocate ")
        assert page.text("#run") == "Train"


@pytest.mark.thorough
def test_no_gpu_and_no_files(browser: Browser, folder: Path, tmp_path: Path) -> None:
    need(why_no_browser(), "QUOD_TEST_BROWSER")
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.before_load("GPU.prototype.requestAdapter = async () => null")
        opened(page, site.url)
        assert "This browser has WebGPU but found no GPU that it can use" in page.text("#problem")
        assert page.evaluate("document.querySelector('#run').disabled")
    for path in folder.iterdir():
        if path.name != "training.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with serve(tmp_path, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        reason = "the server answered with status 404."
        assert page.text("#problem") == f"Training.json could not be fetched: {reason}"


def test_folders_with_other_files(
    example: dict[str, ModuleType], folder: Path, shape: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "diary.txt").write_text("today")
    monkeypatch.setattr("sys.argv", ["export_page.py", "-o", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        example["export_page"].main()
    assert ended.value.code == OutputError.exit_code
    assert "has other files; name an empty or a new folder" in capsys.readouterr().err
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    example["export_page"].write_page(folder, shape, steps=STEPS)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_page_is_served_until_interrupted(
    example: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def interrupt(_: ThreadingHTTPServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(example["export_page"], "write_page", lambda *_, **__: 1000)
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupt)
    monkeypatch.setattr("sys.argv", ["export_page.py", "-o", str(tmp_path), "--serve"])
    example["export_page"].main()
    assert "(Ctrl-C ends it)" in capsys.readouterr().out


def test_a_file_in_place_of_the_folder(
    example: dict[str, ModuleType], shape: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before any training."""
    (tmp_path / "diary.txt").write_text("today")
    monkeypatch.setattr(example["export_page"], "Training", None)
    with pytest.raises(OutputError, match="could not be made"):
        example["export_page"].write_page(tmp_path / "diary.txt", shape)
