"""The balance of a transaction and its keys: Zcash protocol specification, 4.13.

The value commitments of Spends and Converts minus those of Outputs commit to the value that leaves
the pool, with the randomness bsk. A signature under bvk shows that somebody knows this bsk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.validation import exact_bytes, in_order, shown_kind, whole_number
from quod.zcash.assets import asset_generator
from quod.zcash.generators import value_generator
from quod.zcash.protocol import Protocol
from quod.zcash.scalars import secret_scalar

ValueBalance = int | Mapping[bytes, int]
"""The value that leaves the pool, negative if value enters it.

In Sapling an int; in MASP for the identifier of each asset an int.
"""

MAX_MONEY = 21_000_000 * 100_000_000
"""The largest amount of Zcash's transactions, in zatoshi."""
_MAX_ASSET_AMOUNT = (1 << 127) - 1


def checked_balance(protocol: Protocol, balance: object) -> ValueBalance:
    """Return a value balance; in MASP without the assets whose balance is 0.

    Raises InputError for another type, for amounts that a transaction cannot encode (above
    `MAX_MONEY` in Sapling, 128 bits in MASP), and for an identifier without a generator.
    """
    if not protocol.has_assets:
        return whole_number("the value balance", balance, -MAX_MONEY, MAX_MONEY)
    if not isinstance(balance, Mapping):
        raise InputError(
            f"the value balance of MASP must be a mapping from assets, not {shown_kind(balance)}"
        )
    amounts: dict[bytes, int] = {}
    for asset, amount in balance.items():
        asset_generator(exact_bytes("an asset of the value balance", asset, 32))
        amount = whole_number(
            f"the value balance of the asset {asset.hex()}", amount, -_MAX_ASSET_AMOUNT - 1,
            _MAX_ASSET_AMOUNT,
        )  # fmt: skip
        if amount:
            amounts[asset] = amount
    return amounts


def is_zero(balance: ValueBalance) -> bool:
    """Return whether no value leaves or enters the pool; for a checked balance."""
    return not balance


def balance_point(balance: ValueBalance) -> EdwardsPair:
    """Return the commitment to a checked balance with the randomness 0."""
    group = edwards_group(JUBJUB)
    if isinstance(balance, int):
        return group.multiply(balance, value_generator())
    return group.sum(
        group.multiply(JUBJUB.cofactor * amount, asset_generator(asset))
        for asset, amount in balance.items()
    )


def binding_verification_key(
    inputs: Iterable[EdwardsPair], outputs: Iterable[EdwardsPair], balance: ValueBalance
) -> EdwardsPair:
    """Return bvk, the key of the binding signature.

    inputs: the value commitments of Spends and Converts.
    outputs: those of Outputs.
    """
    group = edwards_group(JUBJUB)
    negated = [*outputs, balance_point(balance)]
    return group.sum([*inputs, *map(group.negate, negated)])


def binding_signing_key(inputs: Iterable[int], outputs: Iterable[int]) -> int:
    """Return bsk, the randomness of the balance.

    inputs: the scalars rcv of Spends and Converts.
    outputs: those of Outputs.
    Raises InputError, without its value, for a scalar that is not canonical.
    """
    total = _sum_of_scalars("inputs", inputs) - _sum_of_scalars("outputs", outputs)
    return total % JUBJUB.fr.value


def _sum_of_scalars(name: str, scalars: Iterable[int]) -> int:
    return sum(secret_scalar("rcv", rcv) for rcv in in_order(f"rcv of {name}", scalars))
