"""The page of a Spend, an Output or a Convert in Chromium, from a document to a description."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from quod.bench.proofs.zcash import info_of
from quod.cli import entry
from quod.errors import InputError, MismatchError
from quod.web.runtime_text import ACTION
from quod.web.serve import HEADERS
from quod.web.site import export_site
from quod.zcash.proofs.kinds import MASP_OUTPUT, SAPLING_OUTPUT
from quod.zcash.proofs.parameters import make_test_parameters
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.site import serve
from tests.web.tables import export_action_table_site, export_table_site
from tests.web.test_page import ENDED, content_of_download, opened, proved
from tests.web.test_python_circuits import TRACES
from tests.zcash.files.test_infos import json_of, little

DRAWN = ("alpha", "esk", "rcv")


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """INSECURE parameters of Sapling's Output."""
    path = tmp_path_factory.mktemp("parameters") / "output.params"
    make_test_parameters(SAPLING_OUTPUT, path, seed=1)
    return path


@pytest.fixture(scope="module")
def exported(parameters: Path) -> Path:
    folder = parameters.parent / "site"
    export_action_table_site(folder, parameters, info_of("sapling-output"))
    return folder


def secrets_in(document: dict[str, Any]) -> list[str]:
    """The values of a document that must not leave the page."""
    note = document.get("note", document)
    secrets = [document.get(name) for name in ("nsk", "ak", *DRAWN)]
    return [text for text in (*secrets, note["rcm"], note["address"]) if text]


@pytest.mark.parametrize(
    ("size", "name"),
    [(DESKTOP, "desktop"), pytest.param(PHONE, "phone", marks=pytest.mark.thorough)],
)
def test_from_a_note_to_a_description(
    browser: Browser, exported: Path, parameters: Path, tmp_path: Path, size: tuple[int, int],
    name: str,
) -> None:  # fmt: skip
    document, _ = json_of("sapling-output")
    secrets = secrets_in(document)
    verify = ["zcash", "verify", "--output", str(parameters), "--insecure-test-key", "--quiet"]
    with serve(exported, HEADERS) as site, browser.page(size, downloads=tmp_path) as page:
        opened(page, site.url)
        assert page.text("h1") == "Sapling Output"
        assert "the input of quod zcash prove-output" in page.text("label[for=json]")
        placeholder = page.evaluate("document.querySelector('#json').placeholder")
        assert json.loads(placeholder).keys() == {"address", "value", "rseed"}
        page.screenshot(f"action-{name}-form")
        # The largest value is read exactly.
        most = (
            "async (text) => (await import('./zcash/fields.js')).parseInformation(text).value + ''"
        )
        assert page.call(most, f'{{"value": {2**64 - 1}}}') == str(2**64 - 1)
        page.fill("#json", json.dumps(document | {"rcm": "00"}))
        assert proved(page) == "rcm: must be 32 bytes, not 1."
        # The statement is checked before the GPU works.
        page.fill("#json", json.dumps(document | {"value": 0, "rcv": little(0)}))
        assert proved(page) == "The point cv is of small order."
        page.fill("#json", json.dumps(document))
        assert proved(page) == ""
        page.screenshot(f"action-{name}-proof")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.click("[data-of=description] button + button")
        saved = tmp_path / "description.json"
        assert content_of_download(saved).decode() == page.text("#description") + "\n"
        assert entry.run([*verify, str(saved)]) == 0
        shown_secrets = json.loads(page.evaluate("document.querySelector('#secrets').textContent"))
        assert shown_secrets == {key: document[key] for key in ("esk", "rcv")}

        page.click("#verify summary")
        page.click("#check")
        verdict = "document.querySelector('#verdict').textContent.toLowerCase()"
        page.wait_for(f"{verdict}.includes('is valid for this description')")
        description = json.loads(page.text("#description"))
        for change, said in (
            ({"cmu": "07" + "00" * 31}, "is not valid for this description"),
            ({"cv": "07" + "00" * 31}, "cv: no point of the curve"),
        ):
            page.fill("#v-description", json.dumps(description | change))
            page.click("#check")
            page.wait_for(f"{verdict}.includes({json.dumps(said)})")
        _, traces = page.call(TRACES, secrets)
        assert traces == []
        urls = [*page.requests, *site.requests]
        assert not [url for url in urls for secret in secrets if secret in url]
        assert page.console == page.exceptions == []
        assert {url.split("/")[2] for url in urls if "//" in url} == {site.url.split("/")[2]}


STORED = """async () => {
    const files = {};
    const visit = async (folder) => {
        for await (const [name, handle] of folder.entries()) {
            if (handle.kind === "directory") await visit(handle);
            else {
                const content = await (await handle.getFile()).arrayBuffer();
                const digest = await crypto.subtle.digest("SHA-256", content);
                files[name] = [...new Uint8Array(digest)];
            }
        }
    };
    await visit(await navigator.storage.getDirectory());
    return files;
}"""

DAMAGE = """async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("quod-keys");
    for await (const site of root.values())
        for await (const handle of site.values()) {
            const stream = await handle.createWritable({ keepExistingData: true });
            await stream.write(new Uint8Array([1, 2, 3]));
            await stream.close();
        }
}"""


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each data file."""
    files = json.loads((folder / "graph.json").read_text())["files"]
    return {name: row["sha256"] for name, row in files.items() if name.startswith("data-")}


def test_the_key_stays_in_the_browser_s_storage(browser: Browser, exported: Path) -> None:
    document = json.dumps(json_of("sapling-output")[0])
    notices = "document.querySelector('#notice').innerText"
    with serve(exported, HEADERS) as site, browser.page() as page:

        def visit() -> list[str]:
            """Prove on a new visit; return the data files that it fetches."""
            site.requests.clear()
            opened(page, site.url)
            page.fill("#json", document)
            assert proved(page) == ""
            return [path.rpartition("/")[2] for path in site.requests if "data-" in path]

        assert visit() == [*digests(exported)]
        stored = page.call(STORED)
        assert sorted(stored) == sorted(digests(exported).values())
        assert all(bytes(digest).hex() == name for name, digest in stored.items())
        assert visit() == []
        page.call(DAMAGE)
        assert visit() == [*digests(exported)]
        assert "stored copy of data-000.bin is damaged, so it is fetched" in page.evaluate(notices)
        page.screenshot("action-damaged-copy")
        assert visit() == []


def test_a_full_storage_is_no_obstacle(browser: Browser, exported: Path) -> None:
    document = json.dumps(json_of("sapling-output")[0])
    with serve(exported, HEADERS) as site, browser.page() as page:
        origin = site.url.rstrip("/")
        page.send("Storage.overrideQuotaForOrigin", origin=origin, quotaSize=1)
        opened(page, site.url)
        page.fill("#json", document)
        assert proved(page) == ""
        notice = page.evaluate("document.querySelector('#notice').innerText")
        assert "so the key stays in memory" in notice
        page.screenshot("action-full-storage")
        assert page.call(STORED) == {}


@pytest.mark.thorough
def test_without_a_gpu(blind: Browser, exported: Path, tmp_path: Path) -> None:
    """A description can be verified, and the witness of a document computed."""
    document, _ = json_of("sapling-output")
    info = info_of("sapling-output")
    expected = info.kind.circuit().witness(info.inputs).values.astype("<u4").tobytes()
    with serve(exported, HEADERS) as site, blind.page(downloads=tmp_path) as page:
        opened(page, site.url)
        page.fill("#json", json.dumps(document | {"esk": little(0)}))
        page.click("#prove")
        page.wait_for("!document.querySelector('#problem').hidden")
        assert page.text("#problem").startswith("esk: esk must be a scalar from 1")
        page.fill("#json", json.dumps(document))
        page.click("#prove")
        page.wait_for("!document.querySelector('#computed').hidden")
        page.screenshot("action-no-gpu")
        page.click("#save")
        content = content_of_download(tmp_path / "witness.wtns")
        assert content[-len(expected) :] == expected
        # The page does not draw scalars that would be lost.
        page.click("#save-secrets")
        saved = json.loads(content_of_download(tmp_path / "secrets.json"))
        assert saved == {name: document[name] for name in ("esk", "rcv")}
        page.click("#verify summary")
        page.fill("#v-description", json.dumps({"cv": little(2)}))
        page.click("#check")
        page.wait_for("document.querySelector('#verdict').className")
        assert "is missing" in page.text("#verdict")
        assert page.exceptions == []
        assert not [
            text for text in page.console for secret in secrets_in(document) if secret in text
        ]


def export(folder: Path, *options: str) -> Path:
    assert entry.run(["export-web", *options, "-o", str(folder), "--quiet"]) == 0
    return folder


def prove_without_network(
    browser: Browser, folder: Path, document: dict[str, Any]
) -> dict[str, Any]:
    """Prove a document on a page whose network ends once it has loaded; return its description."""
    with serve(folder, HEADERS) as site, browser.page() as page:
        opened(page, site.url)
        page.fill("#json", json.dumps(document))
        page.click("#prove")
        page.wait_for("/witness|MSM|Done/.test(document.querySelector('#step').textContent)", 1800)
        page.set_offline()
        page.wait_for(ENDED, timeout=3000)
        assert page.text("#problem") == ""
        page.screenshot(f"action-{folder.name}")
        assert page.console == page.exceptions == []
        description: dict[str, Any] = json.loads(page.text("#description"))
        secrets = json.loads(page.evaluate("document.querySelector('#secrets').textContent"))
        assert secrets.keys() == {"rcv", "esk" if folder.name == "output" else "alpha"}
        return description


@pytest.mark.thorough
@pytest.mark.fixtures
@pytest.mark.timeout(1800)
def test_output_with_the_key_of_the_ceremony(
    browser: Browser, shared_fixtures: Path, tmp_path: Path
) -> None:
    key = shared_fixtures / "zcash" / SAPLING_OUTPUT.file_name
    folder = export(tmp_path / "output", "--zcash", "output", "--key", str(key))
    document, _ = json_of("sapling-output")
    for field in (*DRAWN, "rcm"):
        document.pop(field, None)
    description = prove_without_network(browser, folder, document | {"rseed": "07" * 32})
    (tmp_path / "description.json").write_text(json.dumps(description))
    assert entry.run(["zcash", "verify", str(tmp_path / "description.json"), "--quiet"]) == 0


@pytest.mark.thorough
@pytest.mark.timeout(7200)
def test_spend_with_the_key_of_the_ceremony(
    browser: Browser, spend_parameters: Path, tmp_path: Path
) -> None:
    folder = export(tmp_path / "spend", "--zcash", "spend", "--key", str(spend_parameters))
    graph = json.loads((folder / "graph.json").read_text())
    assert graph["data"]["bytes"] < 25_000_000
    document, _ = json_of("sapling-spend")
    description = prove_without_network(
        browser, folder, {key: document[key] for key in document if key not in (*DRAWN, "anchor")}
    )
    assert description["anchor"] == document["anchor"]
    (tmp_path / "description.json").write_text(json.dumps(description))
    assert entry.run(["zcash", "verify", str(tmp_path / "description.json"), "--quiet"]) == 0


# --- exports


@pytest.mark.fixtures
def test_masp_refuses_files_of_other_ceremonies(shared_fixtures: Path, tmp_path: Path) -> None:
    path = shared_fixtures / "zcash" / SAPLING_OUTPUT.file_name
    with pytest.raises(MismatchError, match=r"is sapling-output\.params, not masp-output\.params"):
        export_site(path, None, tmp_path / "site", action=MASP_OUTPUT)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged.params").write_bytes(damaged)
    with pytest.raises(InputError, match=r"is not sapling-output\.params: BLAKE2b-512 is"):
        export_site(tmp_path / "damaged.params", None, tmp_path / "site", action=SAPLING_OUTPUT)
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.params"]


def test_site_of_an_action(exported: Path) -> None:
    """It has the modules for actions; a site of a circuit that replaces it has not."""
    site = json.loads((exported / "site.json").read_text())
    assert (site["name"], site["insecure"]) == ("Sapling Output", True)
    assert site["action"]["statement"] == "output"
    assert site["action"]["protocol"]["diversifier"] == "Zcash_gd"
    folder = shutil.copytree(exported, exported.parent / "replaced")
    assert {path.name for path in (folder / "zcash").iterdir()} == {
        name.partition("/")[2] for name in ACTION
    }
    export_table_site(folder)
    assert not [*(folder / "zcash").iterdir()]
    assert json.loads((folder / "site.json").read_text())["action"] is None


def test_refused_exports(
    parameters: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str) -> tuple[int, str]:
        code = entry.run(["export-web", *words, "-o", f"{tmp_path}/site"])
        return code, capsys.readouterr().err

    key = str(parameters)
    for words, code, message in (
        (["--zcash", "output"], 2, "name the file sapling-output.params with --key"),
        (["--zcash", "convert", "--key", key], 2, "unknown kind 'convert'; use output or spend"),
        (["--zcash", "output", "--masp", "output", "--key", key], 2, "exclude each other"),
        (["x.zkey", "--zcash", "output", "--key", key], 2, "take --key alone"),
        (["--zcash", "output", "--key", key, "--input", key], 2, "take --key alone"),
        ([], 2, "name a proving key (ZKEY), or use --zcash or --masp"),
        (["--zcash", "output", "--key", key], 9, "test key"),
        (["--zcash", "spend", "--key", key, "--insecure-test-key"], 4, "points"),
        (["--masp", "convert", "--key", key, "--insecure-test-key"], 4, "points"),
    ):
        assert refused(*words)[0] == code, words
        assert message in refused(*words)[1], words
    assert not list(tmp_path.iterdir())
