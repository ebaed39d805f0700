"""Chromium without a window, with WebGPU on SwiftShader, driven through the DevTools protocol.

    with Browser() as browser, serve(folder) as site, browser.page() as page:
        page.navigate(site.url)
        assert page.call("async (n) => (await import('./a.js')).double(n)", 21) == 42
        page.screenshot("double")

`make test` sets QUOD_TEST_BROWSER=required, so that a test which needs Chromium fails where it is
missing; elsewhere it is skipped.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.devtools import DevTools, DevToolsError

__all__ = [
    "DESKTOP", "PHONE", "SCREENSHOTS", "SWIFTSHADER", "Browser", "DevToolsError", "Page",
    "why_no_browser",
]  # fmt: skip

REPOSITORY = Path(__file__).resolve().parents[2]
SCREENSHOTS = REPOSITORY / "build" / "screenshots"

SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
"""The Vulkan driver of Debian's Chromium, for native programs in VK_ICD_FILENAMES."""

PHONE = (390, 844)
DESKTOP = (1280, 800)

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
    # A page in the background would be slowed down, and a long shader taken for a hang.
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows", "--disable-gpu-watchdog",
)  # fmt: skip
_WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


def _program() -> str | None:
    named = os.environ.get("QUOD_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


def why_no_browser() -> str | None:
    """Reason that `Browser` cannot run, or None."""
    if _program() is None:
        return "there is no Chromium; run tools/setup.sh webgpu, or name one in QUOD_CHROMIUM"
    return None


class Browser:
    """A Chromium of its own, with a temporary profile; ends with the block.

    Without `webgpu`, pages find `navigator.gpu` and no adapter, as on a machine whose GPU is
    blocked. `flags` are more options of Chromium's.
    """

    def __init__(self, *, webgpu: bool = True, flags: tuple[str, ...] = ()) -> None:
        program = _program()
        if program is None:
            raise DevToolsError(why_no_browser())
        # The loader of Vulkan would look there for SwiftShader too.
        hidden = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "DISPLAY", "WAYLAND_DISPLAY")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        options = (*_FLAGS, *(_WEBGPU if webgpu else ("--disable-gpu",)), *flags)
        self._devtools = DevTools([program, *options], environment)
        try:
            self.version: str = self._devtools.send("Browser.getVersion")["product"]
        except BaseException:
            self._devtools.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End Chromium and all its processes."""
        self._devtools.close()

    @contextlib.contextmanager
    def page(
        self, size: tuple[int, int] = DESKTOP, *, downloads: Path | None = None
    ) -> Iterator[Page]:
        """An empty page with storage of its own, which saves what it downloads to `downloads`."""
        send = self._devtools.send
        context = send("Target.createBrowserContext")["browserContextId"]
        try:
            target = send("Target.createTarget", url="about:blank", browserContextId=context)
            page = Page(self._devtools, target["targetId"], size)
            if downloads is not None:
                send(
                    "Browser.setDownloadBehavior", behavior="allow",
                    downloadPath=str(downloads), browserContextId=context,
                )  # fmt: skip
            yield page
        finally:
            with contextlib.suppress(DevToolsError):
                send("Target.disposeBrowserContext", browserContextId=context)


class Page:
    """A page of a browser.

    `console` has what it logged, as ``level: text`` with what the browser said itself (a refused
    script, a file not found); `exceptions` what nothing caught; `requests` the addresses asked for.
    """

    def __init__(self, devtools: DevTools, target: str, size: tuple[int, int]) -> None:
        self._devtools = devtools
        attached = devtools.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str = attached["sessionId"]
        self.console: list[str] = []
        self.exceptions: list[str] = []
        self.requests: list[str] = []
        self._loaded: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._crashed = False
        devtools.listen(self._session, self._event)
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Inspector"):
            self.send(f"{domain}.enable")
        self.resize(size)

    def send(self, method: str, timeout: float = 300, **parameters: Any) -> dict[str, Any]:
        """Send any command of the protocol for this page."""
        if self._crashed:
            raise DevToolsError(f"{method}: the page has crashed")
        return self._devtools.send(method, self._session, timeout, **parameters)

    def navigate(self, url: str, timeout: float = 300) -> None:
        """Open an address, and wait until it has loaded."""
        while not self._loaded.empty():
            self._loaded.get()
        answer = self.send("Page.navigate", timeout=timeout, url=url)
        if error := answer.get("errorText"):
            raise DevToolsError(f"{url}: {error}")
        try:
            self._loaded.get(timeout=timeout)
        except queue.Empty:
            raise DevToolsError(f"{url}: not loaded within {timeout:g} s") from None

    def before_load(self, script: str) -> None:
        """Have a script run in each document that is opened from now on, before its own."""
        self.send("Page.addScriptToEvaluateOnNewDocument", source=script)

    def evaluate(self, expression: str, timeout: float = 300) -> Any:
        """The value of a JavaScript expression, or of what it promises, as JSON has it.

        An exception is a DevToolsError with its text and stack. Big integers come as decimal
        strings with an ``n``; other values that JSON has not are refused by the browser.
        """
        return self._value(
            self.send(
                "Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True,
                returnByValue=True, userGesture=True,
            )
        )  # fmt: skip

    def call(self, function: str, *arguments: Any, timeout: float = 300) -> Any:
        """Call a JavaScript function, given as text, with arguments that JSON has."""
        json_arguments = ", ".join(json.dumps(argument) for argument in arguments)
        return self.evaluate(f"({function})({json_arguments})", timeout)

    def wait_for(self, expression: str, timeout: float = 300) -> Any:
        """Evaluate an expression until it is true, and give its value.

        DevToolsError after `timeout` seconds says what the page logged.
        """
        end = time.monotonic() + timeout
        while not (value := self.evaluate(expression, timeout)):
            if time.monotonic() > end:
                said = "; ".join([*self.exceptions, *self.console[-5:]]) or "nothing was logged"
                raise DevToolsError(f"not so within {timeout:g} s: {expression} ({said})")
            time.sleep(0.05)
        return value

    def text(self, selector: str = "body") -> str:
        """The text of the first element that a CSS selector finds, as it is shown."""
        shown_text: str = self.call("(s) => document.querySelector(s).innerText", selector)
        return shown_text

    def click(self, selector: str) -> None:
        """Click the first element that a CSS selector finds."""
        self.call("(s) => document.querySelector(s).click()", selector)

    def fill(self, selector: str, value: str) -> None:
        """Set the value of an input or a text area, and tell its listeners."""
        self.call(
            """(selector, value) => {
                const field = document.querySelector(selector);
                field.focus();
                field.value = value;
                field.dispatchEvent(new Event("input", { bubbles: true }));
                field.dispatchEvent(new Event("change", { bubbles: true }));
            }""",
            selector, value,
        )  # fmt: skip

    def choose_files(self, selector: str, *files: Path) -> None:
        """Choose files in an input of that kind."""
        expression = f"document.querySelector({json.dumps(selector)})"
        remote_object = self.send("Runtime.evaluate", expression=expression)["result"]
        if "objectId" not in remote_object:
            raise DevToolsError(f"there is no {selector}")
        names = [str(file.resolve()) for file in files]
        self.send("DOM.setFileInputFiles", files=names, objectId=remote_object["objectId"])

    def press(self, key: str) -> None:
        """Press a key by its DOM name, such as Tab, Enter or a letter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowUp": 38, "ArrowDown": 40}
        code = codes.get(key, ord(key[0].upper()))
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        event: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the page a width and a height in CSS pixels; a narrow one is a phone's."""
        width, height = size
        phone = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if phone else 1, mobile=phone,
        )  # fmt: skip
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def prefer(self, **features: str) -> None:
        """Media features of the reader's choice: ``prefers_color_scheme="dark"``."""
        chosen = [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]
        self.send("Emulation.setEmulatedMedia", features=chosen)

    def set_offline(self, offline: bool = True) -> None:
        """Cut the page off from the network, localhost included, or connect it again."""
        unlimited = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.send("Network.emulateNetworkConditions", offline=offline, **unlimited)

    def screenshot(self, name: str, *, full_page: bool = True) -> Path:
        """Save the page to build/screenshots as NAME.png: all its height, or what is seen."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full_page)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        file = SCREENSHOTS / f"{name}.png"
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def _value(self, answer: dict[str, Any]) -> Any:
        if details := answer.get("exceptionDetails"):
            raise DevToolsError(_exception_text(details))
        result = answer["result"]
        return result.get("value", result.get("unserializableValue"))

    def _event(self, name: str, content: dict[str, Any]) -> None:
        match name:
            case "Page.loadEventFired":
                self._loaded.put(None)
            case "Runtime.consoleAPICalled":
                words = [str(a.get("value", a.get("description", ""))) for a in content["args"]]
                self.console.append(f"{content['type']}: {' '.join(words)}")
            case "Log.entryAdded":
                entry = content["entry"]
                self.console.append(f"{entry['level']}: {entry['text']} ({entry.get('url', '')})")
            case "Runtime.exceptionThrown":
                self.exceptions.append(_exception_text(content["exceptionDetails"]))
            case "Network.requestWillBeSent":
                self.requests.append(content["request"]["url"])
            case "Inspector.targetCrashed":
                self._crashed = True


def _exception_text(details: dict[str, Any]) -> str:
    thrown = details.get("exception", {})
    text: str = thrown.get("description") or str(thrown.get("value", details["text"]))
    return text
