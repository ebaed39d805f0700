"""Reference functions of hashes against published vectors."""

from __future__ import annotations

import pytest

from quod.errors import InputError
from quod.field import NAMED
from quod.hash import blake_256, blake_512, mimc7_hash, mimc_sponge, poseidon_hash
from quod.hash.mimc import mimc7_constants, mimc_sponge_constants
from quod.hash.poseidon import PARTIAL_ROUNDS, poseidon_parameters

P = NAMED["bn254.fr"].value


def test_poseidon_vectors() -> None:
    """Vectors of circomlibjs's tests (test/poseidon.js)."""
    hashed = poseidon_hash
    assert hashed([1, 2]) == 0x115CC0F5E7D690413DF64C6B9662E9CF2A3617F2743245519E19607A4417189A
    assert hashed([1, 2, 3, 4]) == (
        0x299C867DB6C1FDD79DCEFA40E4510B9837E60EBB1CE0663DBAA525DF65250465
    )
    assert hashed([1]) == (
        18586133768512220936620570745912940619677854269274689475585506675881198879027
    )
    assert hashed(list(range(1, 17))) == (
        9989051620750914585850546081941653841776809718687451684622678807385399211877
    )
    assert hashed([1, 2, 3, 4], initial=7) == (
        1569211601569591254857354699102545060324851338714426496554851741114291465006
    )


def test_poseidon_parameters() -> None:
    """Published constants at both ends of the derivation, and that the matrix mixes."""
    parameters = poseidon_parameters(3)
    assert parameters.round_constants[0][0] == (
        0x0EE9A592BA9A9518D05986D656F40C2114C4993C11BB29938D21D47304CD8E6E
    )
    assert parameters.matrix[0][0] == (
        0x109B7F411BA0E4C9B2B70CAF5C36A7B194BE7C11AD24378BFEDB68592BA8118B
    )
    assert [len(parameters.round_constants), len(PARTIAL_ROUNDS)] == [65, 16]
    assert poseidon_parameters(17).round_constants[75][16] < P
    with pytest.raises(InputError, match="from 2 to 17, not 18"):
        poseidon_parameters(18)


def test_mimc_vectors() -> None:
    """Vectors of circomlibjs's tests (test/mimc7.js, test/mimcsponge.js)."""
    assert mimc7_hash([1, 2]) == (0xB91EBBD35D7448ECC13E75A7CEB1CE5BBE428090ACFAE0DA2C3867A874CE6EA)
    assert mimc7_hash([1, 2, 3, 4]) == (
        0x19CE9298D9E8ADA63B2FB30C938D25CC9116ACA2795F8B90FD9530687B4AD075
    )
    assert mimc_sponge([1, 2]) == [
        0x2BCEA035A1251603F1CEAF73CD4AE89427C47075BB8E3A944039FF1E3D6D2A6F
    ]
    assert mimc_sponge([1, 2, 3, 4]) == [
        0x3E86BDC4EAC70BD601473C53D8233B145FE8FD8BF6EF25F0B217A1DA305665C
    ]
    assert (len(mimc7_constants()), len(mimc_sponge_constants())) == (91, 220)


def test_blake_vectors() -> None:
    """Vectors of the submission to NIST: one zero byte, and more than a block of them."""
    assert blake_256(bytes(1)).hex() == (
        "0ce8d4ef4dd7cd8d62dfded9d4edb0a774ae6a41929a74da23109e8f11139c87"
    )
    assert blake_256(bytes(72)).hex() == (
        "d419bad32d504fb7d44d460c42c5593fe544fa4c135dec31e21bd9abdcc22d41"
    )
    assert blake_512(bytes(1)).hex() == (
        "97961587f6d970faba6d2478045de6d1fabd09b61ae50932054d52bc29d31be4"
        "ff9102b9f69e2bbdb83be13d4b9c06091e5fa0b48bd081b634058be0ec49beb3"
    )
    assert blake_512(bytes(144)).hex() == (
        "313717d608e9cf758dcb1eb0f0c3cf9fc150b2d500fb33f51c52afc99d358a2f"
        "1374b8a38bba7974e7f6ef79cab16f22ce1e649d6e01ad9589c213045d545dde"
    )
