"""Groth16: keys of any origin, witnesses, proofs, public inputs; signatures and points as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from quod import curve, groth16
from quod import zcash as sapling
from quod.curve import EDWARDS
from quod.r1cs import reference
from tests.boundaries.row import DEVICE, EXAMPLE, Row, row

KEY, VERIFYING = EXAMPLE / "circuit.zkey", EXAMPLE / "verification_key.json"
JUBJUB = EDWARDS["jubjub"]
SEED = bytes(32)


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows of keys, proofs, signatures and encoded points."""
    yield from _proving()
    yield from _verifying()
    yield from _encoded()


def _proving() -> Iterator[tuple[str, Row]]:
    key = groth16.ProvingKey.from_zkey(KEY, allow_insecure=True)
    yield "ProvingKey", row(
        partial(groth16.ProvingKey, key.zkey), {"memory_budget": "huge"}, device=DEVICE,
        allow_insecure=True, memory_budget=None,
    )  # fmt: skip
    yield "ProvingKey.from_zkey", row(
        groth16.ProvingKey.from_zkey, path=KEY, device=DEVICE, owned=False, allow_insecure=True
    )  # fmt: skip
    yield "ProvingKey.from_bellman", row(
        groth16.ProvingKey.from_bellman, path="no such", r1cs="no such", device=DEVICE,
        checked=True, allow_insecure=True,
    )  # fmt: skip
    seed = {"seed": "huge"}
    witness = EXAMPLE / "witness.wtns"
    yield "prove", row(key.prove, seed, witness=witness, seed=1)
    yield "prove_many", row(
        lambda **arguments: list(key.prove_many(**arguments)), seed, witnesses=[witness], seed=1
    )  # fmt: skip
    yield "check", row(key.check, subgroup=False)
    yield "generate_key", row(
        groth16.generate_key, r1cs="no such", zkey="no such", seed=1, device=DEVICE
    )  # fmt: skip


def _verifying() -> Iterator[tuple[str, Row]]:
    from_json = groth16.VerifyingKey.from_json
    key = from_json(VERIFYING, allow_insecure=True)
    insecure: dict[str, Any] = {"device": DEVICE, "allow_insecure": True}
    yield "from_json", row(from_json, path=VERIFYING, **insecure)
    yield "from_json_text", row(
        groth16.VerifyingKey.from_json_text, text=VERIFYING.read_text(), **insecure
    )  # fmt: skip
    yield "from_zkey", row(groth16.VerifyingKey.from_zkey, zkey=KEY, **insecure)
    yield "verify", row(key.verify, public=[1], proof=None)
    yield "verify_batch", row(groth16.verify_batch, claims=[])
    yield "Proof.from_json", row(groth16.Proof.from_json, path=VERIFYING, curve="bn254")
    yield "Proof.from_json_text", row(
        groth16.Proof.from_json_text, text="{}", curve="bn254", name="p"
    )  # fmt: skip
    yield "public", row(groth16.public_from_json_text, text="[]", curve="bn254")
    yield "solidity_verifier", row(
        groth16.solidity_verifier, key=key, name="N", allow_insecure=True
    )  # fmt: skip
    proof = groth16.Proof("bn254", (1, 2), key.beta_g2, (1, 2))
    yield "solidity_calldata", row(groth16.solidity_calldata, proof=proof, public=[1])


def _encoded() -> Iterator[tuple[str, Row]]:
    """Points, keys and signatures as bytes."""
    text = curve.encode_edwards(JUBJUB, JUBJUB.generator)
    yield "encode_edwards", row(
        curve.encode_edwards, curve=JUBJUB, point=JUBJUB.generator, sign="zcash"
    )  # fmt: skip
    yield "decode_edwards", row(
        curve.decode_edwards, curve=JUBJUB, data=text, sign="zcash", check_subgroup=True
    )  # fmt: skip
    public, signature = reference.eddsa_public_key(SEED), reference.eddsa_sign(SEED, 1)
    element = {"message": "huge"}
    yield "eddsa_sign", row(reference.eddsa_sign, element, private_key=SEED, message=1)
    yield "eddsa_verify", row(
        reference.eddsa_verify, element, public_key=public, message=1, signature=signature
    )  # fmt: skip
    yield "EddsaSignature", row(reference.EddsaSignature, {"s": "huge"}, r8=public, s=1)
    yield "EddsaSignature.from_bytes", row(
        reference.EddsaSignature.from_bytes, data=signature.to_bytes()
    )  # fmt: skip
    viewing = sapling.ExpandedSpendingKey.from_spending_key(SEED).full_viewing_key
    address = viewing.address(sapling.default_diversifier(SEED))
    yield (
        "ExpandedSpendingKey.from_spending_key",
        row(sapling.ExpandedSpendingKey.from_spending_key, spending_key=SEED),
    )
    yield "FullViewingKey", row(sapling.FullViewingKey, ak=viewing.ak, nk=viewing.nk, ovk=SEED)
    yield "PaymentAddress", row(
        sapling.PaymentAddress, diversifier=address.diversifier,
        transmission_key=address.transmission_key,
    )  # fmt: skip
    yield "PaymentAddress.from_bytes", row(
        sapling.PaymentAddress.from_bytes, data=address.to_bytes()
    )  # fmt: skip
    yield "ProofGenerationKey", row(
        sapling.ProofGenerationKey, {"nsk": "huge"}, ak=viewing.ak, nsk=1
    )  # fmt: skip
    yield "MerklePath", row(sapling.MerklePath, siblings=[1] * 32, position=0)
    tree = sapling.CommitmentTree()
    yield "CommitmentTree.extend", row(tree.extend, leaves=[1], marked=[])
    yield "CommitmentTree.from_bytes", row(sapling.CommitmentTree.from_bytes, data=bytes(3))
    scheme = sapling.spend_auth_scheme()
    signature = scheme.sign(1, SEED)
    yield "RedJubjub.verify", row(
        scheme.verify, key=text, message=SEED, signature=signature, zip216=True
    )  # fmt: skip
    yield "spend_auth_signature", row(
        sapling.spend_auth_signature, {"ask": "huge", "alpha": "huge"}, ask=1, alpha=1, sighash=SEED
    )  # fmt: skip
    yield "binding_signature", row(
        sapling.binding_signature, {"bsk": "huge"}, bsk=1, sighash=SEED
    )  # fmt: skip
    yield "verify_signatures", row(sapling.verify_signatures, claims=[], zip216=True)
    yield "UnsignedBundle", row(
        sapling.UnsignedBundle, spends=[], outputs=[], value_balance=0, converts=[],
        shared_anchors=True,
    )  # fmt: skip
    empty = sapling.UnsignedBundle([], [], 0)
    yield "Bundle", row(
        lambda spend_signatures: sapling.Bundle(empty, spend_signatures, None), spend_signatures=[]
    )  # fmt: skip
    yield "Bundle.verify_signatures", row(
        sapling.Bundle(empty, [], None).verify_signatures, sighash=SEED, zip216=True
    )  # fmt: skip
    yield "decode_statements", row(
        lambda rows: sapling.decode_statements(sapling.SpendStatement, rows), rows=[]
    )  # fmt: skip
    yield "binding_signing_key", row(sapling.binding_signing_key, inputs=[1], outputs=[])
    extended = sapling.ExtendedSpendingKey.master(SEED)
    yield "ExtendedSpendingKey.account", row(
        sapling.ExtendedSpendingKey.account, seed=SEED, account=0, coin_type=133
    )  # fmt: skip
    yield "ExtendedSpendingKey.child", row(extended.child, index=0)
    yield "ExtendedSpendingKey.from_bytes", row(
        sapling.ExtendedSpendingKey.from_bytes, data=extended.to_bytes()
    )  # fmt: skip
    yield "ExtendedFullViewingKey.from_bytes", row(
        sapling.ExtendedFullViewingKey.from_bytes, data=extended.full_viewing_key.to_bytes()
    )  # fmt: skip
    yield "ExtendedFullViewingKey.find_address", row(
        extended.full_viewing_key.find_address, {"start": "huge"}, start=0
    )  # fmt: skip
    yield "SpendStatement", row(
        sapling.SpendStatement.from_bytes, cv=text, anchor=SEED, nullifier=SEED, rk=text
    )  # fmt: skip
    yield "ConvertStatement", row(sapling.ConvertStatement.from_bytes, cv=text, anchor=SEED)
    yield "Note", row(sapling.Note, {"rcm": "huge"}, address=address, value=1, rcm=1)
    yield "OutputStatement", row(
        sapling.OutputStatement.from_bytes, cv=text, epk=text, cmu=SEED
    )  # fmt: skip
    yield "decode_scalar", row(lambda data: sapling.decode_scalar("rcm", data), data=SEED)
