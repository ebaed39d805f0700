"""Give every parser damaged input: it must accept or reject it within time and memory limits.

    python -m tools.fuzz --inputs 1000000 --seed 1 --jobs 2
    python -m tools.fuzz --parser zkey --inputs 10000
    python -m tools.fuzz --parser zkey --file build/fuzz/zkey-1-123

A failure is an exception that is none of the parser's refusals, more than two seconds of processor
time, 256 MB of memory more than before, or the end of the process. The input is kept in build/fuzz.
An input follows from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tools.fuzz.parsers import Parser, all_parsers

SECONDS = 2.0
MEMORY = 256 << 20
FOLDER = Path("build") / "fuzz"

# Inputs between two looks at how far a job is.
_STEP = 1000


class ParserTimeout(BaseException):
    """Raised after two seconds; no handler of a parser catches it."""


def input_of(name: str, parser: Parser, seed: int, number: int) -> bytes:
    """Return input `number` for a parser."""
    random = Random(f"{seed} {name} {number}")
    return parser.mutation(random, random.choice(parser.seeds))


def problem_with(parser: Parser, data: bytes) -> str | None:
    """Return the error in a parser's treatment of an input, or None."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        parser.read(data)
    except parser.refusals as refusal:
        text = str(refusal)
        return f"a message of {len(text)} characters" if len(text) > 2000 else None
    except ParserTimeout:
        return f"took more than {SECONDS} s:\n{traceback.format_exc()}"
    except MemoryError:
        return f"took more than {MEMORY >> 20} MB:\n{traceback.format_exc()}"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def watch() -> None:
    """Limit this process to `MEMORY` more bytes, and each input to `SECONDS`."""

    def too_long(_number: int, _frame: FrameType | None) -> None:
        raise ParserTimeout

    signal.signal(signal.SIGVTALRM, too_long)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def fuzz(
    names: list[str], seed: int, numbers: range, place: Synchronized[int], failed: Synchronized[int]
) -> None:
    """Test every input of `numbers` on each parser; `place` receives the current position."""
    parsers = {name: parser for name, parser in all_parsers().items() if name in names}
    for parser in parsers.values():
        for sound in parser.seeds:
            parser.read(sound)
    watch()
    for number in numbers:
        place.value = number
        name = names[number % len(names)]
        data = input_of(name, parsers[name], seed, number)
        problem = problem_with(parsers[name], data)
        if problem is not None:
            keep(name, seed, number, data, problem)
            with failed.get_lock():
                failed.value += 1
    place.value = numbers.stop


def keep(name: str, seed: int, number: int, data: bytes, problem: str) -> None:
    """Store and report an input that a parser treats wrongly."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}-{seed}-{number}"
    path.write_bytes(data)
    print(f"FAILED {path} ({len(data)} bytes): {problem}", flush=True)


def run(names: list[str], seed: int, inputs: int, jobs: int) -> int:
    """Test all inputs; return the number of failures."""
    context = multiprocessing.get_context("fork")
    failed = context.Value("q", 0)
    begin = time.perf_counter()
    share = -(-inputs // jobs)
    starts = range(0, inputs, share)
    running: list[tuple[Any, range, Any]] = []
    for start in starts:
        numbers = range(start, min(inputs, start + share))
        place = context.Value("q", start)
        job = context.Process(target=fuzz, args=(names, seed, numbers, place, failed))
        job.start()
        running.append((job, numbers, place))
    while any(job.is_alive() for job, _, _ in running):
        for job, _, _ in running:
            job.join(10 / len(running))
        done = sum(place.value - numbers.start for _, numbers, place in running)
        rate = done / (time.perf_counter() - begin)
        print(f"{done:,} of {inputs:,} inputs, {rate:.0f}/s, {failed.value} failed", flush=True)
    parsers = all_parsers()
    for job, numbers, place in running:
        if job.exitcode:
            number = place.value
            failed.value += 1
            if number in numbers:
                name = names[number % len(names)]
                data = input_of(name, parsers[name], seed, number)
                keep(name, seed, number, data, f"the process ended with {job.exitcode}")
    return int(failed.value)


def main() -> int:
    parser_names = list(all_parsers())
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--parser", choices=parser_names, action="append", help="only this; repeatable"
    )
    parser.add_argument("--file", type=Path, help="one input for --parser, instead of made ones")
    options = parser.parse_args()
    names = options.parser or parser_names
    if options.file is not None:
        watch()
        problem = problem_with(all_parsers()[names[0]], options.file.read_bytes())
        print(problem or "taken or refused, as it should be")
        return int(problem is not None)
    print(f"seed {options.seed}, {options.inputs:,} inputs for {', '.join(names)}", flush=True)
    failed = run(names, options.seed, options.inputs, options.jobs)
    print(f"{options.inputs:,} inputs of seed {options.seed}: {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
