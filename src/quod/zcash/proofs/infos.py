"""The private inputs of each kind of proof, from which its statement follows."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol as TypingProtocol

from quod.frozen import frozen
from quod.r1cs.inputs import Inputs
from quod.validation import instance
from quod.zcash.address import PaymentAddress
from quod.zcash.conversion import AllowedConversion, convert_inputs, convert_statement
from quod.zcash.keys import ProofGenerationKey
from quod.zcash.masp import masp_output_inputs
from quod.zcash.note import Note, ephemeral_secret
from quod.zcash.output import output_inputs
from quod.zcash.output_statement import OutputStatement
from quod.zcash.proofs.kinds import (
    MASP_CONVERT,
    MASP_OUTPUT,
    MASP_SPEND,
    SAPLING_OUTPUT,
    SAPLING_SPEND,
    ProofKind,
    Statement,
)
from quod.zcash.protocol import MASP
from quod.zcash.scalars import random_scalar
from quod.zcash.spend import spend_inputs, spend_statement
from quod.zcash.spend_statement import ConvertStatement, SpendStatement
from quod.zcash.tree import MerklePath


class ProofInfo(TypingProtocol):
    """The private inputs of a proof.

    The properties raise InputError for values that the kind of proof refuses.
    """

    @property
    def kind(self) -> ProofKind:
        """The kind of the proof."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The inputs of the circuit."""
        ...

    @property
    def statement(self) -> Statement:
        """The statement that the proof shows."""
        ...


@frozen
class SpendInfo:
    """A note to spend, of Sapling or MASP; see `quod.zcash.spend.spend_inputs`.

    key: the key that proves the Spend, which need not be able to sign it.
    note: a note to an address of the key.
    path: the note's path in the tree.
    alpha: the scalar that randomises the key of the Spend's signature.
    rcv: the randomness of the value commitment, which the binding signature needs.
    anchor: the root of the tree.
    """

    key: ProofGenerationKey
    note: Note
    path: MerklePath
    alpha: int
    rcv: int
    anchor: int

    def __post_init__(self) -> None:
        instance("the key", self.key, ProofGenerationKey, "it has ak and nsk")
        instance("the note", self.note, Note, "make a Note")
        instance("the path", self.path, MerklePath, "make a MerklePath")

    def __repr__(self) -> str:
        return "SpendInfo(...)"

    @classmethod
    def draw(
        cls, key: ProofGenerationKey, note: Note, path: MerklePath, anchor: int | None = None
    ) -> SpendInfo:
        """Draw alpha and rcv; the default of the anchor is the root of the path."""
        if anchor is None:
            anchor = path.root(note.cmu, note.protocol)
        return cls(key, note, path, random_scalar(), random_scalar(), anchor)

    @property
    def kind(self) -> ProofKind:
        """The kind of the proof."""
        return MASP_SPEND if self.note.protocol.has_assets else SAPLING_SPEND

    @property
    def inputs(self) -> Inputs:
        """The inputs of the circuit."""
        return spend_inputs(
            self.key, self.note, self.path, self.alpha, self.rcv, self.anchor
        )  # fmt: skip

    @cached_property
    def statement(self) -> SpendStatement:
        """The statement that the proof shows."""
        return spend_statement(
            self.key, self.note, self.path, self.alpha, self.rcv, self.anchor
        )  # fmt: skip


@frozen
class OutputInfo:
    """A note to create, of Sapling or MASP; see `quod.zcash.output.output_inputs`.

    note: the note.
    esk: the secret of the ephemeral key, with which the note is encrypted.
    rcv: the randomness of the value commitment, which the binding signature needs.
    """

    note: Note
    esk: int
    rcv: int

    def __post_init__(self) -> None:
        instance("the note", self.note, Note, "make a Note")

    def __repr__(self) -> str:
        return "OutputInfo(...)"

    @classmethod
    def from_seed(
        cls, address: PaymentAddress, value: int, rseed: bytes, asset: bytes | None = None
    ) -> OutputInfo:
        """Return a note whose rcm and esk are derived from rseed, 32 bytes, with a drawn rcv.

        Since ZIP 212 recipients refuse other values of esk. The encryption of the note needs rseed.
        """
        note = Note.from_seed(address, value, rseed, asset)
        return cls.draw(note, ephemeral_secret(rseed, note.protocol))

    @classmethod
    def draw(cls, note: Note, esk: int) -> OutputInfo:
        """Draw rcv.

        esk: `ephemeral_secret(rseed)` for a note that is derived from rseed, as all are since ZIP
            212; recipients refuse others.
        """
        return cls(note, esk, random_scalar())

    @property
    def kind(self) -> ProofKind:
        """The kind of the proof."""
        return MASP_OUTPUT if self.note.protocol.has_assets else SAPLING_OUTPUT

    @property
    def inputs(self) -> Inputs:
        """The inputs of the circuit."""
        inputs_of = masp_output_inputs if self.note.protocol.has_assets else output_inputs
        return inputs_of(self.note, self.esk, self.rcv)

    @cached_property
    def statement(self) -> OutputStatement:
        """The statement that the proof shows."""
        note = self.note
        return OutputStatement(
            note.value_commitment(self.rcv), note.ephemeral_key(self.esk), note.cmu
        )


@frozen
class ConvertInfo:
    """A conversion of assets of MASP; see `quod.zcash.conversion.convert_inputs`.

    conversion: an allowed conversion.
    value: how many units are converted.
    path: the conversion's path in the tree of conversions.
    rcv: the randomness of the value commitment, which the binding signature needs.
    anchor: the root of the tree of conversions.
    """

    conversion: AllowedConversion
    value: int
    path: MerklePath
    rcv: int
    anchor: int

    def __post_init__(self) -> None:
        instance("the conversion", self.conversion, AllowedConversion, "make an AllowedConversion")
        instance("the path", self.path, MerklePath, "make a MerklePath")

    def __repr__(self) -> str:
        return "ConvertInfo(...)"

    @classmethod
    def draw(
        cls, conversion: AllowedConversion, value: int, path: MerklePath, anchor: int | None = None
    ) -> ConvertInfo:
        """Draw rcv; the default of the anchor is the root of the path."""
        if anchor is None:
            anchor = path.root(conversion.leaf, MASP)
        return cls(conversion, value, path, random_scalar(), anchor)

    @property
    def kind(self) -> ProofKind:
        """The kind of the proof."""
        return MASP_CONVERT

    @property
    def inputs(self) -> Inputs:
        """The inputs of the circuit."""
        return convert_inputs(self.conversion, self.value, self.path, self.rcv, self.anchor)

    @cached_property
    def statement(self) -> ConvertStatement:
        """The statement that the proof shows."""
        return convert_statement(self.conversion, self.value, self.rcv, self.anchor)
