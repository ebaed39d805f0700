"""Secrets of contributions, in memory that is overwritten after use.

The system's randomness is read into an array, which kernels read as data. When the secret's block
ends, normally or with an error, the array is overwritten with zeros. A secret is never a Python
integer, which could not be overwritten; never a constant of a kernel, which would be cached with
the kernel's code; and has no text form. docs/ceremony.md lists what this cannot guarantee.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any, NoReturn, Self

import numpy as np

from quod.device.discovery import resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.field.array import Words, canonical, integers_to_words
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Pointer, kernel

_SOURCE = "/dev/urandom"


@kernel
def inverted_scalar(k: Builder, a: Pointer[U64], out: Pointer[U64], *, modulus: Modulus) -> None:
    """Set out[0] = 1 / a[0]; both are canonical."""
    f = prime_field(k, modulus)
    radix = modulus.montgomery_radix
    inverse_radix = pow(radix, -1, modulus.value)
    value = f.bounded(f.load(a, 0) * f.constant(radix))
    f.store(out, 0, f.inverse(value) * f.constant(inverse_radix))


class Secret:
    """A nonzero secret scalar, as a context manager that wipes it.

    words: uint32 of shape (words,), an integer below r; zeros after the block.
    """

    __slots__ = ("__weakref__", "modulus", "words")

    def __init__(self, modulus: Modulus, words: Words) -> None:
        """Take ownership of an array of words; use `drawn` or `of_public` instead."""
        self.modulus = modulus
        self.words = words

    @classmethod
    def drawn(cls, modulus: Modulus, text: str = "") -> Secret:
        """Return a uniformly random secret from 1 to r - 1.

        It comes from the system's secure source, exclusive-or the SHAKE256 of `text`. The text can
        add entropy, and cannot remove any. Raises DeviceError if the source cannot be read.
        """
        words = np.zeros(modulus.words, np.uint32)
        secret = cls(modulus, words)
        try:
            text_hash = hashlib.shake_256(
                b"quod contribution\0" + text.encode(errors="surrogatepass")
            )
            pads = np.frombuffer(text_hash.digest(modulus.bytes * 256), "<u4").reshape(256, -1)
            unused_words, unused_bits = divmod(32 * modulus.words - modulus.bits, 32)
            # An attempt gives a number below r with a probability above 1/2.
            for pad in pads:
                _fill(words)
                words ^= pad
                words[modulus.words - unused_words :] = 0
                words[modulus.words - unused_words - 1] &= np.uint32(0xFFFFFFFF >> unused_bits)
                if canonical(modulus, words)[0] and words.any():
                    return secret
        except BaseException:
            secret.wipe()
            raise
        secret.wipe()
        raise DeviceError("the system's random number generator is broken: no number is below r")

    @classmethod
    def of_public(cls, modulus: Modulus, number: int) -> Secret:
        """Return a public scalar, such as a beacon's; raise InputError for 0."""
        if number == 0:
            raise InputError("the beacon gives the secret 0; use another beacon")
        return cls(modulus, integers_to_words(modulus, [number])[0])

    def inverse(self) -> Secret:
        """Return 1 / the secret, which the caller must wipe too."""
        inverse = Secret(self.modulus, np.zeros_like(self.words))
        host = resolve_device("cpu")
        kernel = host.compile(inverted_scalar, lanes=1, modulus=self.modulus)
        host.launch(kernel, 1, self.words, inverse.words)
        return inverse

    def wipe(self) -> None:
        """Overwrite the words with zeros."""
        self.words.fill(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def __repr__(self) -> str:
        return f"<Secret of {self.modulus.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be copied")


@contextlib.contextmanager
def wiped(*arrays: Words) -> Iterator[None]:
    """Overwrite arrays with zeros after the block, also after an error."""
    try:
        yield
    finally:
        for array in arrays:
            array.fill(0)


@contextlib.contextmanager
def device_copy(device: AnyDevice, array: Words) -> Iterator[Any]:
    """Yield a copy of an array in a device's memory, which is overwritten after the block.

    On a device in host memory, yield the array itself, which the caller must wipe.
    """
    if device.host_memory:
        yield array
        return
    buffer: Buffer = device.upload(array)
    try:
        yield buffer
    finally:
        device.upload(np.zeros_like(array), into=buffer)


def _fill(words: Words) -> None:
    """Fill an array from the system's secure source; raise DeviceError if that fails."""
    try:
        with open(_SOURCE, "rb", buffering=0) as source:
            count = source.readinto(words.view(np.uint8).data)
    except OSError as error:
        raise DeviceError(
            f"{_SOURCE} could not be read ({error.strerror}); a contribution needs the system's "
            "random numbers"
        ) from error
    if count != words.nbytes:
        raise DeviceError(f"{_SOURCE} gave {count} bytes instead of {words.nbytes}")
