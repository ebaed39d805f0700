"""Memory budgets: work states its peak memory before it starts, and is refused if over budget."""

from __future__ import annotations

from quod.errors import DeviceError
from quod.validation import whole_number, whole_number_or_none

UNLIMITED = 1 << 62
"""More bytes than any memory has."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def bytes_text(count: int) -> str:
    """Format a number of bytes: 1536 is ``1.5 KiB``."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def byte_count(nbytes: object) -> int:
    """Return the size of a buffer as an int; raises DeviceError for an invalid size."""
    max_bytes = (1 << 63) - 1
    return whole_number("the number of bytes of a buffer", nbytes, 0, max_bytes, error=DeviceError)


def budget(nbytes: object) -> int | None:
    """Check the memory budget of a device; raise DeviceError if it is invalid."""
    return whole_number_or_none("memory_budget", nbytes, 1, error=DeviceError)


_REMEDY = (
    "free memory, use a device with more, or split the work (in Python also: a larger "
    "memory_budget)"
)


class OutOfMemory(DeviceError):
    """There is too little memory for the work, now or with the whole budget.

    problem: the message without the remedy.
    """

    is_out_of_memory = True

    def __init__(self, problem: str, remedy: str = _REMEDY) -> None:
        self.problem = problem
        super().__init__(f"{problem}; {remedy}")


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Report whether an error, or one of its causes, means that memory ran out."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "is_out_of_memory", False):
            return True
        error = error.__cause__
    return False


def check_reach(what: str, nbytes: int, most: int) -> None:
    """Raise DeviceError if a buffer or a kernel's argument has more than `most` bytes."""
    if nbytes > most:
        raise DeviceError(
            f"{what} has {bytes_text(nbytes)}, and the device can address at most "
            f"{bytes_text(most)}; split the work, or use a device with larger buffers"
        )


def check_budget(
    what: str, needed: int, budget: int, *, fixed: int = 0, items: int = 0, unit: str = "items"
) -> None:
    """Raise OutOfMemory if work needs more bytes than the budget; call it before the work starts.

    what: the name of the work, for the message.
    needed, budget: sizes in bytes.
    fixed, items: if the memory is `fixed` bytes and the rest is proportional to the number of
        `items`, the message says how many items fit.
    unit: the plural noun of the items.
    """
    if needed <= budget:
        return
    # The sentence fits a singular and a plural `what`.
    message = (
        f"{what} would take {bytes_text(needed)} of memory; the budget is {bytes_text(budget)}"
    )
    if items > 0 and needed > fixed:
        fitting_items = max(0, budget - fixed) * items // (needed - fixed)
        message += f", which fits {fitting_items} of {items} {unit}" if fitting_items else (
            f", too little for any of the {items} {unit}"
        )  # fmt: skip
    raise OutOfMemory(message)
