"""Warm-up of the host's part of a proof while a key is opened on a GPU.

Host kernels that are not in the cache are compiled concurrently with those of the GPU, and the
values that all verifications share are computed before the first self-check.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from quod.curve.array import Point
from quod.curve.group import Group
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.background import Background
from quod.errors import QuodError
from quod.groth16.points import multiples
from quod.groth16.proof import Proof
from quod.groth16.verifier import VerifyingKey
from quod.groth16.warm_up import compile_checks
from quod.msm.gpu.reduce.finish import compile_for

# Most kernels compile in processes of their own (`device/cpu/compile_pool.py`).
_THREADS = 3


class Key(Protocol):
    """The part of a proving key that the warm-up reads."""

    groups: tuple[Group, Group]
    host: AnyDevice
    curve: str
    public: int
    delta_g1: Point
    delta_g2: Point

    @property
    def self_check_key(self) -> VerifyingKey: ...


def prepare_host(key: Key) -> Background:
    """Begin the warm-up on a thread, which the key's owner must close.

    Errors are ignored here; the proof that needs the failed part raises them again.
    """
    g1, g2 = key.groups

    def multiply(group: Group) -> None:
        multiples(key.host, group, [key.delta_g1 if group is g1 else key.delta_g2], [1])

    def verify() -> None:
        verifying_key = key.self_check_key
        verifying_key.prepare()
        verifying_key.verify(
            [0] * key.public,
            Proof(key.curve, verifying_key.alpha_g1, verifying_key.beta_g2, verifying_key.alpha_g1),
        )

    background = Background("quod-host", _THREADS)
    for task in (
        lambda: compile_for(g2, "weierstrass"), lambda: multiply(g2), verify,
        lambda: compile_for(g1, "weierstrass"), lambda: multiply(g1),
    ):  # fmt: skip
        background.begin(_ignore_errors(task))
    if in_host_memory(key.host):
        compile_checks(key.host, key.curve, key.groups)
    return background


def _ignore_errors(task: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with suppress(QuodError):
            task()

    return run
