"""Proofs of bundles: descriptions in the place of infos, with a prover for each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod import zcash
from quod.bench.proofs.zcash import info_of
from quod.errors import InputError, MismatchError
from quod.zcash.bundle import UnsignedBundle, bundle_signing_key, prove_bundle
from quod.zcash.proofs import SAPLING_OUTPUT, Prover, VerifyingKeys, verify_descriptions
from quod.zcash.proofs.description import Description
from quod.zcash.proofs.infos import OutputInfo


def test_proofs_of_outputs(output_test_key: Path) -> None:
    first = info_of("sapling-output")
    assert isinstance(first, OutputInfo)
    second = OutputInfo.draw(first.note, first.esk)
    content = UnsignedBundle([], [first, second], -2 * first.note.value)
    with Prover(SAPLING_OUTPUT, output_test_key, allow_insecure=True) as prover:
        proved = prove_bundle(content, [prover])
        keys = VerifyingKeys(output=prover.key.verifying_key)
        spend = info_of("sapling-spend")
        with pytest.raises(MismatchError, match="there is no prover of sapling-spend"):
            prove_bundle(UnsignedBundle([spend], [first], 0), [prover])
    assert proved.output_statements == [first.statement, second.statement]
    assert proved.value_balance == content.value_balance
    descriptions = [each for each in proved.outputs if isinstance(each, Description)]
    assert len(descriptions) == 2
    assert all(verify_descriptions(keys, descriptions))
    bundle = zcash.Bundle.sign(proved, [], bundle_signing_key(content), bytes(32))
    bundle.verify_signatures(bytes(32))
    with pytest.raises(InputError, match=r"outputs\[0\] must be an info"):
        prove_bundle(proved, [])
    with pytest.raises(InputError, match="a prover must be of the type Prover"):
        prove_bundle(content, [keys])  # type: ignore[list-item]
