"""The operator's page in Chromium: its contents, and its behaviour when the server fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quod.service.client import ProofRequest
from tests.service.page.fake_server import NAMES, PAGE, TOKEN, FakeServer, FakeService
from tests.service.server.conftest import keys, start  # noqa: F401
from tests.service.server.running_server import RunningServer
from tests.support.browser import DESKTOP, PHONE, Browser, Page
from tests.support.node import type_errors

LANE = """(name, lane) => {
  const canvas = document.querySelector(`.worker[data-key="${name}"] canvas`);
  const scale = canvas.width / canvas.clientWidth;
  const copy = new OffscreenCanvas(canvas.width, 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, -Math.round((16 * lane + 6) * scale));
  const row = copy.getImageData(0, 0, canvas.width, 1).data;
  const seen = {};
  for (let i = 0; i < row.length; i += 4) {
    const colour = row.slice(i, i + 3).join();
    seen[colour] = (seen[colour] ?? 0) + 1;
  }
  return seen;
}"""
PROVE = 3
IDLE_RED = "229,72,77"
ROWS = "document.querySelectorAll('#jobs tr').length"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(FakeService()) as fake_server:
        yield fake_server


def opened(page: Page, server: FakeServer) -> None:
    page.navigate(server.url)
    page.wait_for(f"{ROWS} >= 50")
    # Stages have come by their stream.
    page.wait_for("document.querySelectorAll('#jobs .bar span').length > 50")


def no_complaints(page: Page) -> None:
    assert page.console == []
    assert page.exceptions == []


def test_operator_view(browser: Browser, server: FakeServer) -> None:
    server.service.quarantined = True
    with browser.page() as page:
        opened(page, server)
        page.wait_for("document.querySelectorAll('.worker').length === 3")
        banner = page.text("header")
        for text in ("ready", "10,000", "5 min 4", "0.1.0"):
            assert text in banner
        assert "a proof did not verify" in page.text(".worker[data-key='gpu 2']")
        assert "quarantined" in page.text(".worker[data-key='gpu 2'] h3")
        assert "1 failed" in page.text(".worker[data-key='gpu 1']")
        assert page.text("#priorities").split()[:2] == ["9", "12"]
        assert "batch-of-the-night" in page.text("#clients")
        assert "membership" in page.text("#keys")
        assert "failed" in page.text("#jobs")
        # All of it is from the server itself, and no token is in an address.
        assert all(address.startswith(server.url) for address in page.requests)
        no_complaints(page)


@pytest.mark.thorough
def test_lanes_move_and_idle_time_is_red(browser: Browser, server: FakeServer) -> None:
    with browser.page() as page:
        opened(page, server)
        # The stages of the last minute are drawn when their stream has brought all of them.
        lane = f"({LANE})('gpu 1', {PROVE})"
        page.wait_for(
            f"(seen => seen['{IDLE_RED}'] > 100 && seen['{IDLE_RED}'] < 0.75 * Object.values(seen)"
            f".reduce((a, b) => a + b, 0))({lane})",
        )  # fmt: skip
        pauses, busy = page.call(LANE, "gpu 1", PROVE), page.call(LANE, "gpu 0", PROVE)
        # One has a pause of 7 s in each 20, the other none but between proofs.
        assert 0.2 < pauses[IDLE_RED] / sum(pauses.values()) < 0.75
        assert busy.get(IDLE_RED, 0) < pauses[IDLE_RED]
        assert all(IDLE_RED not in page.call(LANE, "gpu 1", lane) for lane in (0, 1, 2, 4))
        picture = "document.querySelector('canvas').toDataURL()"
        first = page.evaluate(picture)
        page.wait_for(f"{picture} !== {json.dumps(first)}")
        no_complaints(page)


@pytest.mark.thorough
def test_a_job_and_its_errors(browser: Browser, server: FakeServer) -> None:
    with browser.page() as page:
        opened(page, server)
        page.call(
            "() => [...document.querySelectorAll('#jobs tr')].find((row) => "
            "row.children[1].textContent === 'failed').querySelector('button').click()"
        )
        page.wait_for("document.querySelectorAll('#job table').length === 2")
        text = page.text("#job")
        for part in ("INVALID_ARGUMENT: the witness does not satisfy", "Attempts", "upload"):
            assert part in text
        assert page.evaluate("document.querySelectorAll('#job .bar span').length") >= 4
        page.press("Escape")
        page.wait_for("!document.querySelector('#job').open")
        no_complaints(page)


@pytest.mark.thorough
def test_page_follows_a_restarted_server(browser: Browser) -> None:
    with browser.page() as page:
        with FakeServer(FakeService()) as first:
            opened(page, first)
            port = first.port
        page.wait_for("document.body.classList.contains('stale')")
        assert "cannot be reached" in page.text("#problem")
        assert page.text("#state") == "unreachable"
        # What was there is shown still.
        assert page.evaluate(ROWS) == 50
        service = FakeService()
        service.state = "draining"
        with FakeServer(service, port):
            page.wait_for("!document.body.classList.contains('stale')")
            page.wait_for("document.querySelector('#state').textContent === 'draining'")
            newest = "document.querySelector('#jobs .bar').children.length"
            page.wait_for(f"{newest} > 0")
        assert page.exceptions == []


@pytest.mark.thorough
def test_token_is_requested_and_sent(browser: Browser) -> None:
    with FakeServer(FakeService(), token=TOKEN) as server, browser.page() as page:
        page.navigate(server.url)
        for wrong in ("", "wrong"):
            if wrong:
                page.fill("#token", wrong)
                page.click("#access button")
            page.wait_for("!document.querySelector('#access').hidden")
            # Who has not been asked yet did nothing wrong.
            hidden = "document.querySelector('#problem').hidden"
            page.wait_for(f"{hidden} === {'false' if wrong else 'true'}")
            state = "no access" if wrong else "token needed"
            page.wait_for(f"document.querySelector('#state').textContent === '{state}'")
            if wrong:
                assert page.text("#problem") == "a token is needed"
            assert page.evaluate("document.querySelector('#main').hidden")
        page.fill("#token", TOKEN)
        page.click("#access button")
        page.wait_for(f"{ROWS} >= 50")
        assert page.evaluate("document.querySelector('#access').hidden")
        assert page.evaluate("sessionStorage.getItem('token')") == TOKEN
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        assert TOKEN not in "".join(page.requests)
        # The browser itself tells of each 401, and of nothing else.
        assert all("401" in line for line in page.console)
        assert page.exceptions == []


@pytest.mark.thorough
def test_names_are_rendered_as_text(browser: Browser, server: FakeServer, monkeypatch: Any) -> None:
    evil = "<img src=x onerror=document.title='evil'>"
    monkeypatch.setattr("tests.service.page.fake_server._CLIENTS", (evil,) * 3)
    monkeypatch.setitem(NAMES, "ab" * 32, [evil])
    with FakeServer(FakeService()) as evil_server, browser.page() as page:
        opened(page, evil_server)
        assert evil in page.text("#jobs")
        assert evil in page.text("#keys")
        assert page.evaluate("document.title") == "Quod"
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        no_complaints(page)


@pytest.mark.thorough
def test_ten_thousand_jobs_a_minute(browser: Browser) -> None:
    with FakeServer(FakeService(rate=100)) as server, browser.page() as page:
        page.send("Performance.enable", timeDomain="threadTicks")
        opened(page, server)

        def measured() -> dict[str, float]:
            metrics = page.send("Performance.getMetrics")["metrics"]
            return {metric["name"]: metric["value"] for metric in metrics}

        before = measured()
        page.evaluate("new Promise((done) => setTimeout(done, 3000))")
        after = measured()
        # Seconds of its thread: the machine may have others to do.
        script = after["ScriptDuration"] - before["ScriptDuration"]
        assert script < 0.6 * (after["Timestamp"] - before["Timestamp"])
        assert after["Nodes"] < 10_000
        no_complaints(page)


@pytest.mark.thorough
def test_page_of_a_real_server(browser: Browser, start: Any) -> None:  # noqa: F811
    """The real server has the routes and headers that the page needs."""
    server: RunningServer = start(listen={"http": ["127.0.0.1:0"], "insecure_no_auth": True})
    with server.client() as client, browser.page() as page:
        jobs = [client.prove(ProofRequest("membership", wtns=b"w")) for _ in range(3)]
        page.navigate(server.listeners.http[0] + "/")
        page.wait_for(f"{ROWS} === 3")
        page.wait_for("document.querySelectorAll('#jobs .bar span').length >= 6")
        assert "ready" in page.text("header")
        assert "fake" in page.text("#workers")
        # A stage that ends while the page is open comes by the stream.
        jobs.append(client.prove(ProofRequest("membership", wtns=b"w")))
        page.wait_for(f"{ROWS} === 4")
        page.wait_for("document.querySelectorAll('#jobs .bar span').length >= 8")
        page.click("#jobs button")
        page.wait_for("document.querySelectorAll('#job table').length === 2")
        assert jobs[-1].id in page.text("#job")
        no_complaints(page)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "width"), [(DESKTOP, "wide"), (PHONE, "narrow")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures(
    size: tuple[int, int], width: str, scheme: str, browser: Browser, server: FakeServer
) -> None:
    server.service.quarantined = True
    with browser.page(size) as page:
        page.prefer(prefers_color_scheme=scheme)
        opened(page, server)
        page.wait_for(f"Object.keys(({LANE})('gpu 0', {PROVE})).length > 1")
        page.screenshot(f"operator-{width}-{scheme}", full_page=width == "narrow")
        # Nothing is cut off at the right.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 384) == (scheme == "dark")
        no_complaints(page)


def test_files() -> None:
    assert {path.name for path in PAGE.iterdir()} == {
        "index.html", "page.js", "lanes.js", "page.css", "icon.svg"
    }  # fmt: skip
    page = (PAGE / "index.html").read_text()
    assert "default-src 'self'" in page
    assert "style=" not in page
    assert "<script>" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert sum(path.stat().st_size for path in PAGE.iterdir()) < 50_000


@pytest.mark.node
def test_types(tmp_path: Path) -> None:
    assert type_errors(sorted(PAGE.glob("*.js")), tmp_path, lib=[]) == ""
