"""The worker that generates text: one device with all models of the server.

Texts of one model are generated in a batch, which jobs enter and leave between two tokens. Neither
the batch nor the device changes a token, so a job that is retried elsewhere repeats its tokens.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.errors import TryAgainError
from quod.inference.transformer.generation import Batch, Step
from quod.inference.transformer.transformer import Transformer
from quod.service.errors import ModelChangedError, NotFoundError
from quod.service.generation.models import Models, ServedModel
from quod.service.generation.requests import read_prompt, result_document
from quod.service.keys import CacheStatus, Tier
from quod.service.keys.leases import KeyUse
from quod.service.payload import PayloadKind
from quod.service.queue import JobQueue, Lease
from quod.service.worker.device_worker import CLAIM_SECONDS, DeviceWorker
from quod.service.worker.pools.pool import Stage, StageRecord, WorkerStatus
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.work import AbandonedError, Work

_PROGRESS_SECONDS = 0.05
"""The least time between two events of a job, which bounds the writes of the queue."""
_LOOK_SECONDS = 0.05
"""The time between two looks at the queue while texts are generated."""


@dataclass
class _Text:
    """A job in a batch.

    entered: the wall-clock time at which it entered its stage.
    tokens, parts: its tokens so far, and their texts.
    reported: the number of tokens that its client has been sent; None if the queue must be asked.
    next_report: the time of the next report, by the monotonic clock.
    """

    work: Work
    entered: float
    prompt_tokens: int = 0
    tokens: list[int] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    reported: int | None = 0
    next_report: float = 0.0


class _OpenModel:
    """A model on the device, with the texts of its batch by number."""

    def __init__(self, served: ServedModel, transformer: Transformer, seconds: float) -> None:
        self.served, self.transformer, self.seconds = served, transformer, seconds
        self.batch: Batch = transformer.batch()
        self.texts: dict[int, _Text] = {}


class GenerationWorker(DeviceWorker):
    """Generates text from `start` to `close`. Thread-safe.

    models: the models; all of them are opened before the worker is ready.
    """

    _product = "text"

    def __init__(
        self, name: str, queue: JobQueue, settings: WorkerSettings, models: Models, record: Any
    ) -> None:
        super().__init__(name, queue, settings, record, "quod-generation")
        self._models = models
        self._device: AnyDevice | None = None
        self._open: dict[str, _OpenModel] = {}
        self._held: tuple[_Text, ...] = ()
        self._next_look = 0.0

    # --- the interface to the pool

    def status(self) -> WorkerStatus:
        """Return the current status; models count as keys, and texts as proofs."""
        works, device = self._works(), self._device
        cache = CacheStatus(self._serving, {}, {}, 0, ())
        memory: dict[str, int] = {}
        if device is not None:
            on_host = in_host_memory(device)
            keys = [_use(each, on_host=on_host) for each in list(self._open.values())]
            used = sum(key.host_bytes + key.device_bytes for key in keys)
            budget = 0 if on_host else device.memory_budget
            tier = Tier.HOST if on_host else Tier.DEVICE
            cache = CacheStatus(self._serving, {tier: budget}, {tier: used}, 0, tuple(keys))
            memory = {"keys": used, "workspace": 0, "free": max(0, budget - used)}
        return WorkerStatus(
            self.name, self.settings.device, self._state(), self._started, self._restarts,
            {work.lease.job: work.stage for work in works}, self._proofs, self._failures,
            self._busy_seconds, memory, cache, self._problem,
            tuple(work.lease.key for work in works),
        )  # fmt: skip

    def _works(self) -> Sequence[Work]:
        return [text.work for text in self._held]

    # --- the lifecycle

    def _serve(self) -> None:
        self._was_ready = False
        try:
            self._device = resolve_device(self.settings.device)
            for served in self._models:
                begin = time.monotonic()
                transformer = served.open(self.settings.device)
                seconds = time.monotonic() - begin
                self._open[served.name] = _OpenModel(served, transformer, seconds)
            with self._ready_for_work(list(self._open)):
                while not self._closing:
                    self._look()
                    self._step()
        finally:
            self._fail_all(AbandonedError())
            self._open, self._device = {}, None

    def _look(self) -> None:
        """Claim jobs; wait for one if no text is generated."""
        now = time.monotonic()
        if self._held and now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        free = [name for name, model in self._open.items() if model.batch.free]
        if not free:
            return
        # A job of no model of this server is claimed, too, to fail with a reason.
        keys = free if len(free) < len(self._open) else None
        self._claim(keys, 0.0 if self._held else CLAIM_SECONDS, self._hold)

    def _hold(self, lease: Lease) -> None:
        """Add a job to the batch of its model."""
        work = Work(lease)
        work.enter(Stage.PROMPT)
        # An earlier attempt may have reported tokens.
        text = _Text(work, time.time(), reported=0 if lease.token == 1 else None)
        self._held += (text,)
        try:
            model = self._open.get(lease.key)
            if model is None:
                raise NotFoundError(f"this server has no model {lease.key!r} any more")
            prompt = read_prompt(self._body(work, PayloadKind.PROMPT))
            if prompt.plan != model.served.plan.identity:
                raise ModelChangedError(
                    f"the model {lease.key!r} or its plan was replaced since the job was "
                    "submitted; submit it again"
                )
            seed = None if prompt.seed is None else prompt.seed.to_bytes(8, "little")
            generation = model.transformer.generation(
                prompt.tokens, prompt.max_tokens, temperature=prompt.temperature, seed=seed
            )
            text.prompt_tokens = len(prompt.tokens)
            if generation.limit:
                model.texts[model.batch.add(generation)] = text
            else:
                self._succeed(model, text, "length")
        except Exception as error:
            self._drop(text, error)

    def _step(self) -> None:
        """Generate a token of each text of each model."""
        begin = time.monotonic()
        for model in self._open.values():
            self._drop_abandoned(model)
            if not model.texts:
                continue
            try:
                steps = model.batch.step()
            except Exception as error:
                # The state of the batch is unknown.
                for text in model.texts.values():
                    self._drop(text, error)
                raise
            for step in steps:
                self._advance(model, step)
            now = time.monotonic()
            for text in model.texts.values():
                # The batch makes progress, so none of its texts hangs.
                text.work.entered = now
            self._ended(begin)
            begin = time.monotonic()

    def _advance(self, model: _OpenModel, step: Step) -> None:
        """Record a token of a text."""
        text = model.texts.pop(step.text) if step.ended else model.texts[step.text]
        work, generated = text.work, step.generated
        try:
            if work.stage is Stage.PROMPT:
                self._leave_stage(text)
                work.enter(Stage.GENERATE)
            if step.error is not None:
                raise model.served.error_for_clients(step.error)
            if generated is not None:
                text.tokens.append(generated.token)
                text.parts.append(generated.text)
            if step.ended:
                self._succeed(model, text, "length" if generated is not None else "stop")
            elif time.monotonic() >= text.next_report:
                self._report_tokens(text)
        except Exception as error:
            model.batch.remove(step.text)
            model.texts.pop(step.text, None)
            self._drop(text, error)

    def _report_tokens(self, text: _Text) -> None:
        """Send the client of a text its new tokens; learn of a cancellation."""
        text.next_report = time.monotonic() + _PROGRESS_SECONDS
        lease = text.work.lease
        try:
            first = self._reported_tokens(lease) if text.reported is None else text.reported
            text.reported = first
            new = slice(first, len(text.tokens))
            if not text.tokens[new]:
                return
            data: dict[str, str | int] = {
                "first": first,
                "tokens": " ".join(map(str, text.tokens[new])),
                "text": "".join(text.parts[new]),
            }
            text.reported = None
            [error] = self._queue.renew([lease], stage=text.work.stage.value, progress=data)
        except TryAgainError:
            # The queue may have this report or not; the result has all tokens in any case.
            return
        if error is not None:
            raise error
        text.reported = new.stop

    def _reported_tokens(self, lease: Lease) -> int:
        """Return how many tokens the queue has in events, also those of earlier attempts."""
        count, last = 0, 0
        while True:
            job, events = self._queue.wait(lease.job, after=last, timeout=0)
            for event in events:
                last = event.number
                if event.kind == "progress":
                    count += len(str(event.data["tokens"]).split())
            if last >= job.last_event:
                return count

    def _succeed(self, model: _OpenModel, text: _Text, finish: str) -> None:
        self._leave_stage(text)
        self._report_tokens(text)
        document = result_document(
            text=model.transformer.tokenizer.decode(text.tokens), tokens=text.tokens,
            prompt_tokens=text.prompt_tokens, finish=finish, model=model.served.digest,
            plan=model.served.plan.identity,
        )  # fmt: skip
        self._finish(text.work, json.dumps(document).encode())
        self._release(text)

    def _leave_stage(self, text: _Text) -> None:
        now, lease = time.time(), text.work.lease
        begin, text.entered = text.entered, now
        self._record(
            StageRecord(
                self.name, lease.job, lease.partition, lease.key, text.work.stage, begin, now
            )
        )

    def _drop_abandoned(self, model: _OpenModel) -> None:
        for number, text in list(model.texts.items()):
            if text.work.is_abandoned:
                del model.texts[number]
                model.batch.remove(number)
                self._drop(text, AbandonedError())

    def _drop(self, text: _Text, error: Exception) -> None:
        """Report the failure of a text."""
        self._fail(text.work, error)
        self._release(text)

    def _release(self, text: _Text) -> None:
        text.work.ended = True
        self._held = tuple(each for each in self._held if each is not text)
        self._ended(time.monotonic())

    def _fail_all(self, error: Exception) -> None:
        for text in self._held:
            self._drop(text, error)


def _use(model: _OpenModel, *, on_host: bool) -> KeyUse:
    nbytes = model.transformer.memory_bytes
    return KeyUse(
        model.served.name, Tier.HOST if on_host else Tier.DEVICE, ready=True, loading=False,
        host_bytes=nbytes * on_host, device_bytes=nbytes * (not on_host),
        leases=len(model.texts), hits=0, misses=1, loads=1, failures=0, evictions=0,
        load_seconds=model.seconds,
    )  # fmt: skip
