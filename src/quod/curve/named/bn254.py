"""BN254: Barreto and Naehrig (SAC 2005); EIP-196 and EIP-197, which call it alt_bn128."""

from quod.curve.parameters import (
    Endomorphism,
    Family,
    G1Parameters,
    G2Parameters,
    PairingCurve,
    Tower,
    Twist,
)
from quod.field.moduli import BN254_FQ, BN254_FR

_X = 4965661367192848881
_TOWER = Tower(BN254_FQ, -1, (9, 1))

BN254 = PairingCurve(
    name="bn254",
    family=Family.BN,
    fq=BN254_FQ,
    fr=BN254_FR,
    x=_X,
    tower=_TOWER,
    twist=Twist.D,
    g1=G1Parameters(b=3, generator=(1, 2), cofactor=1),
    g2=G2Parameters(
        b=_TOWER.multiply((3, 0), _TOWER.invert((9, 1))),
        generator=(
            (
                10857046999023057135944570762232829481370756359578518086990519993285655852781,
                11559732032986387107991004021392285783925812861821192530917403151452391805634,
            ),
            (
                8495653923123431417604973247489272438418190587263600148770280649306958101930,
                4082367875863433681332203403145435568316851327593401208105741076214120093531,
            ),
        ),
        cofactor=2 * BN254_FQ.value - BN254_FR.value,
    ),
    phi=Endomorphism(
        beta=0x59E26BCEA0D48BACD4F263F1ACDB5C4F5763473177FFFFFE,
        eigenvalue=36 * _X**3 + 18 * _X**2 + 6 * _X + 1,
        order=BN254_FR.value,
    ),
    snarkjs_name="bn128",
    aliases=("bn254", "altbn128"),
)
