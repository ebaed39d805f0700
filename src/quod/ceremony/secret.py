"""Secrets of contributions: numbers that must be forgotten, in memory that is overwritten.

A secret is drawn from the system into an array, computed with by kernels that take it as data, and
overwritten with zeros when its block ends, however it ends. It is never a Python integer, which
could not be overwritten, never a constant of a kernel, which would be kept with its code, and has
no text form. What this cannot promise is in docs/ceremony.md.
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
    """out[0] = 1/a[0], both integers below the modulus."""
    f = prime_field(k, modulus)
    radix = modulus.montgomery_radix
    leave = pow(radix, -1, modulus.value)
    value = f.carried(f.load(a, 0) * f.constant(radix))
    f.store(out, 0, f.inverse(value) * f.constant(leave))


class Secret:
    """A secret scalar that is not 0; `words` is uint32 of shape (words,), an integer below r.

    A context manager: the words are zero after the block.
    """

    __slots__ = ("__weakref__", "modulus", "words")

    def __init__(self, modulus: Modulus, words: Words) -> None:
        """Takes the array over; `drawn` and `of_public` make it."""
        self.modulus = modulus
        self.words = words

    @classmethod
    def drawn(cls, modulus: Modulus, text: str = "") -> Secret:
        """Uniform from 1 to r - 1, from the system's secure source; `text` is mixed in.

        The text's SHAKE256 is combined with what the system gives by exclusive or: it can add to
        what nobody knows, and take nothing away. Raises DeviceError where the system has no such
        source.
        """
        words = np.zeros(modulus.words, np.uint32)
        secret = cls(modulus, words)
        try:
            mixed = hashlib.shake_256(b"quod contribution\0" + text.encode(errors="surrogatepass"))
            pads = np.frombuffer(mixed.digest(modulus.bytes * 256), "<u4").reshape(256, -1)
            surplus, top = divmod(32 * modulus.words - modulus.bits, 32)
            for pad in pads:
                _fill(words)
                words ^= pad
                words[modulus.words - surplus :] = 0
                words[modulus.words - surplus - 1] &= np.uint32(0xFFFFFFFF >> top)
                if canonical(modulus, words)[0] and words.any():
                    return secret
        except BaseException:
            secret.wipe()
            raise
        secret.wipe()
        raise DeviceError("the system's random number generator is broken: no number is below r")

    @classmethod
    def of_public(cls, modulus: Modulus, number: int) -> Secret:
        """A scalar that anyone may know, as that of a beacon; InputError unless 1 to r - 1."""
        if number == 0:
            raise InputError("the beacon gives the secret 0; use another beacon")
        return cls(modulus, integers_to_words(modulus, [number])[0])

    def inverse(self) -> Secret:
        """1 / the secret, to be wiped as well."""
        inverse = Secret(self.modulus, np.zeros_like(self.words))
        host = resolve_device("cpu")
        kernel = host.compile(inverted_scalar, lanes=1, modulus=self.modulus)
        host.launch(kernel, 1, self.words, inverse.words)
        return inverse

    def wipe(self) -> None:
        """Overwrites the words with zeros."""
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
    """Overwrites arrays with zeros after the block, however it ends."""
    try:
        yield
    finally:
        for array in arrays:
            array.fill(0)


@contextlib.contextmanager
def device_copy(device: AnyDevice, array: Words) -> Iterator[Any]:
    """Secret words where kernels of a device reach them, overwritten there after the block.

    On a processor that is the array itself, which whoever made it wipes.
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
    try:
        with open(_SOURCE, "rb", buffering=0) as source:
            got = source.readinto(words.view(np.uint8).data)
    except OSError as error:
        raise DeviceError(
            f"{_SOURCE} could not be read ({error.strerror}); a contribution needs the system's "
            "random numbers"
        ) from error
    if got != words.nbytes:
        raise DeviceError(f"{_SOURCE} gave {got} bytes instead of {words.nbytes}")
