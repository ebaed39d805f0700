"""Contracts that verify proofs, compiled and called: valid proofs and nothing else.

Keys are made with secrets that the tests know, so that proofs of any inputs are a few products.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from quod.bench.peers.evm import Job, call
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.errors import InputError, InsecureKeyError
from quod.groth16 import Proof, VerifyingKey, solidity_calldata, solidity_verifier
from tests.groth16.test_verifier import point_outside_the_subgroup
from tests.support.evm import run
from tests.support.selection import runs_all
from tests.support.thorough import one_and_others

pytestmark = pytest.mark.node
VALID = ("0x" + "1".zfill(64), None)
REFUSED = ("0x" + "0" * 64, None)
# The first bytes of keccak256("PublicInputNotInField()") and of keccak256("ProofInvalid()").
NOT_IN_FIELD, INVALID = ("0xa54f8e27", "revert"), ("0x7fcdd1f4", "revert")
# Of a verification of one input, what the precompiles take.
PRECOMPILES = 45_000 + 4 * 34_000 + 6_000 + 150


class Circuit:
    """A key whose secrets are known; input `lost` has infinity for its point."""

    def __init__(self, curve: str, inputs: int, lost: int | None = None) -> None:
        self.r = CURVES[curve].fr.value
        self.curve = curve
        self.g1, self.g2 = (affine_group(GROUPS[f"{curve}.g{i}"]) for i in (1, 2))
        self.alpha, self.beta, self.gamma, self.delta = 3**90, 5**70, 7**60, 11**50
        self.ic = [13**40 + i * 17**31 for i in range(inputs + 1)]
        if lost is not None:
            self.ic[lost] = 0
        self.key = VerifyingKey(
            curve, self.one(self.alpha), self.two(self.beta), self.two(self.gamma),
            self.two(self.delta), [self.one(scalar) for scalar in self.ic],
        )  # fmt: skip

    def one(self, scalar: int) -> Any:
        return self.g1.multiply(scalar % self.r, self.g1.generator)

    def two(self, scalar: int) -> Any:
        return self.g2.multiply(scalar % self.r, self.g2.generator)

    def proof(self, inputs: Sequence[int], a: int = 19**33, b: int = 23**29) -> Proof:
        """A proof with these A and B."""
        public = self.ic[0] + sum(x * ic for x, ic in zip(inputs, self.ic[1:], strict=True))
        c = (a * b - self.alpha * self.beta - public * self.gamma) * pow(self.delta, -1, self.r)
        return Proof(self.curve, self.one(a), self.two(b), self.one(c))

    def words(self, proof: Proof, inputs: Sequence[int]) -> list[int]:
        hex_words = re.findall(r"0x([0-9a-f]{64})", solidity_calldata(proof, inputs))
        return [int(word, 16) for word in hex_words]


def data(words: Sequence[int]) -> str:
    return "".join(f"{word:064x}" for word in words)


def points_changed(circuit: Circuit, proof: Proof) -> dict[str, Proof]:
    """Points that are none of a proof's, by name."""
    wrong2 = point_outside_the_subgroup(circuit.g2)
    minus = {"a": circuit.g1.negate(proof.a), "b": circuit.g2.negate(proof.b),
             "c": circuit.g1.negate(proof.c)}  # fmt: skip
    points = {name: {"a": proof.a, "b": proof.b, "c": proof.c} for name in ("a", "b", "c")}
    changed = {}
    for name in points:
        changed[f"minus {name}"] = points[name] | {name: minus[name]}
        changed[f"no {name}"] = points[name] | {name: None}
    changed["nothing"] = dict.fromkeys("abc")
    changed["only c"] = {"a": None, "b": None, "c": proof.c}
    changed["a is c"] = {"a": proof.c, "b": proof.b, "c": proof.a}
    changed["outside"] = {"a": proof.a, "b": wrong2, "c": proof.c}
    moved = circuit.g2.add(proof.b, wrong2)
    changed["moved outside"] = {"a": proof.a, "b": moved, "c": proof.c}
    if circuit.curve == "bls12_381":
        wrong1 = point_outside_the_subgroup(circuit.g1)
        changed["a outside"] = {"a": circuit.g1.add(proof.a, wrong1), "b": proof.b, "c": proof.c}
        changed["c outside"] = {"a": proof.a, "b": proof.b, "c": circuit.g1.add(proof.c, wrong1)}
    return {name: Proof(circuit.curve, **parts) for name, parts in changed.items()}


def hostile(circuit: Circuit) -> dict[str, str]:
    """Calldata without a selector, by what is wrong with it."""
    inputs = [29**9]
    proof = circuit.proof(inputs)
    right = circuit.words(proof, inputs)
    p, r = CURVES[circuit.curve].fq.value, circuit.r
    calldata = {}
    last = len(right) - 1
    wide = circuit.curve == "bls12_381"
    for place in range(last):
        for name, value in (("a bit", right[place] ^ 1 << place), ("the most", 2**256 - 1)):
            calldata[f"word {place}: {name}"] = data([*right[:place], value, *right[place + 1 :]])
    # The same coordinates, but for a multiple of the prime.
    for place in range(0, last, 2 if wide else 1):
        changed = right.copy()
        if wide:
            coordinate = (right[place] << 256) + right[place + 1] + p
            changed[place], changed[place + 1] = coordinate >> 256, coordinate % 2**256
        else:
            changed[place] += p
        calldata[f"word {place}: the prime more"] = data(changed)
    for name, changed_proof in points_changed(circuit, proof).items():
        calldata[name] = data(circuit.words(changed_proof, inputs))
    other = circuit.proof([5], 31**17, 37**19)
    calldata["a proof of another input"] = data(circuit.words(other, inputs))
    calldata["another input"] = data(circuit.words(proof, [5]))
    calldata["A of another proof"] = data(circuit.words(other, [5])[:2] + right[2:])
    for name, value in (("0", 0), ("1 more", inputs[0] + 1), ("negated", r - inputs[0])):
        calldata[f"input {name}"] = data([*right[:-1], value])
    for cut in (1, 31, 32, 64, 32 * last, 32 * last + 31):
        calldata[f"{cut} bytes fewer"] = data(right)[: -2 * cut]
    for extra in (1, 31, 32, 320):
        calldata[f"{extra} bytes more"] = data(right) + "00" * extra
    calldata["twice"] = 2 * data(right)
    return calldata


def aliased(circuit: Circuit) -> dict[str, str]:
    """Inputs that stand for the right one, modulo r."""
    inputs = [29**9]
    right = circuit.words(circuit.proof(inputs), inputs)
    return {
        f"{times} r more": data([*right[:-1], inputs[0] + times * circuit.r])
        for times in range(1, (2**256 - 1) // circuit.r)
    } | {"r": data([*right[:-1], circuit.r]), "the most": data([*right[:-1], 2**256 - 1])}


@pytest.fixture(scope="module")
def circuits() -> dict[str, Circuit]:
    return {
        "bn254": Circuit("bn254", 1), "bls12_381": Circuit("bls12_381", 1),
        "bn254 none": Circuit("bn254", 0), "bls12_381 none": Circuit("bls12_381", 0),
        "bn254 many": Circuit("bn254", 5, lost=2), "bls12_381 many": Circuit("bls12_381", 5, 2),
        "bn254 no start": Circuit("bn254", 2, lost=0),
        "bls12_381 no start": Circuit("bls12_381", 2, lost=0),
    }  # fmt: skip


@pytest.fixture(scope="module")
def ran(
    circuits: dict[str, Circuit], pytestconfig: pytest.Config
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return the outcome of each contract and of its calls by name; one process runs them all."""
    jobs: dict[str, tuple[Job, list[str]]] = {}
    for name, circuit in circuits.items():
        inputs = [29**9 + 31 * i for i in range(circuit.key.public)]
        right = data(circuit.words(circuit.proof(inputs), inputs))
        calls = {"valid": call("verifyProof", right), "required": call("requireValidProof", right)}
        if inputs:
            wrong = data(circuit.words(circuit.proof(inputs), [*inputs[:-1], 1]))
            calls["invalid"] = call("verifyProof", wrong)
            calls["refused"] = call("requireValidProof", wrong)
        if len(inputs) == 1:
            calls |= {f"hostile {k}": call("verifyProof", v) for k, v in hostile(circuit).items()}
            calls |= {
                f"required {k}": call("requireValidProof", v)
                for k, v in hostile(circuit).items()
                if "word" not in k
            }
            calls |= {f"aliased {k}": call("verifyProof", v) for k, v in aliased(circuit).items()}
            calls |= {
                f"alias refused {k}": call("requireValidProof", v)
                for k, v in aliased(circuit).items()
            }
            calls |= {
                f"gas {gas}": call("verifyProof", right, gas) for gas in range(0, 188_000, 18_000)
            }
            calls["empty"] = call("", "")
            calls["no function"] = call("", "01020304" + right)
            calls["no arguments"] = call("verifyProof", "")
        text = solidity_verifier(circuit.key)
        for how in ("optimized", "plain", "by IR"):
            # The same code but for its arguments, whose decoding is the compiler's.
            few = ("valid", "required", "invalid", "refused", "empty")
            selected = {
                k: v for k, v in calls.items() if how == "optimized" or k in few or "alias" in k
            }
            job = Job(
                source=text, contract="Groth16Verifier", optimizer=how != "plain",
                hardfork="prague", calls=list(selected.values()), via_ir=how == "by IR",
            )  # fmt: skip
            if f"{name} {how}" in compiled(pytestconfig):
                jobs[f"{name} {how}"] = job, list(selected)
    bls_circuit = circuits["bls12_381"]
    old = Job(
        source=solidity_verifier(bls_circuit.key, name="__"), contract="__", optimizer=True,
        hardfork="cancun",
        calls=[call("verifyProof", data(circuit_words(bls_circuit))),
               call("requireValidProof", data(circuit_words(bls_circuit)))],
    )  # fmt: skip
    jobs["bls12_381 without precompiles"] = old, ["valid", "required"]
    results = run([job for job, _ in jobs.values()])
    return {
        name: (outcome, dict(zip(names, outcome["calls"], strict=True)))
        for (name, (_, names)), outcome in zip(jobs.items(), results, strict=True)
    }


def circuit_words(circuit: Circuit) -> list[int]:
    return circuit.words(circuit.proof([29**9]), [29**9])


def answer(outcome: dict[str, Any]) -> tuple[str, str | None]:
    return outcome["returned"], outcome["error"]


CONTRACTS = [f"{curve} {how}" for curve in ("bn254", "bls12_381")
             for how in ("optimized", "plain", "by IR")]  # fmt: skip
OTHERS = [f"{curve} {kind} optimized" for curve in ("bn254", "bls12_381")
          for kind in ("none", "many", "no start")]  # fmt: skip
ALWAYS = [*CONTRACTS[::3], OTHERS[1]]
"""Those of the optimizer: one of each curve, and one curve's of many inputs."""


def compiled(config: pytest.Config) -> list[str]:
    """The contracts that this run compiles."""
    every = runs_all() or "thorough" in config.option.markexpr
    return CONTRACTS + OTHERS if every else ALWAYS


Ran = dict[str, tuple[dict[str, Any], dict[str, Any]]]


@pytest.mark.parametrize("name", one_and_others(CONTRACTS + OTHERS, ALWAYS))
def test_valid_proofs(name: str, ran: Ran, circuits: dict[str, Circuit]) -> None:
    contract, calls = ran[name]
    assert contract["warnings"] == []
    assert answer(calls["valid"]) == VALID
    assert answer(calls["required"]) == ("0x", None)
    if "invalid" in calls:
        assert answer(calls["invalid"]) == REFUSED
        assert answer(calls["refused"]) == INVALID
    circuit = circuits[re.sub(" (optimized|plain|by IR)$", "", name)]
    inputs = [29**9 + 31 * i for i in range(circuit.key.public)]
    assert circuit.key.verify(inputs, circuit.proof(inputs))


@pytest.mark.parametrize("name", CONTRACTS[::3])
def test_hostile_calls(name: str, ran: Ran) -> None:
    _, calls = ran[name]
    tried = [call_name for call_name in calls if call_name.startswith("hostile ")]
    assert len(tried) > 40
    for call_name in tried:
        # A call that is too short for the arguments reverts before the contract sees it.
        expected = ("0x", "revert") if "bytes fewer" in call_name else REFUSED
        assert answer(calls[call_name]) == expected, call_name
        if "word" not in call_name:
            required = answer(calls[call_name.replace("hostile", "required")])
            assert required == (("0x", "revert") if "bytes fewer" in call_name else INVALID), (
                call_name
            )
    for call_name in ("empty", "no function", "no arguments"):
        assert answer(calls[call_name]) == ("0x", "revert")


@pytest.mark.parametrize("name", one_and_others(CONTRACTS, CONTRACTS[::3]))
def test_aliased_inputs(name: str, ran: Ran) -> None:
    _, calls = ran[name]
    tried = [call_name for call_name in calls if call_name.startswith("aliased ")]
    assert len(tried) >= 3
    for call_name in tried:
        assert answer(calls[call_name]) == REFUSED, call_name
        assert answer(calls[call_name.replace("aliased", "alias refused")]) == NOT_IN_FIELD, (
            call_name
        )
        # Before anything is computed.
        assert calls[call_name]["gas"] < 1000


@pytest.mark.parametrize("name", CONTRACTS[::3])
def test_insufficient_gas_rejects_the_proof(name: str, ran: Ran) -> None:
    _, calls = ran[name]
    tried = [calls[gas_call] for gas_call in calls if gas_call.startswith("gas ")]
    assert len(tried) > 9
    enough = calls["valid"]["gas"]
    for place, gas_call in enumerate(tried):
        assert (answer(gas_call) == VALID) == (18_000 * place >= enough)


def test_missing_precompiles_reject_every_proof(ran: Ran) -> None:
    _, calls = ran["bls12_381 without precompiles"]
    assert answer(calls["valid"]) == REFUSED
    assert answer(calls["required"]) == INVALID


@pytest.mark.parametrize("how", one_and_others(["optimized", "plain", "by IR"]))
def test_gas(ran: Ran, how: str) -> None:
    """No more than snarkjs's contract for one input takes: 196,422 where precompiles are cold."""
    cold = 3 * 2_500
    gas = ran[f"bn254 {how}"][1]["valid"]["gas"]
    assert PRECOMPILES < gas <= 196_422 - cold
    assert gas <= 190_500


def test_keys_without_a_ceremony_are_refused() -> None:
    circuit = Circuit("bn254", 1)
    circuit.delta = circuit.gamma
    with pytest.raises(InsecureKeyError):
        VerifyingKey(
            "bn254", circuit.one(3), circuit.two(5), circuit.two(7), circuit.two(7), circuit.key.ic
        )
    weak = VerifyingKey(
        "bn254", circuit.one(3), circuit.two(5), circuit.two(7), circuit.two(7), circuit.key.ic,
        allow_insecure=True,
    )  # fmt: skip
    # Opened for tests, it still gives no contract unless that is said again.
    with pytest.raises(InsecureKeyError, match="no contribution to phase 2"):
        solidity_verifier(weak)
    assert "INSECURE: anyone can forge" in solidity_verifier(weak, allow_insecure=True)
    assert "INSECURE" not in solidity_verifier(circuit.key)


def test_unsupported_keys_are_rejected() -> None:
    other = Circuit("bls12_377", 1)
    with pytest.raises(InputError, match="no chain has precompiles for bls12_377"):
        solidity_verifier(other.key)
    with pytest.raises(InputError, match="no chain has precompiles"):
        solidity_calldata(other.proof([1]), [1])
    circuit = Circuit("bn254", 1)
    for name in ("", "1a", "a b", "a;", "ä", "a" * 101):
        with pytest.raises(InputError, match="a contract's name"):
            solidity_verifier(circuit.key, name=name)
    for name in (
        "_",
        "contract",
        "this",
        "uint256",
        "int",
        "bytes7",
        "fixed8x8",
        "ok",
        "verifyProof",
    ):
        with pytest.raises(InputError, match=f"a contract cannot have the name {name}, which"):
            solidity_verifier(circuit.key, name=name)
    for name in ("Contract", "require", "uint256_", "VALID", "$", "__", "_a"):
        assert f"contract {name} {{" in solidity_verifier(circuit.key, name=name)
    many = VerifyingKey(
        "bn254", circuit.key.alpha_g1, circuit.key.beta_g2, circuit.key.gamma_g2,
        circuit.key.delta_g2, circuit.key.ic * 65,
    )  # fmt: skip
    with pytest.raises(InputError, match="128 public inputs at most"):
        solidity_verifier(many)


def test_calldata_of_invalid_proofs_is_rejected() -> None:
    circuit = Circuit("bn254", 1)
    proof = circuit.proof([7])
    for wrong in (-1, circuit.r, "x", "01x", 1.0, True, None):
        with pytest.raises(InputError, match="public input 0"):
            solidity_calldata(proof, [wrong])  # type: ignore[list-item]
    assert solidity_calldata(proof, ["7"]) == solidity_calldata(proof, [7])
    x, y = proof.a  # type: ignore[misc]
    for point in ((x, y + 1), (x + CURVES["bn254"].fq.value, y)):
        with pytest.raises(InputError, match="pi_a"):
            solidity_calldata(Proof("bn254", point, proof.b, proof.c), [7])
