"""Signed bundles: their signatures, made from keys and signatures of the Spends, and verified.

The hash that signatures sign, the sighash, is that of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.curve.edwards.affine import EdwardsPair
from quod.device.discovery import DeviceChoice
from quod.errors import InputError, MismatchError, VerificationError
from quod.frozen import frozen
from quod.validation import exact_bytes, in_order, instance
from quod.zcash.bundle.statements import entry_name
from quod.zcash.bundle.unsigned import UnsignedBundle
from quod.zcash.scalars import encoded, multiple, secret_scalar
from quod.zcash.signatures.batch import SignatureClaim, verify_signatures
from quod.zcash.signatures.redjubjub import (
    SIGNATURE_BYTES,
    binding_scheme,
    binding_signature,
    spend_auth_scheme,
)
from quod.zcash.spend_statement import SpendStatement


@frozen(eq=False)
class Bundle:
    """The Spends, Outputs and Converts of a transaction with their signatures.

    content: the bundle without signatures.
    spend_signatures: spendAuthSig of each Spend, 64 bytes.
    binding_signature: bindingSig, 64 bytes; None for a bundle without entries.
    Raises InputError, with the index of the Spend, for signatures of other sizes, and for another
    number of signatures. The signatures are not verified; see `verify_signatures`.
    """

    content: UnsignedBundle
    spend_signatures: Sequence[bytes]
    binding_signature: bytes | None

    def __post_init__(self) -> None:
        content = instance(
            "the content of a bundle", self.content, UnsignedBundle, "make one without signatures"
        )
        signatures = tuple(in_order("the signatures of Spends", self.spend_signatures))
        if len(signatures) != len(content.spends):
            raise InputError(
                f"{len(content.spends)} Spends have as many signatures, not {len(signatures)}"
            )
        for index, signature in enumerate(signatures):
            exact_bytes(_spend_signature_name(index), signature, SIGNATURE_BYTES)
        if content.is_empty != (self.binding_signature is None):
            raise InputError(
                "a bundle has a binding signature if it has a Spend, an Output or a Convert"
            )
        if self.binding_signature is not None:
            exact_bytes("bindingSig", self.binding_signature, SIGNATURE_BYTES)
        self.__dict__.update(spend_signatures=signatures)

    @classmethod
    def sign(
        cls, content: UnsignedBundle, spend_signatures: Sequence[bytes], bsk: int, sighash: bytes
    ) -> Bundle:
        """Make the binding signature, and verify all signatures.

        spend_signatures: those of `spend_auth_signature`, one for each Spend.
        bsk: the randomness of the balance, from `binding_signing_key`.
        sighash: the hash of the transaction, 32 bytes.
        Raises MismatchError if bsk is not the key of bvk, as for values that do not balance, and
        VerificationError, with the index of the Spend, for a signature that is not valid.
        """
        signature = None
        if not content.is_empty:
            check_balance(content, bsk)
            signature = binding_signature(bsk, sighash, content.protocol)
        bundle = cls(content, spend_signatures, signature)
        bundle.verify_signatures(sighash)
        return bundle

    def signature_claims(self, sighash: bytes) -> dict[str, SignatureClaim]:
        """Return the claims that the signatures are valid, for a batch, by names for messages."""
        sighash = exact_bytes("the sighash", sighash, 32)
        protocol = self.content.protocol
        keys = zip(self.content.verification_keys, self.spend_signatures, strict=True)
        claims = {
            _spend_signature_name(index): SignatureClaim(
                spend_auth_scheme(protocol), key, sighash, signature
            )
            for index, (key, signature) in enumerate(keys)
        }
        if self.binding_signature is not None:
            bvk = encoded(self.content.binding_verification_key)
            claims["bindingSig"] = SignatureClaim(
                binding_scheme(protocol), bvk, sighash, self.binding_signature
            )
        return claims

    def verify_signatures(
        self, sighash: bytes, device: DeviceChoice = "cpu", *, zip216: bool = True
    ) -> None:
        """Verify all signatures as one batch; the proofs are not verified.

        zip216: see `RedJubjub.verify`.
        Raises the errors of `check_signatures`. An invalid bindingSig also shows a value balance
        that is wrong.
        """
        check_signatures(self.signature_claims(sighash), device, zip216=zip216)


def check_signatures(
    claims: Mapping[str, SignatureClaim], device: DeviceChoice = "cpu", *, zip216: bool = True
) -> None:
    """Verify the signatures of Spends and bundles as one batch.

    claims: by names for messages, such as `spends[0].spendAuthSig` and `bindingSig`.
    zip216: see `RedJubjub.verify`.
    Raises VerificationError for invalid signatures and InputError for malformed ones, with the name
    of the first one.
    """
    verdicts = verify_signatures(claims.values(), device, zip216=zip216)
    for name, verdict in zip(claims, verdicts, strict=True):
        if verdict.error is not None:
            raise InputError(str(verdict.error), section=name)
        if not verdict:
            raise VerificationError(_invalid(name))


def _spend_signature_name(index: int) -> str:
    return f"{entry_name(SpendStatement, index)}.spendAuthSig"


def _invalid(name: str) -> str:
    if name == "bindingSig":
        return "bindingSig is invalid: the values do not balance, or it is of another sighash"
    return f"{name} is invalid: it is of another key than rk, or of another sighash"


def check_balance(content: UnsignedBundle, bsk: int) -> None:
    """Raise MismatchError unless bsk is the signing key of bvk."""
    bsk = secret_scalar("bsk", bsk)
    bvk: EdwardsPair = multiple(bsk, binding_scheme(content.protocol).generator)
    if bvk != content.binding_verification_key:
        raise MismatchError(
            "the values do not balance: Spends and Converts minus Outputs are not the value "
            "balance, or a scalar rcv is that of another value commitment"
        )
