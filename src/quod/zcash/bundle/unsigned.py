"""Bundles before they are signed: Spends, Outputs and Converts with a value balance."""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.edwards.affine import EdwardsPair
from quod.errors import InputError, MismatchError
from quod.frozen import frozen
from quod.validation import flag, instance
from quod.zcash.bundle.balance import (
    ValueBalance,
    binding_verification_key,
    checked_balance,
    is_zero,
)
from quod.zcash.bundle.statements import BundleEntry, checked_entries, entry_name, statements
from quod.zcash.output_statement import OutputStatement
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.scalars import encoded
from quod.zcash.spend_statement import ConvertStatement, SpendStatement


@frozen(eq=False)
class UnsignedBundle:
    """The Spends, Outputs and Converts of a transaction, without signatures.

    spends, outputs, converts: descriptions, which have a `statement` each. Only MASP has Converts.
    value_balance: the value that leaves the pool; see `quod.zcash.bundle.balance.ValueBalance`.
    protocol: SAPLING or MASP.
    shared_anchors: whether all Spends must have one anchor, and all Converts one, as in MASP and
        in transactions of Zcash since version 5. In version 4 each Spend has its own.
    Raises InputError for an entry without the right statement, more than 65,535 of a kind, Converts
    of Sapling, a nullifier that occurs twice (with the index of the Spend), a balance out of range,
    and one that is not 0 without entries. Raises MismatchError for different anchors.
    """

    spends: Sequence[BundleEntry]
    outputs: Sequence[BundleEntry]
    value_balance: ValueBalance
    converts: Sequence[BundleEntry] = ()
    protocol: Protocol = SAPLING
    shared_anchors: bool = True

    def __post_init__(self) -> None:
        instance("protocol", self.protocol, Protocol, "pass zcash.SAPLING or zcash.MASP")
        flag("shared_anchors", self.shared_anchors)
        spends = checked_entries(SpendStatement, self.spends)
        outputs = checked_entries(OutputStatement, self.outputs)
        converts = checked_entries(ConvertStatement, self.converts)
        balance = checked_balance(self.protocol, self.value_balance)
        self.__dict__.update(
            spends=spends, outputs=outputs, converts=converts, value_balance=balance
        )  # fmt: skip
        if converts and not self.protocol.has_assets:
            raise InputError("transactions of Sapling have no Converts")
        if self.is_empty and not is_zero(balance):
            raise InputError("the value balance of a bundle without entries must be 0")
        self._check_nullifiers()
        if self.shared_anchors:
            for kind, anchors in (
                (SpendStatement, [statement.anchor for statement in self.spend_statements]),
                (ConvertStatement, [statement.anchor for statement in self.convert_statements]),
            ):
                _check_anchors(kind, anchors)

    def with_entries(
        self, spends: Sequence[BundleEntry], outputs: Sequence[BundleEntry],
        converts: Sequence[BundleEntry],
    ) -> UnsignedBundle:  # fmt: skip
        """Return a bundle of other entries with this value balance and protocol."""
        return UnsignedBundle(
            spends, outputs, self.value_balance, converts, self.protocol, self.shared_anchors
        )

    def _check_nullifiers(self) -> None:
        seen: dict[bytes, int] = {}
        for index, statement in enumerate(self.spend_statements):
            first = seen.setdefault(statement.nullifier, index)
            if first != index:
                name, other = (entry_name(SpendStatement, spend) for spend in (index, first))
                raise InputError(f"{name}: nullifier is that of {other}")

    @property
    def is_empty(self) -> bool:
        """True without entries; then there is no binding signature."""
        return not (self.spends or self.outputs or self.converts)

    @property
    def spend_statements(self) -> list[SpendStatement]:
        """The statements of the Spends."""
        return statements(SpendStatement, self.spends)

    @property
    def output_statements(self) -> list[OutputStatement]:
        """The statements of the Outputs."""
        return statements(OutputStatement, self.outputs)

    @property
    def convert_statements(self) -> list[ConvertStatement]:
        """The statements of the Converts."""
        return statements(ConvertStatement, self.converts)

    @property
    def binding_verification_key(self) -> EdwardsPair:
        """The key bvk of the binding signature."""
        inputs = [statement.cv for statement in self.spend_statements]
        inputs += [statement.cv for statement in self.convert_statements]
        outputs = [statement.cv for statement in self.output_statements]
        return binding_verification_key(inputs, outputs, self.value_balance)

    @property
    def verification_keys(self) -> list[bytes]:
        """The encodings of the Spends' keys rk."""
        return [encoded(statement.rk) for statement in self.spend_statements]


def _check_anchors(kind: type, anchors: Sequence[int]) -> None:
    """Raise MismatchError, with the index, for an anchor that is not the first one."""
    for index, anchor in enumerate(anchors):
        if anchor != anchors[0]:
            raise MismatchError(
                f"{entry_name(kind, index)}: anchor is not that of {entry_name(kind, 0)}"
            )
