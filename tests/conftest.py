"""Fixtures and settings that all tests share."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from quod.device.backends import backend, backends
from quod.device.cache.cache import default_folder
from quod.device.cpu.device import STRATEGIES, CpuDevice
from quod.device.cpu.processor import host_processor
from quod.device.discovery import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import SubmittedStream
from quod.private_folder import NotOwnError
from tests.support.browser import Browser, why_no_browser
from tests.support.devices import KINDS, absent_kinds, is_present, present
from tests.support.selection import runs_all
from tests.support.submissions import collect
from tests.support.tint import Tint, naga_errors, why_no_naga, why_no_tint
from tests.support.webgpu_quick import is_left_out

if TYPE_CHECKING:
    from quod.device.webgpu.device import WebGpuDevice

# A kernel may be compiled within an example, and the machine may be busy.
settings.register_profile(
    "quod", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip
settings.load_profile("quod")

# A shell ignores Ctrl-C for what it starts in the background; what tests start and interrupt would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# As nohup does the end of a terminal.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# All tests, and the programs that they start, share one cache of compiled kernels. It is outside of
# the checkout, so that another clone starts with it, and apart from the user's own. It may be
# deleted at any time.
if "QUOD_CACHE_DIR" not in os.environ:
    with contextlib.suppress(NotOwnError):
        os.environ["QUOD_CACHE_DIR"] = str(default_folder().with_name("quod-tests"))
# Hypothesis keeps the constants of each source file and the examples that failed.
if "QUOD_CACHE_DIR" in os.environ:
    set_hypothesis_home_dir(Path(os.environ["QUOD_CACHE_DIR"]) / "hypothesis")

REPOSITORY = Path(__file__).resolve().parent.parent

_LONGEST_ID = 100

# The driver of Chromium for processors, beside those that are installed. Both variables must be set
# before the first adapter is looked for.
_SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
if _SWIFTSHADER.exists():
    os.environ.setdefault("VK_ADD_DRIVER_FILES", str(_SWIFTSHADER))
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
# The user's helper has the user's environment, and no test is for it.
os.environ.pop("QUOD_RESIDENT", None)
# Nor do processes outlive the commands that tests run.
os.environ["QUOD_BACKGROUND"] = "0"


@pytest.fixture(scope="module", params=present("emulated", "cuda"))
def tiling(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device whose kernels copy tiles and multiply them by warpgroups.

    By the name ``emulated:ptx`` one runs texts, without clusters.
    """
    name = request.param
    texts = EmulatedDevice(executor="ptx", tiles=True) if name == "emulated:ptx" else None
    with texts or open_for_test(name) as device:
        if not device.machine(128).has("warpgroups"):
            pytest.skip("this GPU has no warpgroups")
        yield device


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """The fixtures beside the checkout, which are no part of the repository."""
    folder = REPOSITORY.parent / "shared" / "fixtures"
    if not folder.is_dir():
        pytest.skip("needs the shared fixtures beside the checkout (../shared/fixtures)")
    return folder


@pytest.fixture(scope="session")
def spend_parameters() -> Path:
    """Return the ceremony's sapling-spend.params, which is too large for the fixtures."""
    folder = os.environ.get("QUOD_TEST_ZCASH_PARAMS") or Path.home() / ".zcash-params"
    path = Path(folder) / "sapling-spend.params"
    if not path.is_file():
        pytest.skip("needs sapling-spend.params in ~/.zcash-params or QUOD_TEST_ZCASH_PARAMS")
    return path


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name long texts and bytes by their length and digest.

    By default such a parameter is in the id as a whole, with megabytes for hostile files.
    """
    if not isinstance(val, (str, bytes)) or len(val) <= _LONGEST_ID:
        return None
    data = val.encode(errors="surrogatepass") if isinstance(val, str) else val
    return f"{len(val)}-{hashlib.sha256(data).hexdigest()[:12]}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Turn the garbage collector off for the run; see `pytest_runtest_teardown`."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Collect garbage between tests, and each surviving object once.

    Tracing creates objects by the million, and caches keep them for the run. The collector would
    traverse them again and again: a tenth of the run, and seconds for each `gc.collect` of a test.
    """
    if gc.get_count()[0] > _COLLECTED_AT:
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Free garbage while the libraries that it needs for that are still there."""
    gc.unfreeze()
    gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of absent devices, those of `make test-all`, and those that are too slow
    for a WebGPU driver in software."""
    dropped = [item for item in items if _lacks_device(item) or _is_too_slow(item)]
    if not runs_all() and "thorough" not in config.option.markexpr:
        dropped += thorough(items)
    if dropped:
        excluded = set(dropped)
        config.hook.pytest_deselected(items=[*excluded])
        items[:] = [item for item in items if item not in excluded]


def _lacks_device(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("device")
    if mark is not None and not is_present(mark.args[0]):
        return True
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return "webgpu_device" in fixtures and not is_present("webgpu")


_COLLECTED_AT = 1_000_000
"""Objects created since the last collection after which the next test waits for one."""

_BROWSERS = {"browser", "blind"}
"""The fixtures that start Chromium."""


def thorough(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests that only `make test-all` runs.

    The mark ``crossed`` names parameters of a test. In other runs at most one of them has a value
    that is not its first. Of the CPU's strategies of field elements, only the fields are tested
    with all; other tests run with the fastest.
    """
    first: dict[str, dict[str, object]] = {}
    rows = []
    for item in items:
        parameters: dict[str, object] = item.callspec.params if hasattr(item, "callspec") else {}
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if (
            item.get_closest_marker("thorough")
            or not _BROWSERS.isdisjoint(fixtures)
            or (_has_slower_strategy(parameters) and not item.nodeid.startswith("tests/field/"))
        ):
            rows.append(item)
        elif crossed := item.get_closest_marker("crossed"):
            base = first.setdefault(item.nodeid.partition("[")[0], parameters)
            others = sum(parameters[axis] is not base[axis] for axis in crossed.args)
            # Those on WebGPU are chosen by `is_left_out`.
            on_webgpu = any(str(value).startswith("webgpu") for value in parameters.values())
            if others > 1 and not on_webgpu:
                rows.append(item)
    return rows


def _has_slower_strategy(parameters: Mapping[str, object]) -> bool:
    """Return whether a fixture is the CPU with a strategy that is not the fastest here."""
    slower = host_processor().strategies[1:]
    return any(parameters.get(name) in slower for name in ("device", "cpu_device", "checked_cpu"))


def _is_too_slow(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and is_left_out(item.nodeid, callspec.params)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out: the tests of `make test-all`, and those of absent devices."""
    if not runs_all():
        terminalreporter.write_line(
            "without thorough tests and those in a browser; make test-all (QUOD_TEST=all) runs them"
        )
    absent = absent_kinds()
    if absent:
        terminalreporter.write_line(
            f"without {len(absent)} of {len(KINDS)} kinds of devices, which this machine lacks: "
            + ", ".join(absent)
        )


# Interpreted kernels are too slow for all but the host code of GPUs.
_GPUS = [row.name for row in backends() if not row.of_the_processor and row.name != "emulated"]


@pytest.fixture(scope="session", params=present(*STRATEGIES, *_GPUS))
def device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """The processor, with each way of holding field elements in turn, and GPUs."""
    tested_device = open_for_test(request.param)
    yield tested_device
    tested_device.close()


@pytest.fixture(scope="session", params=present("emulated", *_GPUS, "webgpu:portable"))
def gpu_device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """Devices for GPU host code: an interpreter, slow and strict, and GPUs.

    Through WebGPU with all that the adapter offers, and within what every browser has.
    """
    tested_device = open_for_test(request.param)
    yield tested_device
    tested_device.close()


@pytest.fixture(scope="session", params=present(*STRATEGIES))
def checked_cpu(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    """The processor as an interpreter that refuses what is beyond an array, not set, or a race,
    with what it has for each strategy."""
    with open_device(f"cpu:{request.param}", checked=True) as checked_device:
        yield checked_device


@pytest.fixture(scope="session")
def webgpu_device() -> Iterator[WebGpuDevice]:
    """An adapter of WebGPU within what every browser has."""
    from quod.device.webgpu.device import WebGpuDevice

    adapter = open_for_test("webgpu:portable")
    assert isinstance(adapter, WebGpuDevice)
    yield adapter
    adapter.close()


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[SubmittedStream]:
    """Streams that the test submits."""
    return collect(monkeypatch)


def open_for_test(name: str) -> AnyDevice:
    """A device by the name that it has in tests; skips the test where there is none."""
    if name in STRATEGIES:
        return CpuDevice(strategy=name)
    need_backend(name.partition(":")[0])
    return open_device(name)


def need_backend(name: str) -> None:
    """Skip the test, or fail it, where this machine has no device of a kind."""
    row = backend(name)
    reason = row.why_not()
    need(reason and f"no {row.title}: {reason}", f"QUOD_TEST_{name.upper()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window, with WebGPU on the processor."""
    need(why_no_browser(), "QUOD_TEST_BROWSER")
    with Browser() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def tint() -> Iterator[Tint]:
    """The compiler of WGSL that Chromium has."""
    need(why_no_tint(), "QUOD_TEST_NODE")
    compiler = Tint()
    yield compiler
    compiler.close()


@pytest.fixture(scope="session")
def naga() -> Callable[[str], list[str]]:
    """The compiler of WGSL that wgpu has: returns its errors about a text."""
    need(why_no_naga(), "QUOD_TEST_WEBGPU")
    return naga_errors


def need(reason: str | None, variable: str) -> None:
    """Skip the test for a reason, or fail it where the variable says that there is none."""
    if reason is not None:
        if os.environ.get(variable) in ("required", "all"):
            pytest.fail(f"{variable} says that it is there: {reason}")
        pytest.skip(reason)
