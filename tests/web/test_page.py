"""The page of an exported site, as someone meets it in Chromium; its GPU is a table of sums."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from quod.cli import entry
from quod.web.serve import HEADERS
from tests.support.browser import DESKTOP, PHONE, Browser, Page
from tests.support.site import serve
from tests.web.tables import EXAMPLE, export_table_site

READY = """document.querySelector('#device').textContent.startsWith('GPU') ||
    document.querySelector('#device').className === 'bad'"""
ENDED = """!document.querySelector('#done').hidden ||
    !document.querySelector('#problem').hidden"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    export_table_site(folder)
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy of the site, to be damaged."""
    return shutil.copytree(exported, tmp_path / "site")


def opened(page: Page, url: str) -> None:
    page.navigate(url)
    page.wait_for(READY)


def content_of_download(path: Path) -> bytes:
    """Wait for the browser to save a file."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return path.read_bytes()


def proved(page: Page) -> str:
    """Presses the button; gives what the page complains about."""
    page.click("#prove")
    page.wait_for(ENDED)
    return page.text("#problem")


def hidden(page: Page, selector: str) -> bool:
    return bool(page.call("(s) => document.querySelector(s).hidden", selector))


@pytest.mark.parametrize(
    ("size", "name"),
    [(DESKTOP, "desktop"), pytest.param(PHONE, "phone", marks=pytest.mark.thorough)],
)
def test_visitor_proves_and_verifies(
    browser: Browser, exported: Path, tmp_path: Path, size: tuple[int, int], name: str
) -> None:
    with serve(exported, HEADERS) as site, browser.page(size, downloads=tmp_path) as page:
        opened(page, site.url)
        assert page.text("h1") == "Membership"
        assert page.text("#device").startswith("GPU: ")
        labels = page.evaluate(
            "[...document.querySelectorAll('#fields label')].map(l => l.htmlFor)"
        )
        assert labels == ["in-root", "in-scope", "in-secret", "in-siblings", "in-turns"]
        assert "stays secret" in page.text("label[for=in-secret]")
        assert "public" in page.text("label[for=in-root]")
        page.click("#example")
        page.screenshot(f"web-{name}-input")
        assert proved(page) == ""
        assert "Made and verified on this device" in page.text("#summary")
        assert page.evaluate("[...document.querySelectorAll('dt')].map(d => d.textContent)") == [
            "nullifier", "root", "scope",
        ]  # fmt: skip
        assert page.evaluate("document.activeElement.id") == "h-done"
        page.screenshot(f"web-{name}-proof")
        # Nothing is wider than the screen.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

        for which in ("proof", "public"):
            text = page.text(f"#{which}")
            (tmp_path / f"{which}.json").write_text(text)
        key = EXAMPLE / "verification_key.json"
        files = [key, tmp_path / "public.json", tmp_path / "proof.json"]
        assert entry.run(["groth16", "verify", *map(str, files), "--quiet"]) == 0

        page.click("#verify summary")
        page.click("#check")
        page.wait_for("/is valid/.test(document.querySelector('#verdict').textContent)")
        publics = json.loads(page.text("#public"))
        page.fill("#v-public", json.dumps([*publics[:2], "7"]))
        page.click("#check")
        page.wait_for("/is not valid/.test(document.querySelector('#verdict').textContent)")
        page.fill("#v-public", "[1")
        page.click("#check")
        page.wait_for("/not JSON/.test(document.querySelector('#verdict').textContent)")
        assert page.console == page.exceptions == []
        assert {url.split("/")[2] for url in page.requests} == {site.url.split("/")[2]}


@pytest.mark.thorough
def test_witness_file_is_proved_without_a_calculator(browser: Browser, tmp_path: Path) -> None:
    """For a circuit in Python the user chooses a witness file."""
    export_table_site(tmp_path / "site", calculator=False)
    bad = tmp_path / "bad.wtns"
    witness = (EXAMPLE / "witness.wtns").read_bytes()
    with serve(tmp_path / "site", HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        assert "stays secret" in page.text("label[for=witness]")
        assert hidden(page, "#as-json")
        assert hidden(page, "#example")
        assert proved(page) == "Choose a witness file."
        for content, said in (
            (b"{}", "not a witness"),
            (witness[:-1] + b"\xff", "is damaged"),
            (witness + bytes(10**6), "check that it is the right file"),
        ):
            bad.write_bytes(content)
            page.choose_files("#witness", bad)
            assert said in proved(page)
        page.choose_files("#witness", EXAMPLE / "witness.wtns")
        assert proved(page) == ""
        assert "Made and verified on this device" in page.text("#summary")
        for which in ("proof", "public"):
            (tmp_path / f"{which}.json").write_text(page.text(f"#{which}"))
        # The table's sums are of one witness.
        changed = bytearray(witness)
        changed[-32] ^= 1
        bad.write_bytes(changed)
        page.choose_files("#witness", bad)
        page.click("#prove")
        page.wait_for(ENDED)
        assert page.console == page.exceptions == []
    files = [EXAMPLE / "verification_key.json", tmp_path / "public.json", tmp_path / "proof.json"]
    assert entry.run(["groth16", "verify", *map(str, files), "--quiet"]) == 0


@pytest.mark.thorough
def test_keyboard_navigation_and_dark_mode(browser: Browser, exported: Path) -> None:
    with serve(exported, HEADERS) as site, browser.page() as page:
        page.prefer(prefers_color_scheme="dark")
        opened(page, site.url)
        page.click("#example")
        order = []
        for _ in range(9):
            page.press("Tab")
            order.append(
                page.evaluate("document.activeElement.id || document.activeElement.tagName")
            )
        fields = ["in-root", "in-scope", "in-secret", "in-siblings", "in-turns"]
        begin = order.index("in-root")
        assert order[begin : begin + 5] == fields or order[0] in ("SUMMARY", "prove")
        page.call("() => document.querySelector('#in-scope').focus()")
        page.press("Enter")
        page.wait_for(ENDED)
        assert hidden(page, "#problem")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, ground[4:-1].split(","))) < 150
        page.screenshot("web-dark")
        unnamed = page.evaluate(
            """[...document.querySelectorAll('input, textarea, button')].filter(
                (e) => !e.labels?.length && !e.textContent.trim()).length"""
        )
        assert unnamed == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("selector", "value", "message"),
    [
        ("#in-secret", "1", "The input does not satisfy the circuit"),
        ("#in-secret", "", "secret takes 1 number, not 0"),
        ("#in-secret", "abc", "must be a whole number"),
        ("#in-turns", "1 0 1", "turns takes 10 numbers, not 3"),
    ],
)
def test_wrong_inputs(
    browser: Browser, exported: Path, selector: str, value: str, message: str
) -> None:
    with serve(exported, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.click("#example")
        page.fill(selector, value)
        assert message in proved(page)
        assert hidden(page, "#done")
        # The next one may be right.
        page.click("#example")
        page.click("#prove")
        page.wait_for("!document.querySelector('#done').hidden")


def test_a_verdict_is_of_the_text_that_is_shown(browser: Browser, exported: Path) -> None:
    verdict = "document.querySelector('#verdict').textContent"
    with serve(exported, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.click("#example")
        assert proved(page) == ""
        page.click("#verify summary")
        valid = page.evaluate("document.querySelector('#v-public').value")
        page.click("#check")
        page.wait_for(f"{verdict}.includes('is valid')", timeout=60)
        page.fill("#v-public", valid.replace("1", "2", 1))
        assert page.evaluate(verdict) == ""
        page.click("#check")
        page.wait_for(f"{verdict}.includes('is not valid')", timeout=60)
        # The answer about an earlier text comes after its change.
        page.fill("#v-public", valid)
        page.click("#check")
        page.fill("#v-public", "[]")
        time.sleep(1)
        assert page.evaluate(verdict) == ""


@pytest.mark.parametrize("name", ["page.js", "errors.js", "worker.js", "msm.js"])
def test_a_script_that_is_missing(browser: Browser, folder: Path, name: str) -> None:
    """The page says so, instead of looking for a GPU without end."""
    (folder / name).unlink()
    with serve(folder, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        assert "could not be loaded" in page.text("#device")
        assert "can still be verified" not in page.text("#device")


@pytest.mark.thorough
def test_input_from_a_file(browser: Browser, exported: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with serve(exported, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.choose_files("#file", bad)
        page.wait_for("!document.querySelector('#problem').hidden")
        assert "not JSON" in page.text("#problem")
        page.choose_files("#file", EXAMPLE / "input.json")
        page.wait_for("document.querySelector('#in-secret').value")
        assert proved(page) == ""


@pytest.mark.thorough
def test_kernels_come_with_the_page_and_the_key_with_its_use(
    browser: Browser, exported: Path
) -> None:
    with serve(exported, HEADERS) as site, browser.page() as page:

        def wait_for_request(name: str) -> None:
            deadline = time.monotonic() + 300
            while not any(path.endswith(name) for path in site.requests):
                assert time.monotonic() < deadline, site.requests
                time.sleep(0.05)

        opened(page, site.url)
        wait_for_request("kernels.json")
        assert not any(path.endswith("data-000.bin") for path in site.requests)
        page.click("#example")
        wait_for_request("data-000.bin")
        assert proved(page) == ""
        assert sum(path.endswith("kernels.json") for path in site.requests) == 1


@pytest.mark.thorough
def test_a_witness_of_another_input_gives_no_proof(browser: Browser, exported: Path) -> None:
    """The table has the sums of one witness; the proof of another input must not be shown."""
    document = json.loads((EXAMPLE / "input.json").read_text()) | {"scope": "5"}
    with serve(exported, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.click("#as-json summary")
        page.fill("#json", json.dumps(document))
        assert "does not verify, so it is not shown" in proved(page)
        assert hidden(page, "#done")
        page.screenshot("web-refused")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("data-000.bin", "data-000.bin has 100 bytes instead of 1536: it is truncated"),
        ("graph.json", "graph.json has 100 bytes instead of"),
        ("kernels.json", "kernels.json is damaged: its SHA-256 differs from the one"),
        (
            "verification_key.json",
            "verification_key.json could not be fetched: the server answered with status 404",
        ),
    ],
)
def test_damaged_sites(browser: Browser, folder: Path, name: str, message: str) -> None:
    file = folder / name
    if "404" in message:
        file.unlink()
    elif "SHA" in message:
        file.write_bytes(b"[" + b" " * (file.stat().st_size - 2) + b"}")
    else:
        file.write_bytes(file.read_bytes()[:100])
    with serve(folder, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.click("#example")
        assert message.lower() in proved(page).lower()
        page.screenshot("web-damaged")


@pytest.mark.thorough
def test_a_damaged_calculator_and_site(browser: Browser, folder: Path) -> None:
    wasm = folder / "witness.wasm"
    wasm_bytes = wasm.read_bytes()
    wasm.write_bytes(wasm_bytes[:500])
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.navigate(site.url)
        page.wait_for("!document.querySelector('#problem').hidden")
        assert "witness.wasm has 500 bytes" in page.text("#problem")
        assert page.evaluate("document.querySelector('#prove').disabled")
    (folder / "site.json").write_text("{")
    with serve(folder, HEADERS) as site, browser.page() as page:
        page.navigate(site.url)
        page.wait_for("document.querySelector('#device').textContent.includes('site.json')")


@pytest.mark.thorough
def test_no_gpu(blind: Browser, exported: Path, tmp_path: Path) -> None:
    """The page says what works without one: verification, and the witness."""
    with serve(exported, HEADERS) as site, blind.page(PHONE, downloads=tmp_path) as page:
        opened(page, site.url)
        said = page.text("#device")
        assert "found no GPU that it can use" in said or "has no WebGPU" in said
        assert "Proofs can still be verified here, and the witness of an input can be" in said
        assert page.text("#prove") == "Compute the witness"
        page.click("#example")
        page.fill("#in-secret", "1")
        page.click("#prove")
        page.wait_for("!document.querySelector('#problem').hidden")
        assert "does not satisfy the circuit" in page.text("#problem")
        assert hidden(page, "#computed")
        page.click("#example")
        page.click("#prove")
        page.wait_for("!document.querySelector('#computed').hidden")
        assert hidden(page, "#problem")
        page.screenshot("web-no-gpu")
        page.click("#save")
        witness = content_of_download(tmp_path / "witness.wtns")
        assert witness == (EXAMPLE / "witness.wtns").read_bytes()
        assert not any("data-" in path or "kernels" in path for path in site.requests)


@pytest.mark.thorough
def test_no_gpu_and_no_calculator(blind: Browser, tmp_path: Path) -> None:
    export_table_site(tmp_path / "site", calculator=False)
    with serve(tmp_path / "site", HEADERS) as site, blind.page() as page:
        opened(page, site.url)
        assert page.text("#device").endswith("Proofs can still be verified here.")
        assert page.evaluate("document.querySelector('#prove').disabled")


@pytest.mark.thorough
def test_a_gpu_that_is_too_small(browser: Browser, folder: Path) -> None:
    file = folder / "site.json"
    site_json = json.loads(file.read_text())
    site_json["needs"]["limits"]["maxBufferSize"] = 1 << 50
    file.write_text(json.dumps(site_json))
    with serve(folder, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        assert "too small for this page: its maxBufferSize is" in page.text("#device")


@pytest.mark.thorough
def test_page_works_offline(browser: Browser, exported: Path) -> None:
    with serve(exported, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        # The second visit is served by what keeps the files.
        opened(page, site.url)
        page.wait_for("!!navigator.serviceWorker.controller")
        page.click("#example")
        assert proved(page) == ""
        page.set_offline()
        opened(page, site.url)
        page.click("#example")
        assert proved(page) == ""
        assert not hidden(page, "#done")


@pytest.mark.thorough
def test_the_prover_as_a_module(browser: Browser, exported: Path) -> None:
    document = json.loads((EXAMPLE / "input.json").read_text())
    with serve(exported, HEADERS) as site, browser.page() as page:
        page.navigate(site.url + "icon.svg")
        answers = page.call(
            """async (input) => {
                const { load, InputError } = await import("./quod.js");
                const steps = new Set();
                const onProgress = ({ step }) => steps.add(step);
                const prover = await load("./", { onProgress });
                const wrong = await prover.prove({}).catch((error) => error);
                const two = await Promise.all(
                    [prover.prove(input, { onProgress }), prover.prove(input)]);
                const valid = two.map((r) => prover.verify(r.publicSignals, r.proof));
                prover.destroy();
                const [a, b] = two.map((r) => r.proof.pi_a[0]);
                return [wrong instanceof InputError, valid, a !== b, [...steps]];
            }""",
            document,
        )  # fmt: skip
        assert answers[:3] == [True, [True, True], True]
        assert {"load", "witness", "MSM A", "self-check"} <= set(answers[3])


LOST = """async () => {
    const { loadGraph } = await import("./quod.js");
    const graph = await loadGraph("./");
    const witness = new Uint8Array(graph.inputs.witness.bytes);
    const said = (promise) => promise.then(() => "ran", (e) => `${e.name}: ${e.message}`);
    const short = await said(graph.run({ witness: witness.subarray(4) }));
    const other = await said(graph.run({ witness, more: witness }));
    const both = await Promise.all([said(graph.run({ witness })), said(graph.run({ witness }))]);
    // A GPU that never answers: its queue takes work and does nothing.
    graph.watchdog = 0.5;
    const { queue } = graph.device;
    const submit = queue.submit;
    graph.staging.mapAsync = () => new Promise(() => {});
    queue.onSubmittedWorkDone = () => new Promise(() => {});
    const hung = await said(graph.run({ witness }));
    delete queue.onSubmittedWorkDone;
    delete graph.staging.mapAsync;
    // A driver that takes work and leaves zeros.
    queue.submit = () => {};
    const zeros = await said(graph.run({ witness }));
    delete queue.submit;
    // One that leaves out the steps and copies what is there.
    const { commands } = graph;
    graph.commands = commands.map(() => []);
    const idle = await said(graph.run({ witness }));
    graph.commands = commands;
    const again = await said(graph.run({ witness }));
    graph.device.destroy();
    const lost = await said(graph.run({ witness }));
    return { short, other, both, hung, zeros, idle, again, lost };
}"""


@pytest.mark.thorough
def test_gpu_failures_are_reported(browser: Browser, exported: Path) -> None:
    with serve(exported, HEADERS) as site, browser.page() as page:
        page.navigate(site.url + "icon.svg")
        messages = page.call(LOST)
        assert messages["short"].startswith("InputError: input witness of the graph has")
        assert messages["other"].startswith("InputError: input more of the graph has no bytes")
        assert messages["both"] == [
            "ran", "DeviceError: the graph is running already; wait for that result",
        ]  # fmt: skip
        assert messages["hung"].startswith("DeviceError: the GPU has not answered for 0.5 s")
        assert messages["zeros"].startswith("DeviceError: the GPU returned no data")
        assert messages["idle"].startswith("DeviceError: the GPU reported success but has")
        assert messages["again"] == "ran"
        assert messages["lost"].startswith("DeviceError: the GPU was lost")
