"""The lifecycle of a server: open, serve, drain, close."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from quod.device.cache.compilations import compilations
from quod.service.keys import KeyRepository
from quod.service.queue import JobQueue, open_queue
from quod.service.server.config import Config
from quod.service.server.listeners import Listeners, listening
from quod.service.server.metrics import Metrics
from quod.service.server.observing import Observer
from quod.service.server.service import ProvingService
from quod.service.server.startup_check import check_start, risks
from quod.service.server.tracing import tracer
from quod.service.worker.pools.pool import WorkerPool

PoolMaker = Callable[[Config, JobQueue, KeyRepository], WorkerPool]

_SAMPLE_SECONDS = 1.0
_HEALTH_SECONDS = 0.1
_CHECK_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


async def serve(
    config: Config, make_pool: PoolMaker, on_start: Callable[[Listeners], None] = lambda _: None
) -> bool:
    """Serve until SIGTERM or SIGINT, then drain; return whether no unfinished job is left.

    A second signal ends the server at once. Unfinished work is leased again at the next start,
    except for the jobs of calls that waited for their end, which are cancelled.
    """
    loop = asyncio.get_running_loop()
    ending, hurried = asyncio.Event(), asyncio.Event()

    def handle_signal() -> None:
        (hurried if ending.is_set() else ending).set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, handle_signal)
    try:
        return await run(config, make_pool, on_start, ending, hurried)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def run(
    config: Config, make_pool: PoolMaker, on_start: Callable[[Listeners], None],
    ending: asyncio.Event, hurried: asyncio.Event,
) -> bool:  # fmt: skip
    """Serve until `ending` is set, then drain; setting `hurried` cuts draining short."""
    # Standard error is reserved for the log.
    compilations.set_notice(False)
    async with AsyncExitStack() as stack:
        queue = await asyncio.to_thread(
            open_queue, config.data, database=config.database, schema=config.database_schema,
            limits=config.limits(),
        )  # fmt: skip
        stack.push_async_callback(asyncio.to_thread, queue.close)
        repository = KeyRepository(config.keys_folder)
        await asyncio.to_thread(check_start, config)
        pool = await asyncio.to_thread(make_pool, config, queue, repository)
        stack.push_async_callback(asyncio.to_thread, pool.close)
        metrics = Metrics()
        metrics.watch(queue, pool)
        observer = Observer(metrics, tracer(config.tracing))
        stack.callback(observer.close)
        service = ProvingService(
            queue, repository, pool, config.requests, observer, in_file=config.database is None
        )
        stack.push_async_callback(service.close)
        listeners = await stack.enter_async_context(
            listening(config, service, config.client_table())
        )
        sample_task = asyncio.ensure_future(_sample(service))
        stack.callback(sample_task.cancel)
        check_task = asyncio.ensure_future(_check_queue(service))
        stack.callback(check_task.cancel)
        await asyncio.to_thread(pool.start)
        _log.info("serving", extra={"grpc": listeners.grpc, "http": listeners.http})
        for risk in risks(config):
            _log.warning(risk)
        on_start(listeners)
        health_task = asyncio.ensure_future(_follow_health(service, listeners))
        stack.callback(health_task.cancel)
        await ending.wait()
        return await _drain(service, listeners, config.requests.drain_seconds, hurried)


async def _drain(
    service: ProvingService, listeners: Listeners, seconds: float, hurried: asyncio.Event
) -> bool:
    """Refuse new jobs, finish what workers hold, and cancel jobs of calls that still wait.

    Return whether no unfinished job is left in the queue.
    """
    _log.info("draining", extra={"seconds": seconds})
    service.refuse_work()
    await listeners.set_health(ready=False)
    drain_task = asyncio.ensure_future(service.read(lambda: service.pool.drain(seconds)))
    hurried_task = asyncio.ensure_future(hurried.wait())
    await asyncio.wait([drain_task, hurried_task], return_when=asyncio.FIRST_COMPLETED)
    service.hurried = hurried_task.done()
    hurried_task.cancel()
    # Before the listeners end: the calls can still report that their jobs are cancelled.
    await service.cancel_unkept_jobs()
    unfinished_jobs = await service.unfinished_jobs()
    drained = drain_task.done() and drain_task.result()
    finished = drained if unfinished_jobs is None else unfinished_jobs == 0
    _log.info("drained", extra={"finished": finished, "unfinished_jobs": unfinished_jobs})
    return finished


async def _follow_health(service: ProvingService, listeners: Listeners) -> None:
    """Keep the gRPC health status in step with the service."""
    reported = False
    with suppress(asyncio.CancelledError):
        while True:
            if service.ready != reported:
                reported = not reported
                await listeners.set_health(ready=reported)
            await asyncio.sleep(_HEALTH_SECONDS)


async def _check_queue(service: ProvingService) -> None:
    """Mark the server as not ready while its queue does not answer."""
    with suppress(asyncio.CancelledError):
        while True:
            await service.check_queue()
            await asyncio.sleep(_CHECK_SECONDS)


async def _sample(service: ProvingService) -> None:
    """Sample the workers' counters, from which rates are computed."""
    with suppress(asyncio.CancelledError):
        while True:
            workers = await service.read(service.pool.status)
            service.activity.sample(workers)
            await asyncio.sleep(_SAMPLE_SECONDS)
