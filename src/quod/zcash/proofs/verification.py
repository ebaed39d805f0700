"""Verification of descriptions, each with the key of its kind, singly and in batches.

The constructors of statements check the rules outside the proofs: canonical encodings, and no
points of small order. Signatures are verified elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError, MismatchError
from quod.frozen import frozen
from quod.groth16 import Verdict, VerifyingKey, verify_batch
from quod.groth16.batch_verification import Claim
from quod.validation import in_order, instance
from quod.zcash.output_statement import OutputStatement
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.kinds import Statement
from quod.zcash.spend_statement import ConvertStatement, SpendStatement


@frozen(eq=False)
class VerifyingKeys:
    """The verifying keys of one protocol, or some of them (`quod.zcash.proofs.parameters`).

    Raises MismatchError for a key with another number of public inputs than its statements.
    """

    spend: VerifyingKey | None = None
    output: VerifyingKey | None = None
    convert: VerifyingKey | None = None

    def __post_init__(self) -> None:
        for statement, key in self._by_statement().items():
            if key is not None:
                instance(f"the key of {statement.what}", key, VerifyingKey, "read one")
            if key is not None and key.public != statement.public_inputs:
                raise MismatchError(
                    f"the key has {key.public} public inputs, and the proof of {statement.what} "
                    f"{statement.public_inputs}"
                )

    def of(self, statement: Statement) -> VerifyingKey:
        """Return the key of a statement; raise MismatchError if it is missing."""
        key = self._by_statement().get(type(statement))
        if key is None:
            raise MismatchError(f"there is no key for {statement.what}")
        return key

    def _by_statement(self) -> dict[type[Statement], VerifyingKey | None]:
        return {
            SpendStatement: self.spend, OutputStatement: self.output,
            ConvertStatement: self.convert,
        }  # fmt: skip


def verify_description(keys: VerifyingKeys, description: Description) -> bool:
    """Return whether a proof is valid for its statement.

    Raises MismatchError if its key is missing, and InputError for points outside the subgroup.
    """
    statement = _checked(description).statement
    instance("the keys", keys, VerifyingKeys, "make VerifyingKeys")
    return keys.of(statement).verify(statement.public, description.proof)


def verify_descriptions(
    keys: VerifyingKeys, descriptions: Sequence[Description | InputError]
) -> list[Verdict]:
    """Verify descriptions of all kinds as one batch; see `quod.groth16.verify_batch`.

    An InputError among them gives an invalid verdict with this error.
    Raises MismatchError if a key is missing.
    """
    instance("the keys", keys, VerifyingKeys, "make VerifyingKeys")
    claims: list[Claim] = []
    verdicts: list[Verdict | None] = []
    for description in in_order("the descriptions", descriptions):
        if isinstance(description, InputError):
            verdicts.append(Verdict(False, description))
            continue
        statement = _checked(description).statement
        claims.append((keys.of(statement), statement.public, description.proof))
        verdicts.append(None)
    proved = iter(verify_batch(claims))
    return [next(proved) if verdict is None else verdict for verdict in verdicts]


def _checked(description: object) -> Description:
    return instance(
        "a description", description, Description, "make one with Description.from_bytes"
    )
