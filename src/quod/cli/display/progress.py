"""A progress display that follows a timeline, with a line for each running stage.

It appears only on a terminal, and only after a delay, so that it costs short commands nothing.
Compiling kernels, which happens once per machine, has a stage of its own; off a terminal it is
reported in one line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import perf_counter_ns
from typing import TYPE_CHECKING

from quod.cli.display.terminal import note
from quod.device.cache.compilations import compilations
from quod.device.runtime.timeline import Stage, Timeline

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS = 0.15
REFRESH_SECONDS = 0.08
MAX_LINES = 8
COMPILING_SECONDS = 0.5
"""The delay after which compilation is also reported off a terminal."""


@contextmanager
def followed_timeline(*, quiet: bool) -> Iterator[Timeline]:
    """Yield a timeline whose stages are shown on standard error.

    Shows nothing if `quiet`; off a terminal shows only that kernels are compiled.
    """
    if quiet or not sys.stderr.isatty():
        timeline = Timeline()
        with compilations.watched(_Compiling(timeline, None, quiet=quiet)):
            yield timeline
        return
    display = ProgressDisplay()
    display.start()
    timeline = Timeline(display)
    try:
        with compilations.watched(_Compiling(timeline, display)):
            yield timeline
    finally:
        display.stop()


class _Compiling:
    """A recorder of compilation as stages of a timeline.

    Called with the number of kernels compiled so far and in total. The stages belong to no thread,
    as several threads compile and others wait.
    """

    def __init__(
        self, timeline: Timeline, display: ProgressDisplay | None, *, quiet: bool = False
    ) -> None:
        self._timeline = timeline
        self._display = display
        self._is_reported = quiet or display is not None
        self._shows_end = False
        self._first_ns = 0
        self._stage: Stage | None = None
        self._name = ""

    def __call__(self, done: int, total: int) -> None:
        now = perf_counter_ns()
        if self._stage is None:
            self._name = self._name or _compiling_text()
            self._stage = Stage(self._name, now, "compiler")
            self._first_ns = self._first_ns or now
            if self._display is not None:
                self._display.begin(self._stage)
        stage = self._stage
        stage.progress(done, total)
        if not self._is_reported and now - self._first_ns > COMPILING_SECONDS * 1e9:
            self._is_reported = True
            # The reader may have gone, which does not affect the proof.
            self._shows_end = done < total
            with suppress(OSError, ValueError):
                note(f"{self._name}: {done} of {total}")
        elif self._shows_end and done == total:
            # Otherwise the last line would look like work that was not finished.
            self._shows_end = False
            with suppress(OSError, ValueError):
                note(f"{self._name}: {done} of {total}")
        if done == total:
            self._stage = None
            self._timeline.record(stage.name, stage.begin_ns, now, track=stage.track)
            if self._display is not None:
                self._display.end(stage)


def _compiling_text() -> str:
    # Not needed if all kernels are in the cache.
    from quod.device.cache.compile_notice import compiling_text

    return compiling_text()


class ProgressDisplay:
    """A listener of timelines: workers record open stages, and its own thread draws them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Stage] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)
        self._begin_ns = perf_counter_ns()

    def start(self) -> None:
        """Start the drawing thread, and the clock of all stages."""
        self._begin_ns = perf_counter_ns()
        self._thread.start()

    def stop(self) -> None:
        """Stop the drawing thread and remove the display."""
        self._stopped.set()
        self._thread.join()

    def begin(self, stage: Stage) -> None:
        """See `quod.device.runtime.timeline.Listener`."""
        with self._lock:
            self._open.append(stage)

    def progress(self, stage: Stage) -> None:
        """Do nothing: the stage holds its own numbers."""

    def end(self, stage: Stage) -> None:
        """See `quod.device.runtime.timeline.Listener`."""
        with self._lock:
            self._open.remove(stage)

    def leaves(self) -> list[Stage]:
        """Return the open stages without open inner stages."""
        with self._lock:
            parents = {id(stage.parent) for stage in self._open}
            return [stage for stage in self._open if id(stage) not in parents][:MAX_LINES]

    def _draw(self) -> None:
        if self._stopped.wait(DELAY_SECONDS):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[parts]}", markup=False),
            TimeElapsedColumn(),
            # The clock of a line begins with its stage.
            TextColumn("total {task.fields[all_time]}", markup=False),
            console=Console(file=sys.stderr),
            auto_refresh=False,
            transient=True,
        )
        tasks: dict[int, tuple[Stage, TaskID]] = {}
        with progress:
            while True:
                self._update(progress, tasks)
                progress.refresh()
                if self._stopped.wait(REFRESH_SECONDS):
                    return

    def _update(self, progress: Progress, tasks: dict[int, tuple[Stage, TaskID]]) -> None:
        leaves = {id(stage): stage for stage in self.leaves()}
        all_time = str(timedelta(seconds=int((perf_counter_ns() - self._begin_ns) / 1e9)))
        for key in [key for key in tasks if key not in leaves]:
            progress.remove_task(tasks.pop(key)[1])
        for key, stage in leaves.items():
            if key not in tasks:
                task = progress.add_task(path_of(stage), total=None, parts="", all_time="")
                tasks[key] = (stage, task)
            progress.update(tasks[key][1], all_time=all_time)
            if stage.total:
                progress.update(
                    tasks[key][1],
                    total=stage.total,
                    completed=stage.done,
                    parts=f"{stage.done}/{stage.total}",
                )


def path_of(stage: Stage) -> str:
    """Join the names from the outermost stage to `stage`."""
    names = [stage.name]
    while stage.parent is not None:
        stage = stage.parent
        names.append(stage.name)
    return " › ".join(reversed(names))
