"""The helper process that compiles kernels for another process (see `compile_pool`).

It reads requests from standard input and writes replies to a pipe. It ends with its parent, or when
it has been idle for a while.
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import sys
import threading
from typing import IO, Any

from quod.device.cache import sources
from quod.device.cpu import compiler as cpu_compiler
from quod.device.cpu.messages import CODE, QUICK_CODE, Request, receive, send

_IDLE_SECONDS = 10.0


def main(pipe: int) -> None:
    """Serve requests until standard input is closed or the process has been idle for some time.

    pipe: the descriptor for the replies.
    """
    # Ctrl-C is for the parent, which closes standard input when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    replies = os.fdopen(pipe, "wb")
    while True:
        try:
            request = requests.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            os._exit(0)
        _serve(request, requests, replies)


def _listen(stream: IO[bytes], requests: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            requests.put(receive(stream))
        except BaseException:
            # Exit even during a compilation: no process waits for its result.
            os._exit(0)


def _serve(request: Request, requests: queue.SimpleQueue[Any], replies: IO[bytes]) -> None:
    """Send the key of the kernel's text and then, if the parent lacks its code, the code.

    For another device, send its text.
    Sends None if the kernel cannot be compiled: the parent compiles it again, and its caller gets
    the error. Sends None, too, if the sources on disk are not those that the parent runs.
    """
    digest, asked, module, name, machine, static = request
    try:
        definition = getattr(importlib.import_module(module), name)
        if asked not in (CODE, QUICK_CODE):
            packed = importlib.import_module(asked).packed_text(definition, machine, static)
            is_same = sources.digest() == digest and sources.are_unchanged()
            send(replies, packed if is_same else None)
            return
        text = cpu_compiler.KernelText(definition, machine, static, quick=asked == QUICK_CODE)
        is_same = sources.digest() == digest and sources.are_unchanged()
        send(replies, text.key if is_same else None)
        if not is_same:
            return
        if requests.get():
            send(replies, text.compile().pack())
    except Exception:
        send(replies, None)
