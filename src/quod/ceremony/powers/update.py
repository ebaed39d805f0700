"""Contributions to powers of tau: points times powers of secrets, which are then wiped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from quod.ceremony.beacon import Beacon
from quod.ceremony.core_dumps import no_core_dumps
from quod.ceremony.details import Details
from quod.ceremony.multiples import powers_of, secret_multiples
from quod.ceremony.point_bytes import compressed
from quod.ceremony.powers.challenge import current_challenge
from quod.ceremony.powers.contribution import (
    NAMES,
    beacon_secrets,
    make_keys,
    read_contributions,
)
from quod.ceremony.powers.extended_file import Receipt, write_contribution
from quod.ceremony.powers.ptau_layout import (
    PointSection,
    check_not_truncated,
)
from quod.ceremony.public_key import PublicKey
from quod.ceremony.secret import Secret, wiped
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline, or_null
from quod.field.array import Words
from quod.formats.ptau import PowersOfTau
from quod.formats.source import Path


def contribute(
    source: Path,
    target: Path,
    *,
    name: str = "",
    text: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> Receipt:
    """Write `source` with a contribution of random secrets to `target`.

    Secrets come from the system's randomness, with `text` mixed in. They are overwritten before
    this returns or raises, and never written to a file. Raises InputError for a file that is
    damaged, has points outside their groups or is truncated; raises OutputError if the result
    cannot be written, and for an existing target, unless `replace` is set.
    """
    details = Details(name)
    with no_core_dumps(), ExitStack() as secret_contexts:
        file = PowersOfTau.open(source)
        fr = file.curve_parameters.fr
        secrets = [secret_contexts.enter_context(Secret.drawn(fr, text)) for _ in NAMES]
        return _extend(
            resolve_device(device), file, target, secrets, details, or_null(timeline),
            lambda challenge: make_keys(file.curve_parameters, challenge, secrets),
            replace=replace,
        )  # fmt: skip


def add_beacon(
    source: Path,
    target: Path,
    beacon: Beacon,
    *,
    name: str = "",
    device: DeviceChoice = "cpu",
    timeline: Timeline | None = None,
    replace: bool = False,
) -> Receipt:
    """Contribute as `contribute`, with secrets derived from a public value; see `Beacon`."""
    timeline = or_null(timeline)
    details = Details(name, beacon)
    file = PowersOfTau.open(source)
    curve = file.curve_parameters
    stream = beacon.followed_stream(timeline)
    secrets = beacon_secrets(curve, stream)
    return _extend(
        resolve_device(device), file, target, secrets, details, timeline,
        lambda challenge: make_keys(curve, challenge, secrets, stream), replace=replace,
    )  # fmt: skip


def _extend(
    device: AnyDevice,
    file: PowersOfTau,
    target: Path,
    secrets: Sequence[Secret],
    details: Details,
    timeline: Timeline,
    keys_of: Callable[[bytes], tuple[PublicKey, PublicKey, PublicKey]],
    *,
    replace: bool,
) -> Receipt:
    """Write the file with one more contribution."""
    check_not_truncated(file)
    curve, power = file.curve_parameters, file.power
    earlier = read_contributions(file)
    host = resolve_device("cpu")
    with timeline.stage("challenge"):
        challenge = current_challenge(host, curve, power, earlier)
    keys = keys_of(challenge)
    secrets_by_name = dict(zip(NAMES, secrets, strict=True))

    def produce(section: PointSection, first: int, last: int) -> tuple[Words, Any]:
        points = _multiply_window(device, file, section, secrets_by_name, first, last)
        return points, compressed(host, section.group(curve), points)

    return write_contribution(
        target, file, challenge, earlier, keys, details, produce, lambda _: None, timeline,
        replace=replace,
    )  # fmt: skip


def _multiply_window(
    device: AnyDevice,
    file: PowersOfTau,
    section: PointSection,
    secrets_by_name: dict[str, Secret],
    first: int,
    last: int,
) -> Words:
    """Return points `first` to `last` - 1 of a section, multiplied by the secrets.

    Point i is multiplied by tau**i, and in some sections by alpha or beta.
    """
    group = section.group(file.curve_parameters)
    points = section.checked(device, file, first, last)
    scalars = np.empty((last - first, group.scalars.words), np.uint32)
    with wiped(scalars):
        powers_of(secrets_by_name["tau"], secrets_by_name.get(section.first), first, scalars)
        return secret_multiples(device, group, points, scalars)
