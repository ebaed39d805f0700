"""Arguments of other types are an InputError of the proofs' functions, not an AttributeError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quod import zcash
from quod.bench.proofs.zcash import info_of
from quod.errors import InputError
from quod.zcash.proofs import (
    SAPLING_OUTPUT,
    Description,
    OutputInfo,
    Prover,
    SpendInfo,
    VerifyingKeys,
    make_test_parameters,
    verify_description,
    verify_descriptions,
)
from quod.zcash.proofs.infos import ConvertInfo

WRONG: Any = "text"


@pytest.fixture(scope="module")
def prover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prover]:
    path = tmp_path_factory.mktemp("parameters") / "output.params"
    make_test_parameters(SAPLING_OUTPUT, path, seed=1)
    with Prover(SAPLING_OUTPUT, path, allow_insecure=True) as prover:
        yield prover


@pytest.mark.parametrize("infos", [None, 5, "ab", [None], {}, {SAPLING_OUTPUT}])
def test_infos_of_a_prover(prover: Prover, infos: Any) -> None:
    with pytest.raises(InputError, match=r"infos must be a list|must be a SpendInfo"):
        list(prover.prove_many(infos))
    with pytest.raises(InputError, match="must be a SpendInfo, an OutputInfo"):
        prover.prove(infos)


def test_keys_and_bundles(prover: Prover) -> None:
    description = prover.prove(info_of("sapling-output"))
    calls: list[Callable[[], Any]] = [
        lambda: verify_description(WRONG, description),
        lambda: verify_descriptions(WRONG, [description]),
        lambda: VerifyingKeys(output=WRONG),
        lambda: zcash.prove_bundle(WRONG, [prover]),
    ]
    for call in calls:
        with pytest.raises(InputError, match="must be of the type"):
            call()
    assert isinstance(description, Description)


def test_fields_of_infos() -> None:
    info = info_of("sapling-spend")
    assert isinstance(info, SpendInfo)
    calls: list[Callable[[], Any]] = [
        lambda: SpendInfo(WRONG, info.note, info.path, 1, 1, 1),
        lambda: SpendInfo(info.key, WRONG, info.path, 1, 1, 1),
        lambda: SpendInfo(info.key, info.note, WRONG, 1, 1, 1),
        lambda: OutputInfo(WRONG, 1, 1),
        lambda: ConvertInfo(WRONG, 1, info.path, 1, 1),
        lambda: zcash.Note(WRONG, 1, 1),
    ]
    for call in calls:
        with pytest.raises(InputError, match="must be of the type"):
            call()
