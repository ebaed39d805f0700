"""Groth16 verifiers as Solidity contracts, and the arguments of calls to them.

    e(A, B) * e(C, -delta) * e(IC_0 + sum of x_i * IC_i, -gamma) * e(alpha, -beta) = 1

The key's points are constants in the code. Beta, gamma and delta are negated there, so that the
proof is used unchanged: A, B and C have the same order in the call data as at the beginning of the
pairing's input. BN254 uses the precompiles of EIP-196 and EIP-197 (gas of EIP-1108), and BLS12-381
those of EIP-2537, which chains have as of Prague.

The precompiles reject coordinates not below the field's prime, points off the curve and, in G2 and
for BLS12-381, outside the subgroup. They accept scalars of r and above, so the contract compares
each input with r: otherwise x + r would verify too, and x might be spent twice. They accept
infinity, encoded as zeros, which `VerifyingKey.verify` rejects in a proof; accepting it does not
help to forge a proof.
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

_MAX_INPUTS = 128
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,99}", re.ASCII)
_TYPE = re.compile(r"u?int\d*|u?fixed(\d+x\d+)?|bytes?\d*", re.ASCII)
# Names that a contract cannot have: keywords and reserved words (Solidity's cheat sheet), the
# placeholder of modifiers, and the names in the contract.
_RESERVED_NAMES = """
    _ abstract address after alias anonymous apply as assembly auto bool break calldata case catch
    constant constructor continue contract copyof days default define delete do else emit enum ether
    event external fallback false final for function gwei hex hours if immutable implements import
    in indexed inline interface internal is let library macro mapping match memory minutes modifier
    mutable new null of override partial payable pragma private promise public pure receive
    reference relocatable return returns sealed seconds sizeof static storage string struct super
    supports switch this throw true try type typedef typeof unchecked unicode using var view virtual
    weeks wei while years _verdict ok requireValidProof verifyProof
"""
_WORD_BYTES = 32
# Solidity reserves the memory below this address.
_MEMORY_START = 0x80
_SELECTOR_BYTES = 4

Lines: TypeAlias = list[str]


@frozen(eq=False)
class _EvmLayout:
    """The memory layout of a curve's points in the EVM, and the precompiles for the curve.

    coordinate: bytes of an element of Fq.
    swapped: whether an element of Fq2 has its second coefficient first.
    pairing: the address of the pairing precompile.
    comment: a line of the contract's documentation.
    accumulate: returns code that writes IC_0 + sum of x_i * IC_i to an address.
    """

    curve: PairingCurve
    coordinate: int
    swapped: bool
    pairing: int
    comment: str
    accumulate: Callable[[_EvmLayout, int, int, Sequence[Point]], Lines]

    @property
    def g1(self) -> int:
        """The bytes of a point of G1."""
        return 2 * self.coordinate

    @property
    def pair(self) -> int:
        """The bytes of a point of G1 and a point of G2."""
        return 6 * self.coordinate

    def words(self, point: Point, degree: int) -> list[int]:
        """Return the 256-bit words of a point; zeros for infinity."""
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
        if self.coordinate == _WORD_BYTES:
            return coordinates
        return [word for value in coordinates for word in (value >> 256, value & low)]

    def negated(self, point: Point) -> Point:
        """Return the negative of a point of G2."""
        return affine_group(GROUPS[f"{self.curve.name}.g2"]).negate(point)


def _accumulate_bn254(layout: _EvmLayout, address: int, inputs: int, ic: Sequence[Point]) -> Lines:
    """Return code with a multiplication and an addition per input.

    layout: the layout of points.
    address: the address of the sum; products are stored after it.
    inputs: the offset of the public inputs in the call data.
    """
    lines = _stores(address, layout.words(ic[0], 1))
    product = address + layout.g1
    for index, point in enumerate(ic[1:]):
        if point is None:
            continue
        lines += _stores(product, layout.words(point, 1))
        lines += [
            f"mstore({product + layout.g1:#x}, calldataload({inputs + _WORD_BYTES * index:#x}))"
        ]
        # Precompile 7 multiplies a point by a scalar; precompile 6 adds the sum and the product,
        # which are adjacent.
        for precompile, start, words in ((7, product, 3), (6, address, 4)):
            lines.append(_call(precompile, start, _WORD_BYTES * words, start, layout.g1))
    return lines


def _accumulate_bls12_381(
    layout: _EvmLayout, address: int, inputs: int, ic: Sequence[Point]
) -> Lines:
    """Return code with one MSM, which has a gas discount, and one addition; see BN254's."""
    lines = _stores(address, layout.words(ic[0], 1))
    pairs = end = address + layout.g1
    for index, point in enumerate(ic[1:]):
        if point is None:
            continue
        lines += _stores(end, layout.words(point, 1))
        end += layout.g1
        lines.append(f"mstore({end:#x}, calldataload({inputs + _WORD_BYTES * index:#x}))")
        end += _WORD_BYTES
    # Precompile 0x0C is the MSM of G1, 0x0B the addition.
    if end > pairs:
        lines.append(_call(0x0C, pairs, end - pairs, pairs, layout.g1))
        lines.append(_call(0x0B, address, 2 * layout.g1, address, layout.g1))
    return lines


_LAYOUTS = {
    "bn254": _EvmLayout(
        CURVES["bn254"], _WORD_BYTES, True, 8,
        "Over BN254; coefficients of Fq2 are swapped, as EIP-197 has them.", _accumulate_bn254,
    ),
    "bls12_381": _EvmLayout(
        CURVES["bls12_381"], 2 * _WORD_BYTES, False, 0x0F,
        "Over BLS12-381, by EIP-2537: a coordinate is two words, the upper one below 2**128.",
        _accumulate_bls12_381,
    ),
}  # fmt: skip


def solidity_verifier(
    key: VerifyingKey, *, name: str = "Groth16Verifier", allow_insecure: bool = False
) -> str:
    """Return the source of a contract that verifies proofs for a key, for Solidity 0.8.4 and later.

    The contract's function `verifyProof` returns whether a proof is valid; its arguments are those
    of snarkjs's contract. `requireValidProof` has the same arguments and reverts with
    `ProofInvalid` or `PublicInputNotInField`. Raises `InputError` for a curve without precompiles,
    more than 128 public inputs or an invalid name, and `InsecureKeyError` for an insecure key
    unless `allow_insecure` is set, for tests.
    """
    layout = _layout_of(key.curve)
    contract: object = name
    if not isinstance(contract, str) or not _NAME.fullmatch(contract):
        raise InputError(
            f"a contract's name must have only letters, digits and _, not {shown(contract)}"
        )
    if _TYPE.fullmatch(contract) or contract in _RESERVED_NAMES.split():
        raise InputError(f"a contract cannot have the name {contract}, which Solidity or "
                         "the contract uses; choose another name")  # fmt: skip
    if key.public > _MAX_INPUTS:
        raise InputError(
            f"a contract takes {_MAX_INPUTS} public inputs at most, as its code is "
            f"limited to 24,576 bytes, and the key has {key.public}; make their hash "
            "the only input"
        )
    insecurity = weakness(key.curve, key.alpha_g1, key.beta_g2, key.gamma_g2, key.delta_g2)
    if not flag("allow_insecure", allow_insecure) and insecurity is not None:
        raise insecurity.error()
    warning = "" if insecurity is None else _INSECURE.format(reason=insecurity.reason)
    body = "\n".join(f"                {line}" for line in _body(layout, key))
    inputs_offset = _SELECTOR_BYTES + layout.pair + layout.g1
    checks = [
        f"lt(calldataload({inputs_offset + _WORD_BYTES * i:#x}), {layout.curve.fr.value:#x})"
        for i in range(key.public)
    ]
    in_field = _all_of(checks) if checks else "1"
    return _CONTRACT.format(
        comment=layout.comment, warning=warning, name=name, parameters=_parameters(layout, key),
        in_field=in_field, body=body, size=inputs_offset + _WORD_BYTES * key.public,
    )  # fmt: skip


def solidity_calldata(proof: Proof, public: Iterable[int | str]) -> str:
    """Return the arguments of the contract's functions as `snarkjs generatecall` prints them.

    public: the inputs, as for `VerifyingKey.verify`. Raises `InputError` for a curve without
    precompiles, points off the curve, and inputs not in 0 to r - 1.
    """
    layout = _layout_of(proof.curve)
    parts = []
    points: list[tuple[str, Point, int]]
    points = [("pi_a", proof.a, 1), ("pi_b", proof.b, 2), ("pi_c", proof.c, 1)]
    for name, point, degree in points:
        q, law = layout.curve.fq.value, affine_group(GROUPS[f"{proof.curve}.g{degree}"])
        if not all(0 <= value < q for value in coordinates_of(point, degree)) or not law.contains(
            point
        ):
            raise InputError(f"{name} is not a point on the curve; the proof is damaged or forged")
        texts = [f'"{word:#066x}"' for word in layout.words(point, degree)]
        if degree == 2 and layout.coordinate == _WORD_BYTES:
            texts = [f"[{', '.join(texts[:2])}]", f"[{', '.join(texts[2:])}]"]
            parts.append(f"[{','.join(texts)}]")
        else:
            parts.append(f"[{', '.join(texts)}]")
    inputs = [_input(layout, i, x) for i, x in enumerate(in_order("the public inputs", public))]
    if inputs:
        parts.append(f"[{','.join(inputs)}]")
    return ",".join(parts)


def _input(layout: _EvmLayout, index: int, value: object) -> str:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,80}", value) else value
    if type(number) is not int or not 0 <= number < layout.curve.fr.value:
        raise InputError(
            f"public input {index} must be an integer from 0 to r - 1, where r is the order of "
            f"{layout.curve.name}; reduce it modulo r"
        )
    return f'"{number:#066x}"'


def _layout_of(curve: str) -> _EvmLayout:
    name = curve_named(curve).name
    if name not in _LAYOUTS:
        raise InputError(
            f"no chain has precompiles for {name}; contracts can verify proofs over "
            f"{' and '.join(_LAYOUTS)}"
        )
    return _LAYOUTS[name]


def _parameters(layout: _EvmLayout, key: VerifyingKey) -> str:
    """Return the parameters of the contract's functions."""
    lists = ["[2]", "[2][2]", "[2]"] if layout.coordinate == _WORD_BYTES else ["[4]", "[8]", "[4]"]
    names = ["a", "b", "c"]
    if key.public:
        lists.append(f"[{key.public}]")
        names.append("inputs")
    return ", ".join(
        f"uint256{array_type} calldata /* {name} */" for array_type, name in zip(lists, names)
    )


def _body(layout: _EvmLayout, key: VerifyingKey) -> Lines:
    """Return code that writes the four pairs and calls the pairing precompile."""
    pairs = [_MEMORY_START + index * layout.pair for index in range(4)]
    proof_bytes = layout.pair + layout.g1
    input_bytes = 4 * layout.pair
    return [
        "// Pair 0 is A and B. Pair 1 is C, which follows them in the call, and -delta.",
        f"calldatacopy({_MEMORY_START:#x}, {_SELECTOR_BYTES:#x}, {proof_bytes:#x})",
        *_stores(pairs[1] + layout.g1, layout.words(layout.negated(key.delta_g2), 2)),
        "// Pair 2 is IC[0] + inputs[0] * IC[1] + ..., and -gamma.",
        *layout.accumulate(layout, pairs[2], _SELECTOR_BYTES + proof_bytes, key.ic),
        *_stores(pairs[2] + layout.g1, layout.words(layout.negated(key.gamma_g2), 2)),
        "// Pair 3 is alpha and -beta.",
        *_stores(pairs[3], layout.words(key.alpha_g1, 1)),
        *_stores(pairs[3] + layout.g1, layout.words(layout.negated(key.beta_g2), 2)),
        _call(layout.pairing, _MEMORY_START, input_bytes, _MEMORY_START, _WORD_BYTES),
    ]


def _stores(address: int, words: Iterable[int]) -> Lines:
    """Return code that stores words from `address` on."""
    return [f"mstore({address + _WORD_BYTES * i:#x}, {word:#x})" for i, word in enumerate(words)]


def _call(precompile: int, start: int, size: int, out: int, out_size: int) -> str:
    """Return code that calls a precompile, with byte addresses and sizes of input and output."""
    arguments = f"{precompile:#04x}, {start:#x}, {size:#x}, {out:#x}, {out_size:#x}"
    return f"ok := and(ok, staticcall(gas(), {arguments}))"


def _all_of(conditions: Sequence[str]) -> str:
    """Return the conjunction of at least one condition."""
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
