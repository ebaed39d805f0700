"""Allowed conversions of MASP's assets, and the inputs and statement of a Convert proof.

`masp_primitives/src/convert.rs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.arguments import bytes_to_bits, element
from quod.hash.sapling_pedersen import NOTE_COMMITMENT, sapling_pedersen_point
from quod.r1cs.inputs import Inputs
from quod.validation import shown_kind, whole_number
from quod.zcash.assets import asset_generator
from quod.zcash.note import asset_value_commitment, note_value
from quod.zcash.protocol import MASP
from quod.zcash.scalars import encoded, secret_scalar
from quod.zcash.spend_statement import ConvertStatement
from quod.zcash.tree.path import MerklePath

_MAX_WEIGHT = (1 << 64) - 1


@frozen
class AllowedConversion:
    """A conversion that MASP allows: one unit consumes assets and creates others.

    weights: for the identifier of each asset, 32 bytes, the amount that a unit creates; a negative
        amount is consumed. From -(2**64 - 1) to 2**64 - 1.
    Raises InputError for an identifier without a generator, and for weights whose generator has
    small order, such as no weights.
    """

    weights: Mapping[bytes, int]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise InputError(f"weights must be a mapping, not {shown_kind(self.weights)}")
        weights = {
            asset: whole_number("the weight of an asset", weight, -_MAX_WEIGHT, _MAX_WEIGHT)
            for asset, weight in self.weights.items()
        }
        self.__dict__.update(weights=weights)
        if edwards_group(JUBJUB).has_small_order(self.generator):
            raise InputError("the conversion's generator is of small order; change its weights")

    @property
    def generator(self) -> EdwardsPair:
        """The sum of the assets' generators, each times its weight."""
        group = edwards_group(JUBJUB)
        return group.sum(
            group.multiply(weight, asset_generator(asset)) for asset, weight in self.weights.items()
        )

    @property
    def leaf(self) -> int:
        """The leaf of the conversion in the tree: the hash of the generator's encoding."""
        bits = bytes_to_bits(encoded(self.generator))
        return sapling_pedersen_point(NOTE_COMMITMENT, bits, MASP.pedersen)[0]


def convert_inputs(
    conversion: AllowedConversion, value: int, path: MerklePath, rcv: int, anchor: int
) -> Inputs:
    """Return the inputs of `quod.zcash.masp.masp_convert_circuit`.

    value: how many units are converted, from 0 to 2**64 - 1.
    path: the path of the conversion's leaf in the tree of conversions.
    anchor: the root of the tree. The circuit refuses other anchors, unless the value is 0.
    Raises InputError for a value out of range, and a scalar or an anchor that is not canonical.
    """
    return {
        "asset_generator": conversion.generator, "value": note_value(value),
        "rcv": secret_scalar("rcv", rcv), **path.inputs,
        "rt": element("the anchor", anchor, JUBJUB.fq),
    }  # fmt: skip


def convert_statement(
    conversion: AllowedConversion, value: int, rcv: int, anchor: int
) -> ConvertStatement:
    """Return the statement that the circuit proves; InputError if cv has small order."""
    return ConvertStatement(asset_value_commitment(conversion.generator, value, rcv), anchor)
