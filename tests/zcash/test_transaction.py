"""A transaction from a seed: a note in a growing tree, its Spend, change, and the signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from quod import zcash
from quod.errors import MismatchError, VerificationError
from quod.field.array import words_to_integers
from quod.zcash.spend import spend_circuit, spend_inputs, spend_statement

SIGHASH = bytes(range(32))


@dataclass(frozen=True)
class Entry:
    """A description without a proof."""

    statement: Any


def test_a_note_is_spent_from_a_seed() -> None:
    """The proof step has ak and nsk, the signing step ask; alpha joins them."""
    account = zcash.ExtendedSpendingKey.account(bytes(32), 3)
    view = account.full_viewing_key
    note = zcash.Note.from_seed(view.default_address, 1000, bytes([1] * 32))
    tree = zcash.CommitmentTree()
    tree.extend([5, 6, 7])
    position = tree.append(note.cmu, mark=True)
    tree.extend([8, 9])
    anchor, path = tree.root(), tree.path(position)

    alpha, spend_rcv = zcash.random_scalar(), zcash.random_scalar()
    prover_key = account.key.proof_generation_key
    arguments = (prover_key, note, path, alpha, spend_rcv, anchor)
    statement = spend_statement(*arguments)
    circuit = spend_circuit()
    witness = circuit.witness(spend_inputs(*arguments))
    assert words_to_integers(circuit.field, witness.values)[1:8] == statement.public

    outputs, rcvs = [], []
    for value, address in ((600, view.address(_other_index(view))), (390, change_address(account))):
        output = zcash.Note.from_seed(address, value, bytes([value % 256] * 32))
        rcvs.append(zcash.random_scalar())
        esk = zcash.ephemeral_secret(bytes([value % 256] * 32))
        cv, epk = output.value_commitment(rcvs[-1]), output.ephemeral_key(esk)
        outputs.append(Entry(zcash.OutputStatement(cv, epk, output.cmu)))

    content = zcash.UnsignedBundle([Entry(statement)], outputs, 10)
    signature = zcash.spend_auth_signature(account.key.ask, alpha, SIGHASH)
    bsk = zcash.binding_signing_key([spend_rcv], rcvs)
    bundle = zcash.Bundle.sign(content, [signature], bsk, SIGHASH)
    bundle.verify_signatures(SIGHASH)

    other_alpha = zcash.spend_auth_signature(account.key.ask, alpha ^ 1, SIGHASH)
    with pytest.raises(VerificationError, match=r"spends\[0\].spendAuthSig is invalid"):
        zcash.Bundle.sign(content, [other_alpha], bsk, SIGHASH)
    inflated = zcash.UnsignedBundle([Entry(statement)], outputs[:1], 10)
    with pytest.raises(MismatchError, match="the values do not balance"):
        zcash.Bundle.sign(inflated, [signature], bsk, SIGHASH)


def _other_index(view: zcash.ExtendedFullViewingKey) -> int:
    """The index of the second address."""
    first, _ = view.find_address()
    return view.find_address(first + 1)[0]


def change_address(account: zcash.ExtendedSpendingKey) -> zcash.PaymentAddress:
    return account.internal.full_viewing_key.default_address
