"""Provers: proofs of each kind under test keys and under Sapling's, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod import zcash
from quod.bench.proofs.zcash import info_of
from quod.errors import InputError, MismatchError
from quod.r1cs import UnsatisfiedError
from quod.zcash.proofs import prover as prover_module
from quod.zcash.proofs.infos import OutputInfo, SpendInfo
from quod.zcash.proofs.kinds import KINDS, SAPLING_OUTPUT, SAPLING_SPEND
from quod.zcash.proofs.parameters import make_test_parameters
from quod.zcash.proofs.prover import Prover
from quod.zcash.proofs.sapling_keys import sapling_verifying_keys
from quod.zcash.proofs.verification import VerifyingKeys, verify_description
from tests.support.thorough import one_and_others


def output_info() -> OutputInfo:
    info = info_of("sapling-output")
    assert isinstance(info, OutputInfo)
    return info


@pytest.mark.parametrize("name", one_and_others(KINDS))
def test_proofs_of_each_kind(name: str, tmp_path: Path) -> None:
    kind, info = KINDS[name], info_of(name)
    make_test_parameters(kind, tmp_path / kind.file_name, seed=1)
    with Prover(kind, tmp_path / kind.file_name, allow_insecure=True) as prover:
        description = prover.prove(info, seed=3)
        assert description.statement == info.statement
        keys = VerifyingKeys(**{name.partition("-")[2]: prover.key.verifying_key})
        assert verify_description(keys, description)
        assert prover.prove(info, seed=3).to_bytes() == description.to_bytes()
        assert prover.prove(info).proof != description.proof


def test_many_proofs_are_in_order(output_test_key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover_module, "MAX_BATCH", 2)
    info = output_info()
    infos = [OutputInfo(info.note, esk, info.rcv) for esk in range(1, 6)]
    with Prover(SAPLING_OUTPUT, output_test_key, allow_insecure=True) as prover:
        descriptions = list(prover.prove_many(iter(infos), seed=1))
        assert [each.statement for each in descriptions] == [each.statement for each in infos]
        assert descriptions[1].proof == prover.prove(infos[1], seed=1).proof
        assert list(prover.prove_many([])) == []
        # The error of an info comes after the descriptions of the earlier ones.
        stream = prover.prove_many([infos[0], infos[1], info_of("sapling-spend")])
        assert [next(stream).statement, next(stream).statement] == [
            infos[0].statement, infos[1].statement,
        ]  # fmt: skip
        with pytest.raises(MismatchError, match="one of sapling-output, not of sapling-spend"):
            next(stream)


def test_wrong_infos(output_test_key: Path) -> None:
    info = output_info()
    with Prover(SAPLING_OUTPUT, output_test_key, allow_insecure=True) as prover:
        with pytest.raises(MismatchError, match="one of sapling-output, not of masp-output"):
            prover.prove(info_of("masp-output"))
        with pytest.raises(InputError, match="esk must be a scalar"):
            prover.prove(OutputInfo(info.note, 0, info.rcv))
        empty_note = zcash.Note(info.note.address, 0, 1)
        with pytest.raises(InputError, match="cv is a point of small order"):
            # A value of 0 that nothing hides: consensus would refuse it.
            prover.prove(OutputInfo(empty_note, info.esk, 0))


@pytest.mark.thorough
def test_spends_under_the_ceremony_s_key(spend_parameters: Path) -> None:
    info = info_of("sapling-spend")
    assert isinstance(info, SpendInfo)
    keys = sapling_verifying_keys()
    with Prover(SAPLING_SPEND, spend_parameters) as prover:
        assert not prover.key.insecure
        description = prover.prove(info)
        assert len(description.to_bytes()[-1]) == 192
        assert description.statement == info.statement
        assert verify_description(keys, description)
        wrong_anchor = SpendInfo(info.key, info.note, info.path, 1, 2, info.anchor ^ 1)
        with pytest.raises(UnsatisfiedError, match="conditional anchor"):
            prover.prove(wrong_anchor)
        stream = prover.prove_many([info, wrong_anchor, info])
        assert next(stream).statement == info.statement
        with pytest.raises(UnsatisfiedError, match="conditional anchor"):
            next(stream)
        empty_note = zcash.Note(info.note.address, 0, info.note.rcm)
        dummy = SpendInfo(info.key, empty_note, info.path, 1, 2, 7)
        assert verify_description(keys, prover.prove(dummy))
