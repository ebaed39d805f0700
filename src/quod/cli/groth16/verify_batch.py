"""quod groth16 verify --batch: lists of proofs of one key."""

from __future__ import annotations

from pathlib import Path

from quod.cli.display.terminal import show_valid, warn
from quod.errors import InputError, MismatchError, VerificationError
from quod.formats import ProofJson, read_publics
from quod.formats.snarkjs_json import parse_proofs
from quod.formats.source import is_text
from quod.formats.strict_json import PROOFS, read_json
from quod.groth16 import Proof, Verdict, VerifyingKey, verify_batch
from quod.wording import counted

# The maximum number of invalid proofs that an error names.
_MAX_NAMED = 20


def verify_lists(key: VerifyingKey, public: Path, proof: Path, *, quiet: bool) -> None:
    """Verify each proof of a list for the public inputs at the same index of another list.

    Raises VerificationError with the invalid ones, after a warning for each malformed one;
    InputError and MismatchError for malformed lists or lists of different lengths.
    """
    inputs, proofs = read_lists(key, public, proof)
    errors: dict[int, InputError] = {}
    claim_indices: list[int] = []
    claims = []
    for index, (values, proof_or_error) in enumerate(zip(inputs, proofs, strict=True)):
        if isinstance(values, InputError) or isinstance(proof_or_error, InputError):
            errors[index] = values if isinstance(values, InputError) else _error(proof_or_error)
        else:
            claim_indices.append(index)
            claims.append((key, values, proof_or_error))
    verdicts = {index: Verdict(False, error) for index, error in errors.items()}
    verdicts |= dict(zip(claim_indices, verify_batch(claims), strict=True))
    invalid = sorted(index for index, verdict in verdicts.items() if not verdict)
    for index in invalid:
        if (error := verdicts[index].error) is not None:
            warn(f"proof {index} is malformed: {error}")
    if invalid:
        indices_text = ", ".join(map(str, invalid[:_MAX_NAMED])) + (
            ", ..." if len(invalid) > _MAX_NAMED else ""
        )
        raise VerificationError(
            f"{proof}: {len(invalid)} of {len(proofs)} proofs are not valid for their public "
            f"inputs and this key (counted from 0: {indices_text}); do not accept them"
        )
    all_proofs = "the proof is" if len(proofs) == 1 else f"all {len(proofs)} proofs are"
    show_valid(quiet=quiet, what=f"{all_proofs} valid")


def read_lists(
    key: VerifyingKey, public: Path, proof: Path
) -> tuple[list[tuple[int, ...] | InputError], list[Proof | InputError]]:
    """Read equally many public inputs and proofs from two files; malformed ones as errors."""
    inputs, proofs = read_publics(public, curve=key.curve), _proofs(key, proof)
    if len(inputs) != len(proofs):
        raise MismatchError(
            f"{public} has the public inputs of {counted(len(inputs), 'proof')} and {proof} has "
            f"{counted(len(proofs), 'proof')}; give lists of the same proofs in the same order"
        )
    if not proofs:
        raise InputError("has no proofs; give a list of at least one", path=proof)
    return inputs, proofs


def _proofs(key: VerifyingKey, path: Path) -> list[Proof | InputError]:
    # Read once, as a pipe cannot be read again.
    content, name = read_json(path, PROOFS), str(path)
    if is_text(content):
        return [
            Proof(proof_or_error.curve, proof_or_error.a, proof_or_error.b, proof_or_error.c)
            if isinstance(proof_or_error, ProofJson)
            else proof_or_error
            for proof_or_error in parse_proofs(content, curve=key.curve, name=name)
        ]
    from quod.groth16.encodings.bellman import proofs_from_bytes

    return proofs_from_bytes(content, device=key.device, name=name)


def _error(value: Proof | InputError) -> InputError:
    assert isinstance(value, InputError)
    return value
