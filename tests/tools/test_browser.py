"""The browser that tests drive: what it reports is what the page did."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.browser import DESKTOP, PHONE, Browser, DevToolsError
from tests.support.site import serve

POLICY = "default-src 'self'"

PAGE = """<!doctype html><meta charset="utf-8"><title>Trial</title>
<label>Name <input id="name"></label> <input id="file" type="file"> <button id="go">Go</button>
<output id="said"></output><script type="module" src="trial.js"></script>"""

SCRIPT = """
document.querySelector("#go").addEventListener("click", async () => {
  const [file] = document.querySelector("#file").files;
  const content = file ? await file.text() : "no file";
  document.querySelector("#said").textContent =
    `${document.querySelector("#name").value}: ${content}`;
});
console.log("ready", 3);
export const double = (n) => 2 * n;
"""

COMPUTE = """async () => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  const code = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
      x[id.x] = id.x * id.x; }`;
  const pipeline = await device.createComputePipelineAsync(
    { layout: "auto", compute: { module: device.createShaderModule({ code }) } });
  const made = (usage) => device.createBuffer({ size: 256, usage });
  const x = made(GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
  const read = made(GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer: x } }] });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline); pass.setBindGroup(0, group); pass.dispatchWorkgroups(1); pass.end();
  encoder.copyBufferToBuffer(x, 0, read, 0, 256);
  device.queue.submit([encoder.finish()]);
  await read.mapAsync(GPUMapMode.READ);
  return [...new Uint32Array(read.getMappedRange())];
}"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "trial.js").write_text(SCRIPT)
    (tmp_path / "favicon.ico").touch()
    return tmp_path


def test_page_automation(browser: Browser, folder: Path) -> None:
    with serve(folder, {"Content-Security-Policy": POLICY}) as site, browser.page() as page:
        page.navigate(site.url)
        assert page.call("async (n) => (await import('./trial.js')).double(n)", 21) == 42
        assert page.evaluate("[1, null, 'a', {b: 2n ** 70n > 0}]") == [1, None, "a", {"b": True}]
        assert page.evaluate("2n ** 70n") == f"{1 << 70}n"
        chosen = folder / "chosen.txt"
        chosen.write_text("content")
        page.fill("#name", "seven")
        page.click("#go")
        page.wait_for("document.querySelector('#said').textContent")
        assert page.text("#said") == "seven: no file"
        page.choose_files("#file", chosen)
        page.click("#go")
        page.wait_for("document.querySelector('#said').textContent == 'seven: content'")
        assert page.console == ["log: ready 3"]
        assert page.exceptions == []
        assert page.requests[:2] == [site.url, f"{site.url}trial.js"]
        assert site.requests[:2] == ["/", "/trial.js"]


def test_widths_keys_and_screenshots(browser: Browser, folder: Path) -> None:
    with serve(folder) as site, browser.page(PHONE) as page:
        page.navigate(site.url)
        shot = page.screenshot("trial-phone")
        assert shot.read_bytes().startswith(b"\x89PNG")
        assert page.evaluate("[innerWidth, devicePixelRatio]") in ([390, 2], [980, 2])
        page.resize(DESKTOP)
        assert page.evaluate("innerWidth") == 1280
        page.press("Tab")
        assert page.evaluate("document.activeElement.id") == "name"
        page.press("x")
        assert page.evaluate("document.activeElement.value") == "x"
        page.prefer(prefers_color_scheme="dark")
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        shot.unlink()


def test_browser_errors_are_reported(browser: Browser, folder: Path) -> None:
    with serve(folder, {"Content-Security-Policy": POLICY}) as site, browser.page() as page:
        page.navigate(site.url)
        with pytest.raises(DevToolsError, match="RangeError: too far"):
            page.evaluate("Promise.reject(new RangeError('too far'))")
        with pytest.raises(DevToolsError, match=r"Runtime.evaluate: no answer within 0.2 s"):
            page.evaluate("new Promise(() => {})", timeout=0.2)
        with pytest.raises(DevToolsError, match=r"not so within 3 s: 1 > 2 \(log: ready 3\)"):
            page.wait_for("1 > 2", timeout=3)
        with pytest.raises(DevToolsError, match="there is no #nothing"):
            page.choose_files("#nothing", folder / "index.html")
        page.evaluate("void setTimeout(() => { throw new Error('uncaught') })")
        inline = "Object.assign(document.createElement('script'), {textContent: 'window.x = 1'})"
        page.evaluate(f"void document.body.append({inline})")
        page.wait_for("new Promise((done) => setTimeout(() => done(true), 50))")
        assert page.exceptions[0].startswith("Error: uncaught")
        assert "Content Security Policy" in page.console[-1]
        page.set_offline()
        with pytest.raises(DevToolsError, match="ERR_INTERNET_DISCONNECTED"):
            page.navigate(site.url)
        page.set_offline(False)
        page.navigate(site.url)
    with browser.page() as page, pytest.raises(DevToolsError, match="ERR_CONNECTION_REFUSED"):
        page.navigate(site.url)


def test_shaders_compute(browser: Browser, folder: Path) -> None:
    with serve(folder) as site, browser.page() as page:
        page.navigate(site.url)
        assert page.call(COMPUTE) == [n * n for n in range(64)]


@pytest.mark.thorough
def test_browser_without_adapter_leaves_no_process(folder: Path) -> None:
    """A browser with no adapter; and none of its processes is left after it."""
    with serve(folder) as site, Browser(webgpu=False) as browser:
        with browser.page() as page:
            page.before_load("globalThis.first = 1")
            page.navigate(site.url)
            assert page.evaluate("navigator.gpu.requestAdapter()") is None
            assert page.evaluate("first") == 1
        group = browser._devtools._process.pid
        with browser.page() as page:
            page.navigate(site.url)
            # Left busy, it does not hear that it should end.
            page.send("Runtime.evaluate", expression="setTimeout(() => { for (;;); })")
    remaining = subprocess.run(
        ["ps", "-o", "args=", "-g", str(group)], capture_output=True, text=True
    )
    assert [line for line in remaining.stdout.splitlines() if "defunct" not in line] == []
    with pytest.raises(DevToolsError, match="the browser has ended"):
        browser._devtools.send("Browser.getVersion")
