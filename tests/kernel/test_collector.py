"""Garbage collection pauses only while kernels are traced."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from quod.codegen.wgsl.machine import PORTABLE
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.builder.garbage_collection import paused


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    if not was_enabled:
        gc.disable()


def test_garbage_collection_pauses_while_tracing() -> None:
    seen: list[bool] = []

    @kernel
    def one(k: Builder, x: Pointer[U32]) -> None:
        seen.append(gc.isenabled())
        x[0] = 1

    @kernel
    def wrong(k: Builder, x: Pointer[U32]) -> None:
        seen.append(gc.isenabled())
        raise ValueError

    one.trace(PORTABLE.machine(64))
    assert gc.isenabled()
    with pytest.raises(ValueError, match=r"^$"):
        wrong.trace(PORTABLE.machine(64))
    assert gc.isenabled()
    assert seen == [False, False]


def test_last_thread_resumes_garbage_collection() -> None:
    started, go_on = threading.Event(), threading.Event()

    def other() -> None:
        with paused():
            started.set()
            go_on.wait(60)

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert started.wait(60)
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert gc.isenabled()


def test_disabled_garbage_collection_stays_disabled() -> None:
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()
