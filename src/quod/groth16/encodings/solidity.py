"""Groth16 verifiers as Solidity contracts, and the arguments of calls to them.

    e(A, B) * e(C, -delta) * e(IC_0 + sum of x_i * IC_i, -gamma) * e(alpha, -beta) = 1

The key is constant in the code, with beta, gamma and delta negated, so that the proof is used
unchanged: the call data has A, B and the beginning of C in the layout of the pairing's input.
BN254 uses the precompiles of EIP-196 and EIP-197 (gas of EIP-1108), BLS12-381 those of EIP-2537,
which chains have as of Prague.

The precompiles reject coordinates not below the field's prime, points off the curve and, in G2 and
for BLS12-381, outside the subgroup. They accept scalars of r and above, so the contract compares
each input with r: otherwise x + r would verify too, and x might be spent twice. They accept
infinity, encoded as zeros, which `VerifyingKey.verify` rejects in a proof; this does not help to
forge a proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from quod.curve.array import Point
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError
from quod.formats.curves import curve_named
from quod.frozen import frozen
from quod.groth16.proof import Proof
from quod.groth16.soundness import weakness
from quod.groth16.verifier import VerifyingKey, coordinates_of
from quod.validation import flag, in_order, shown

_MOST_INPUTS = 128
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,99}", re.ASCII)
_TYPE = re.compile(r"u?int\d*|u?fixed(\d+x\d+)?|bytes?\d*", re.ASCII)
# Solidity's keywords and reserved words (its cheat sheet), the placeholder of its modifiers, and
# the names in the contract.
_TAKEN = """
    _ abstract address after alias anonymous apply as assembly auto bool break calldata case catch
    constant constructor continue contract copyof days default define delete do else emit enum ether
    event external fallback false final for function gwei hex hours if immutable implements import
    in indexed inline interface internal is let library macro mapping match memory minutes modifier
    mutable new null of override partial payable pragma private promise public pure receive
    reference relocatable return returns sealed seconds sizeof static storage string struct super
    supports switch this throw true try type typedef typeof unchecked unicode using var view virtual
    weeks wei while years _verdict ok requireValidProof verifyProof
"""
_WORD = 32
# Solidity leaves what is below to itself.
_FREE = 0x80
_SELECTOR = 4

Lines: TypeAlias = list[str]


@frozen(eq=False)
class _Machine:
    """The memory layout of a curve's points in the EVM, and the precompiles for the curve.

    coordinate: bytes of an element of Fq.
    swapped: whether an element of Fq2 has its second coefficient first.
    pairing: the address of the pairing precompile.
    accumulate: returns code that writes IC_0 + sum of x_i * IC_i to an address.
    """

    curve: PairingCurve
    coordinate: int
    swapped: bool
    pairing: int
    comment: str
    accumulate: Callable[[_Machine, int, int, Sequence[Point]], Lines]

    @property
    def g1(self) -> int:
        """Bytes of a point of G1."""
        return 2 * self.coordinate

    @property
    def pair(self) -> int:
        """Bytes of a point of G1 and one of G2."""
        return 6 * self.coordinate

    def words(self, point: Point, degree: int) -> list[int]:
        """The 256-bit words of a point; zeros for infinity."""
        if point is None:
            coordinates = [0] * (2 * degree)
        elif degree == 1:
            coordinates = list(point)
        else:
            coordinates = [
                c
                for coordinate in point
                for c in (reversed(coordinate) if self.swapped else coordinate)
            ]
        low = (1 << 256) - 1
        if self.coordinate == _WORD:
            return coordinates
        return [word for value in coordinates for word in (value >> 256, value & low)]

    def negated(self, point: Point) -> Point:
        """The negative of a point of G2."""
        return affine_group(GROUPS[f"{self.curve.name}.g2"]).negate(point)


def _accumulate_bn254(machine: _Machine, at: int, inputs: int, ic: Sequence[Point]) -> Lines:
    """Accumulate with a multiplication and an addition per input; products follow the sum."""
    lines = _stores(at, machine.words(ic[0], 1))
    term = at + machine.g1
    for index, point in enumerate(ic[1:]):
        if point is None:
            continue
        lines += _stores(term, machine.words(point, 1))
        lines += [f"mstore({term + machine.g1:#x}, calldataload({inputs + _WORD * index:#x}))"]
        for precompile, start, size in ((7, term, 3), (6, at, 4)):
            lines.append(_call(precompile, start, _WORD * size, start, machine.g1))
    return lines


def _accumulate_bls12_381(machine: _Machine, at: int, inputs: int, ic: Sequence[Point]) -> Lines:
    """Accumulate with one MSM, which has a gas discount, and one addition."""
    lines = _stores(at, machine.words(ic[0], 1))
    sums = place = at + machine.g1
    for index, point in enumerate(ic[1:]):
        if point is None:
            continue
        lines += _stores(place, machine.words(point, 1))
        place += machine.g1
        lines.append(f"mstore({place:#x}, calldataload({inputs + _WORD * index:#x}))")
        place += _WORD
    if place > sums:
        lines.append(_call(0x0C, sums, place - sums, sums, machine.g1))
        lines.append(_call(0x0B, at, 2 * machine.g1, at, machine.g1))
    return lines


_MACHINES = {
    "bn254": _Machine(
        CURVES["bn254"], _WORD, True, 8,
        "Over BN254; coefficients of Fq2 are swapped, as EIP-197 has them.", _accumulate_bn254,
    ),
    "bls12_381": _Machine(
        CURVES["bls12_381"], 2 * _WORD, False, 0x0F,
        "Over BLS12-381, by EIP-2537: a coordinate is two words, the upper one below 2**128.",
        _accumulate_bls12_381,
    ),
}  # fmt: skip


def solidity_verifier(
    key: VerifyingKey, *, name: str = "Groth16Verifier", allow_insecure: bool = False
) -> str:
    """Return the source of a contract that verifies proofs for a key, for Solidity 0.8.4 and later.

    `verifyProof` returns whether a proof is valid; its arguments are those of snarkjs's contract.
    `requireValidProof` has the same arguments and reverts with `ProofInvalid` or
    `PublicInputNotInField`. Raises `InputError` for a curve without precompiles, more than 128
    public inputs and an invalid name, and `InsecureKeyError` for an insecure key unless
    `allow_insecure` is set, for tests.
    """
    machine = _machine(key.curve)
    contract: object = name
    if not isinstance(contract, str) or not _NAME.fullmatch(contract):
        raise InputError(
            f"a contract's name must have only letters, digits and _, not {shown(contract)}"
        )
    if _TYPE.fullmatch(contract) or contract in _TAKEN.split():
        raise InputError(f"a contract cannot have the name {contract}, which Solidity or "
                         "the contract uses; choose another name")  # fmt: skip
    if key.public > _MOST_INPUTS:
        raise InputError(
            f"a contract takes {_MOST_INPUTS} public inputs at most, as its code is "
            f"limited to 24,576 bytes, and the key has {key.public}; make their hash "
            "the only input"
        )
    insecurity = weakness(key.curve, key.alpha_g1, key.beta_g2, key.gamma_g2, key.delta_g2)
    if not flag("allow_insecure", allow_insecure) and insecurity is not None:
        raise insecurity.error()
    warning = "" if insecurity is None else _INSECURE.format(reason=insecurity.reason)
    body = "\n".join(f"                {line}" for line in _body(machine, key))
    first = _SELECTOR + machine.pair + machine.g1
    checks = [
        f"lt(calldataload({first + _WORD * i:#x}), {machine.curve.fr.value:#x})"
        for i in range(key.public)
    ]
    in_field = _both(checks) if checks else "1"
    return _CONTRACT.format(
        comment=machine.comment, warning=warning, name=name, parameters=_parameters(machine, key),
        in_field=in_field, body=body, size=first + _WORD * key.public,
    )  # fmt: skip


def solidity_calldata(proof: Proof, public: Iterable[int | str]) -> str:
    """Return the arguments of the contract's functions as `snarkjs generatecall` prints them.

    `public` is as for `VerifyingKey.verify`. Raises `InputError` for a curve without precompiles,
    coordinates not below the prime, and inputs not in 0 to r - 1.
    """
    machine = _machine(proof.curve)
    parts = []
    points: list[tuple[str, Point, int]]
    points = [("pi_a", proof.a, 1), ("pi_b", proof.b, 2), ("pi_c", proof.c, 1)]
    for name, point, degree in points:
        q, law = machine.curve.fq.value, affine_group(GROUPS[f"{proof.curve}.g{degree}"])
        if not all(0 <= value < q for value in coordinates_of(point, degree)) or not law.contains(
            point
        ):
            raise InputError(f"{name} is not a point on the curve; the proof is damaged or forged")
        texts = [f'"{word:#066x}"' for word in machine.words(point, degree)]
        if degree == 2 and machine.coordinate == _WORD:
            texts = [f"[{', '.join(texts[:2])}]", f"[{', '.join(texts[2:])}]"]
            parts.append(f"[{','.join(texts)}]")
        else:
            parts.append(f"[{', '.join(texts)}]")
    inputs = [_input(machine, i, x) for i, x in enumerate(in_order("the public inputs", public))]
    if inputs:
        parts.append(f"[{','.join(inputs)}]")
    return ",".join(parts)


def _input(machine: _Machine, index: int, value: object) -> str:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,80}", value) else value
    if type(number) is not int or not 0 <= number < machine.curve.fr.value:
        raise InputError(
            f"public input {index} is not from 0 to below r of {machine.curve.name}; give the "
            "reduced value"
        )
    return f'"{number:#066x}"'


def _machine(curve: str) -> _Machine:
    name = curve_named(curve).name
    if name not in _MACHINES:
        raise InputError(
            f"no chain has precompiles for {name}; contracts can verify proofs over "
            f"{' and '.join(_MACHINES)}"
        )
    return _MACHINES[name]


def _parameters(machine: _Machine, key: VerifyingKey) -> str:
    lists = ["[2]", "[2][2]", "[2]"] if machine.coordinate == _WORD else ["[4]", "[8]", "[4]"]
    names = ["a", "b", "c"]
    if key.public:
        lists.append(f"[{key.public}]")
        names.append("inputs")
    return ", ".join(
        f"uint256{array_type} calldata /* {name} */" for array_type, name in zip(lists, names)
    )


def _body(machine: _Machine, key: VerifyingKey) -> Lines:
    pairs = [_FREE + index * machine.pair for index in range(4)]
    inputs_offset = machine.pair + machine.g1
    size = 4 * machine.pair
    return [
        "// Pair 0 is A and B. Pair 1 is C, which follows them in the call, and -delta.",
        f"calldatacopy({_FREE:#x}, {_SELECTOR:#x}, {inputs_offset:#x})",
        *_stores(pairs[1] + machine.g1, machine.words(machine.negated(key.delta_g2), 2)),
        "// Pair 2 is IC[0] + inputs[0] * IC[1] + ..., and -gamma.",
        *machine.accumulate(machine, pairs[2], _SELECTOR + inputs_offset, key.ic),
        *_stores(pairs[2] + machine.g1, machine.words(machine.negated(key.gamma_g2), 2)),
        "// Pair 3 is alpha and -beta.",
        *_stores(pairs[3], machine.words(key.alpha_g1, 1)),
        *_stores(pairs[3] + machine.g1, machine.words(machine.negated(key.beta_g2), 2)),
        _call(machine.pairing, _FREE, size, _FREE, _WORD),
    ]


def _stores(at: int, words: Iterable[int]) -> Lines:
    return [f"mstore({at + _WORD * i:#x}, {word:#x})" for i, word in enumerate(words)]


def _call(precompile: int, start: int, size: int, out: int, out_size: int) -> str:
    where = f"{precompile:#04x}, {start:#x}, {size:#x}, {out:#x}, {out_size:#x}"
    return f"ok := and(ok, staticcall(gas(), {where}))"


def _both(conditions: Sequence[str]) -> str:
    conjunction = conditions[0]
    for condition in conditions[1:]:
        conjunction = f"and({conjunction}, {condition})"
    return conjunction


_INSECURE = """///
/// INSECURE: anyone can forge proofs for this contract ({reason}). For tests only.
"""

_CONTRACT = """// SPDX-License-Identifier: Apache-2.0
// Made by quod zkey export solidityverifier.
pragma solidity >=0.8.4 <0.9.0;

/// Verifies Groth16 proofs of one circuit.
///
/// {comment}
/// A proof can be changed into another one of the same inputs by anyone who sees it: what must
/// happen once is kept by a value among the inputs, not by the proof.
{warning}contract {name} {{
    /// A public input is not below the order of the scalar field.
    error PublicInputNotInField();
    /// The proof is not valid for these public inputs.
    error ProofInvalid();

    uint256 private constant INVALID = 0;
    uint256 private constant VALID = 1;
    uint256 private constant NOT_IN_FIELD = 2;

    /// Whether a proof is valid for public inputs; false for inputs that are not below the order.
    function verifyProof({parameters}) external view returns (bool) {{
        uint256 verdict = _verdict();
        assembly ("memory-safe") {{
            mstore(0, eq(verdict, 1))
            return(0, 0x20)
        }}
    }}

    /// Reverts unless a proof is valid for public inputs.
    function requireValidProof({parameters}) external view {{
        uint256 verdict = _verdict();
        if (verdict == NOT_IN_FIELD) revert PublicInputNotInField();
        if (verdict != VALID) revert ProofInvalid();
    }}

    /// The verdict on the arguments of the call, which both functions have in the same places.
    function _verdict() private view returns (uint256 verdict) {{
        // Nothing is allocated yet, so that memory from 0x80 on is free. It is not taken from the
        // free pointer: a compiler that was told "memory-safe" might keep variables there.
        assembly {{
            switch {in_field}
            case 0 {{ verdict := 2 }}
            default {{
                let ok := eq(calldatasize(), {size:#x})
{body}
                // A chain without the precompile returns nothing.
                verdict := and(and(ok, eq(returndatasize(), 0x20)), eq(mload(0x80), 1))
            }}
        }}
    }}
}}
"""
