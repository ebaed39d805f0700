"""The least number of bits, which every public prover and verifier with error terms enforces."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from quod import inference, lookup, sumcheck
from quod.commitment import Hyrax, Ligero, Raw, Scheme
from quod.device import open_device
from quod.errors import InputError
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.inference.files.proof import ProofFile
from quod.inference.layout import ProofLayout
from quod.inference.statement import FIELDS, MANY_IMAGES, field_for, terms_of
from quod.security import MAX_BITS, MIN_BITS, bits_of, check_bits
from quod.transcript import ProofReader
from tests.support.bound_transcripts import bound

PACKAGES = (
    "sumcheck", "lookup", "commitment", "gkr", "inference", "inference.transformer.proof",
)  # fmt: skip
"""Those with error terms."""

WORDS = ("prove", "verify", "committer", "read", "Prover", "Verifier")
"""Words that names of provers and verifiers begin with."""

OF_NONE = {
    # What reads files verifies nothing.
    "gkr.read_proof", "gkr.read_inputs", "gkr.read_public_inputs", "gkr.read_verifying_key",
    "inference.read_proof", "inference.read_verifying_key", "inference.read_plan",
    "inference.transformer.proof.read_key", "inference.transformer.proof.read_answer",
    # The bits depend on the tokens, so `prove` looks at them.
    "inference.transformer.proof.Prover",
    # The bound was looked at when the prover or verifier was made.
    "gkr.Prover.prove", "gkr.Prover.prove_many", "gkr.Verifier.verify", "gkr.Verifier.verify_many",
    "inference.Prover.prove",
}  # fmt: skip


def callables() -> dict[str, Callable[..., Any]]:
    """The public functions and classes of packages with error terms, and the methods of these."""
    calls: dict[str, Callable[..., Any]] = {}
    for package in PACKAGES:
        module = import_module(f"quod.{package}")
        for name in module.__all__:
            public = getattr(module, name)
            calls[f"{package}.{name}"] = public
            if inspect.isclass(public):
                methods = inspect.getmembers(public, callable)
                calls |= {f"{package}.{name}.{method}": call for method, call in methods}
    calls["inference.ProofFile.verify"] = ProofFile.verify
    calls["inference.VerifyingKey.check_weights"] = inference.VerifyingKey.check_weights
    return {name: call for name, call in calls.items() if callable(call)}


def test_every_public_prover_and_verifier_has_the_bound() -> None:
    names = {
        name for name in callables()
        if name.rsplit(".", 1)[-1].startswith(WORDS) or name.endswith("check_weights")
    }  # fmt: skip
    assert names >= OF_NONE
    bounded = names - OF_NONE
    assert len(bounded) >= 22
    for name in sorted(bounded):
        parameters = inspect.signature(callables()[name]).parameters
        assert "allow_bits" in parameters, f"{name} enforces no least number of bits"
        assert parameters["allow_bits"].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameters["allow_bits"].default == MIN_BITS == 100, name


@pytest.mark.parametrize(
    ("terms", "bits"),
    [
        ([], MAX_BITS), ([Fraction(1)], 0), ([Fraction(3)], 0), ([Fraction(1, 2)], 1),
        ([Fraction(1, 1 << 100)], 100), ([Fraction(1, (1 << 100) - 1)], 99),
        ([Fraction(1, 1 << 101)] * 2, 100), ([Fraction(1, 10**4000)], MAX_BITS),
    ],
)  # fmt: skip
def test_bits_are_of_all_terms_together(terms: list[Fraction], bits: int) -> None:
    assert bits_of(terms) == bits


def test_lower_bound_requires_allow_bits() -> None:
    terms = {"rounds": Fraction(1, 1 << 90), "columns": Fraction(1, 1 << 80)}
    said = "a proof shows 79 bits, and at least 100 .* term is 'columns'.* pass allow_bits=79"
    with pytest.raises(InputError, match=said):
        check_bits("a proof", terms, MIN_BITS)
    with pytest.raises(InputError, match="at least 80"):
        check_bits("a proof", terms, 80)
    check_bits("a proof", terms, 79)
    wrong: Any
    for wrong in (None, True, -1, 79.0, "79"):
        with pytest.raises(InputError, match="allow_bits"):
            check_bits("a proof", terms, wrong)


def refused(call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    with pytest.raises(InputError, match="at least 100 are required"):
        call(*arguments, **named)


@pytest.mark.parametrize("name", ["m31", "m31.2", "m31.3", "goldilocks"])
def test_sums_over_small_fields(name: str) -> None:
    field: FieldSpec = NAMED.get(name) or EXTENSIONS[name]
    product = sumcheck.SumOfProducts.product(1)
    table = from_integers(field.modulus, [1, 2])
    claimed = sumcheck.Statement(field, product, 1, (3, *[0] * (field.degree - 1)))
    refused(sumcheck.prove, "cpu", field, product, [table], transcript=bound())
    refused(sumcheck.verify, claimed, b"", transcript=bound())
    with pytest.raises(InputError, match="the proof ends"):
        sumcheck.verify(claimed, b"", transcript=bound(), allow_bits=0)
    looked_up = lookup.Statement(field, 1, 1, lookup.Range(2))
    refused(lookup.prove, "cpu", field, [table], lookup.Range(2), table, transcript=bound())
    refused(lookup.verify, looked_up, b"", transcript=bound())
    refused(lookup.prove_committed, "cpu", field, [table], lookup.Range(2))
    refused(lookup.verify_committed, looked_up, b"")
    with pytest.raises(InputError, match="the proof ends"):
        lookup.verify_committed(looked_up, b"", allow_bits=0)


def test_many_lookups_over_a_large_field() -> None:
    """The openings of many columns have 110 bits each, but fewer together."""
    field = EXTENSIONS["m31.4"]
    many = lookup.Statement(field, 1, 30, lookup.Range(8))
    assert 93 <= bits_of(lookup.error_terms(many).values()) < 94
    refused(lookup.verify, many, b"", transcript=bound())
    refused(lookup.verify_committed, many, b"")
    wide = lookup.Statement(field, 1024, 12, lookup.Range(4))
    alone = bits_of(lookup.error_terms(wide).values())
    together = bits_of(lookup.error_terms(wide, scheme=Ligero()).values())
    assert alone >= MIN_BITS > together
    refused(lookup.verify_committed, wide, b"", scheme=Ligero())
    with pytest.raises(InputError, match="the proof ends"):
        lookup.verify_committed(wide, b"", scheme=Ligero(), allow_bits=together)


@pytest.mark.parametrize(
    ("scheme", "field"),
    [
        (Ligero(column_bits=1), EXTENSIONS["m31.4"]),
        (Ligero(column_bits=99), EXTENSIONS["goldilocks.2"]),
        (Ligero(), EXTENSIONS["m31.3"]),
        (Ligero(), NAMED["m31"]),
    ],
)
def test_openings(scheme: Scheme, field: FieldSpec) -> None:
    device = open_device("cpu")
    refused(scheme.committer, device, field, 12)
    refused(scheme.read, ProofReader(bytes(32), bound()), field, 12)
    scheme.read(ProofReader(bytes(32), bound()), field, 12, allow_bits=0)


def test_deterministic_openings_have_negligible_error() -> None:
    Raw().read(ProofReader(bytes(8), bound()), NAMED["m31"], 1)
    assert bits_of(Hyrax().error_terms(NAMED["bn254.fr"], 20).values()) > 200


def key_of(widths: tuple[int, ...], field: FieldSpec) -> inference.VerifyingKey:
    """Key of a made-up perceptron: nine layers of 4096 outputs take minutes to commit to."""
    biases = tuple((0,) * width for width in widths[1:])
    multipliers = tuple((1,) * width for width in widths[1:-1])
    return inference.VerifyingKey(widths, 16, biases, multipliers, bytes(32), b"", field)


LARGEST = (4096,) * 10


def test_largest_perceptron_uses_a_larger_field() -> None:
    small, large = FIELDS
    assert bits_of(terms_of(ProofLayout(LARGEST, 16, 1), small).values()) == 99
    assert field_for(LARGEST, 16) == large
    assert field_for((784, 256, 128, 10), 16) == small
    old, new = (key_of(LARGEST, field) for field in FIELDS)
    assert old.digest != new.digest
    images_and_logits = np.zeros((1, 4096), int), np.zeros((1, 4096), int)
    refused(inference.verify, old, *images_and_logits, b"")
    refused(old.check_weights)
    for key, allowed in ((old, 99), (new, MIN_BITS)):
        with pytest.raises(InputError, match="section weights_proof"):
            inference.verify(key, *images_and_logits, b"", allow_bits=allowed)


@pytest.mark.parametrize(
    "widths", [(2, 2, 2), (4096, 1, 1), (784, 256, 128, 10), (4096,) * 7, (4096,) * 9, LARGEST]
)
def test_new_keys_reach_the_bound_for_many_images(widths: tuple[int, ...]) -> None:
    field, images = field_for(widths, 16), 1
    while images <= MANY_IMAGES and (layout := ProofLayout(widths, 16, images)).fits:
        assert bits_of(terms_of(layout, field).values()) >= MIN_BITS
        images *= 2
    assert images > 1


def test_many_images_by_an_older_key() -> None:
    key = key_of((4096,) * 9, FIELDS[0])
    key.check_bits(1, MIN_BITS)
    with pytest.raises(InputError, match="at least 100 are required"):
        key.check_bits(1 << 12, MIN_BITS)
