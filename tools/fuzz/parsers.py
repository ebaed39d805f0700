"""All parsers of external bytes in Quod, each with well-formed inputs."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np

from quod import zcash
from quod.ceremony.powers.contribution import contributions_data, read_contributions
from quod.codegen.pointers import PointerUses
from quod.codegen.ptx.interpreter.parse import parse as parse_ptx
from quod.codegen.wgsl.module import Binding, Field, WgslModule
from quod.commitment import Scheme
from quod.commitment.scheme_names import scheme_with_powers
from quod.curve.edwards.encoding import encode_edwards
from quod.curve.encoding import points as encoding
from quod.curve.named import CURVES
from quod.curve.named.jubjub import JUBJUB
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compiled_code import CompiledCode, KernelFacts
from quod.device.cache.prebuilt import Entry
from quod.device.webgpu.compiler import KernelText
from quod.errors import QuodError
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.formats import (
    BellmanParameters,
    BellmanVerifyingKey,
    Gguf,
    PowersOfTau,
    R1cs,
    Witness,
    Zkey,
    parse_proof,
    parse_proofs,
    parse_public,
    parse_publics,
    parse_verification_key,
    write_bellman_parameters,
)
from quod.formats.circuit6.file import Circuit6
from quod.formats.circuit6.witness import Circuit6Witness
from quod.formats.curves import field_named
from quod.formats.iden3 import Iden3File
from quod.formats.inspect import describe_bytes
from quod.formats.source import FileView
from quod.formats.wtns import WitnessHeader
from quod.gkr import VerifyingKey
from quod.gkr.files.describe import describe_file
from quod.gkr.files.inputs import parse_inputs, parse_public_inputs
from quod.gkr.files.key import parse_verifying_key, verifying_key_to_json
from quod.gkr.files.proof import parse_proof as parse_gkr_proof
from quod.gkr.files.proof import proof_writer
from quod.groth16 import ProvingKey
from quod.groth16.encodings import arkworks
from quod.groth16.encodings.bellman import proof_from_bytes, proof_to_bytes, proofs_from_bytes
from quod.groth16.phase2.key_contribution import Ceremony
from quod.inference import Plan, Report
from quod.inference import VerifyingKey as InferenceKey
from quod.inference.files.describe import describe_file as describe_inference
from quod.inference.files.key import key_writer as inference_key_writer
from quod.inference.files.key import parse_verifying_key as parse_inference_key
from quod.inference.files.proof import parse_proof as parse_inference_proof
from quod.inference.files.proof import proof_writer as inference_proof_writer
from quod.inference.transformer.model import read_model
from quod.inference.transformer.plan import make_plan, parse_plan
from quod.inference.transformer.program import build
from quod.inference.transformer.proof import Statement as TokenStatement
from quod.inference.transformer.proof.files.answer import answer_writer, parse_answer
from quod.inference.transformer.proof.files.describe import describe_file as describe_answer
from quod.inference.transformer.proof.files.key import key_writer as model_key_writer
from quod.inference.transformer.proof.files.key import parse_key as parse_model_key
from quod.inference.transformer.proof.files.tokens import parse_tokens, tokens_to_json
from quod.inference.transformer.proof.key import key_of as key_of_program
from quod.inference.transformer.scales import LayerScales, Scales
from quod.inference.transformer.tokenizer import Tokenizer
from quod.kernel.ir.parse import parse as parse_ir
from quod.kernel.ir.types import u32
from quod.kernel.verifier.verify import verify
from quod.layered import CircuitBuilder, LayeredCircuit, Public, from_circuit6
from quod.layered import Random as Challenge
from quod.layered.file import circuit_writer, parse_circuit
from quod.lookup import Range, Statement, prove_committed, verify_committed
from quod.web.signals import parse_example, parse_symbols
from quod.web.witness_wasm import parse_calculator
from quod.zcash.files.descriptions import read_descriptions
from quod.zcash.files.transaction import read_transaction
from tests.formats import expander
from tests.formats.gguf_files import DATA, PAIRS, TENSORS, gguf_file
from tests.formats.tiny import replaced
from tests.groth16.bellman_key import parameters
from tests.groth16.circuits import recurrence
from tests.inference.transformer.models import write_gpt2, write_llama
from tests.zcash.files.test_bundles import MASP_DOCUMENT, SAPLING_DOCUMENT, SIGNED
from tools.fuzz.mutations import Mutation, of_bytes, of_container, of_json, of_text
from tools.fuzz.openings import SCHEMES, opening

TESTS = Path(__file__).resolve().parent.parent.parent / "tests"
FORMATS = TESTS / "data" / "formats"
EXAMPLE = TESTS.parent / "examples" / "membership"

CURVES_OF_SEEDS = [name for name in CURVES if (FORMATS / name).is_dir()]


@dataclass(frozen=True)
class Parser:
    """A parser, its valid inputs, their mutations, and the errors that it may raise."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    mutation: Mutation
    refusals: tuple[type[Exception], ...] = (QuodError,)


def _zkey(data: bytes) -> None:
    Zkey.of(Iden3File.parse(memoryview(data), "zkey", "zkey", 1)).check_points()


def _key_contributions(data: bytes) -> None:
    file = Iden3File.parse(memoryview(data), "zkey", "zkey", 1)
    curve = CURVES[Zkey.of(file).curve]
    ceremony = Ceremony.read(file, curve)
    assert len(ceremony.data()) <= file.sections[10].length


def _wtns(data: bytes) -> None:
    Witness.of(Iden3File.parse(memoryview(data), "wtns", "wtns", 2))


def _r1cs(data: bytes) -> None:
    system = R1cs.of(Iden3File.parse(memoryview(data), "r1cs", "r1cs", 1))
    assert len(system.wire_labels) in (0, system.wires)
    assert all(matrix.rows == system.constraints for matrix in system.matrices)


def _ptau(data: bytes) -> None:
    PowersOfTau.of(Iden3File.parse(memoryview(data), "ptau", "ptau", 1))


def _contributions(data: bytes) -> None:
    file = PowersOfTau.of(Iden3File.parse(memoryview(data), "ptau", "ptau", 1))
    curve, contributions = file.curve_parameters, read_contributions(file)
    assert contributions_data(curve, contributions) == bytes(file.contributions_section().rest())


def _gguf(data: bytes) -> None:
    model = Gguf.parse(memoryview(data), "model")
    for tensor in model.tensors.values():
        if tensor.type.is_known:
            assert tensor.array().nbytes == len(tensor.data)
    describe_bytes(memoryview(data), "model")


def _language_model(data: bytes) -> None:
    file = Gguf.parse(memoryview(data), "model")
    read_model(file)
    Tokenizer(file).encode("the 12 an")


def _language_models() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path, kinds = Path(folder) / "model", ("Q4_1", "F16", "Q5_0", "F32")
        write_llama(path, width=32, hidden=32, heads=2, kv_heads=1, kinds=kinds)
        llama = path.read_bytes()
        write_gpt2(path)
        return [llama, path.read_bytes()]


def _plan_of_language_model() -> bytes:
    scales = Scales(10, 8, (LayerScales(*range(3, 13)),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        Plan(bytes(32), scales, 700, Report(9, 1e-5, 0.5, 20.5, 20.25, 0.0)).write(path)
        return path.read_bytes()


def _view(data: bytes) -> None:
    """Check the start of a file as the readers of large files do."""
    view = FileView("file", BytesIO(data), len(data))
    header = WitnessHeader.of(Iden3File.parse(view, "wtns", "wtns", 2))
    assert len(header) * field_named(header.curve).bytes < len(data)


def _old_form(document: bytes) -> bytes:
    """Convert a key or a proof to the format of the first versions of snarkjs."""
    old = json.loads(document) | {"protocol": "groth"}
    del old["curve"]
    for name, spelt in (("vk_alpha_1", "vk_alfa_1"), ("vk_alphabeta_12", "vk_alfabeta_12")):
        if name in old:
            old[spelt] = old.pop(name)
    return json.dumps(old).encode()


def _public(data: bytes) -> None:
    # The larger of the two primes.
    parse_public(data, curve="bls12_381")


def _ir(data: bytes) -> None:
    verify(parse_ir(data.decode("utf-8", "replace")))


def _ptx(data: bytes) -> None:
    parse_ptx(data.decode("utf-8", "replace"))


def _inspect(data: bytes) -> None:
    describe_bytes(memoryview(data), "file")


_MAX_GATES = 1 << 16
"""Limit for circuits whose segments are taken apart: a small file may ask for any number."""


def _expander(data: bytes) -> None:
    circuit = Circuit6.parse(memoryview(data), "circuit")
    circuit.gates()
    if circuit.field.modulus is not None:
        from_circuit6(circuit, max_gates=_MAX_GATES)


def _described(data: bytes) -> None:
    describe_file(memoryview(data), "file")


def _layered(prime: str) -> LayeredCircuit:
    """Build a circuit with all kinds of gates and coefficients."""
    builder = CircuitBuilder(NAMED[prime], 2, public=2)
    coefficients: tuple[int | Public | Challenge, ...] = (
        1, 2**31 - 2, Public(0), Public(1), Challenge(7),
    )  # fmt: skip
    for log_size, below in ((9, 2), (1, 9)):
        layer = builder.layer(log_size)
        for number, coefficient in enumerate(coefficients):
            x = (1 << below) - 1 - number % 2
            layer.constant(number % 2, coefficient)
            layer.multiply(1, x, 0, coefficient)
            layer.power(0, x, 1 + number, coefficient)
    return builder.finished(zeros=1)


def _written(write: Callable[[BinaryIO], None]) -> bytes:
    file = BytesIO()
    write(file)
    return file.getvalue()


def _gkr_parsers() -> dict[str, Parser]:
    """Return the parsers of layered circuits and of their keys, inputs and proofs."""
    circuits = [expander.SMALL_CIRCUIT] + [
        expander.circuit_bytes(prime, expander.EVERYTHING, [1, 2], public=2, outputs=2)
        for prime in expander.ELEMENT_BYTES
    ]
    witnesses = [expander.SMALL_WITNESS]
    witnesses += [
        expander.witness_bytes(prime, [[0, prime - 1]] * 2, [[1]] * 2)
        for prime in expander.ELEMENT_BYTES
    ]
    layered = _layered("m31")
    files = [_written(circuit_writer(circuit)) for circuit in (layered, _layered("bn254.fr"))]
    key = VerifyingKey.of(layered, EXTENSIONS["m31.4"])
    keys = [verifying_key_to_json(key, layered)]
    points = scheme_with_powers(FORMATS / "bn254" / "powers.ptau")
    field = _layered("bn254.fr")
    bn254_key = VerifyingKey.of(field, field.field, commitment=points)
    keys.append(verifying_key_to_json(bn254_key, field))
    proofs = [_written(proof_writer(key, 3, bytes(range(64))))]
    inputs = [b'{"inputs": [["1", 2, 3, 4], [5, 6, 7, 8]], "public": [["0", "1"], [2, 3]]}']
    public = [b'[["0", "1"], [2, 3]]']
    return {
        "circuit6": Parser(_expander, circuits, of_bytes),
        "circuit6-witness": Parser(
            lambda data: Circuit6Witness.parse(memoryview(data), "w"), witnesses, of_bytes
        ),
        "layered": Parser(lambda data: parse_circuit(data, "circuit"), files, of_container),
        "gkr-key": Parser(lambda data: parse_verifying_key(data, "key"), keys, of_json),
        "gkr-proof": Parser(
            lambda data: parse_gkr_proof(memoryview(data), "proof"), proofs, of_container
        ),
        "gkr-inputs": Parser(lambda data: parse_inputs(data, "w", layered), inputs, of_json),
        "gkr-public": Parser(lambda data: parse_public_inputs(data, "p", layered), public, of_json),
        "gkr-inspect": Parser(_described, [*circuits, *witnesses], of_bytes),
        "gkr-inspect-file": Parser(_described, [*files, *proofs], of_container),
        "gkr-inspect-json": Parser(_described, [*keys, *inputs], of_json),
    }


def _opening_parser(scheme: Scheme, field: FieldSpec) -> Parser:
    encoded, read = opening(scheme, field)
    return Parser(read, [encoded], of_bytes)


def _formats(name: str) -> list[bytes]:
    return [(FORMATS / curve / name).read_bytes() for curve in CURVES_OF_SEEDS]


def _powers_of_tau() -> bytes:
    prime = CURVES["bn254"].fq.value.to_bytes(32, "little")
    header = struct.pack("<I", 32) + prime + struct.pack("<II", 12, 28)
    sections = [struct.pack("<IQ", 1, len(header)) + header, struct.pack("<IQ", 12, 0)]
    return b"ptau" + struct.pack("<II", 1, len(sections)) + b"".join(sections)


def _calculator() -> bytes:
    """A module with what circom's exports: three imports, eight functions, one of them constant."""

    def section(number: int, items: Sequence[bytes]) -> bytes:
        body = bytes([len(items)]) + b"".join(items)
        return bytes([number, len(body)]) + body

    def name(text: str) -> bytes:
        return bytes([len(text)]) + text.encode()

    names = (
        "init", "getWitness", "setInputSignal", "getInputSignalSize", "readSharedRWMemory",
        "getWitnessSize", "getVersion",
    )  # fmt: skip
    imports = [name("runtime") + name(text) + b"\0\0" for text in ("error", "log", "print")]
    exports = [name(text) + bytes([0, 3 + number]) for number, text in enumerate(names)]
    bodies = [b"\4\0\x41\5\x0b" for _ in names]
    return b"\0asm\1\0\0\0" + b"".join(
        (
            section(1, [b"\x60\0\1\x7f"]),
            section(2, imports),
            section(3, [b"\0"] * len(names)),
            section(7, exports),
            section(10, bodies),
        )
    )


def _points() -> list[tuple[Callable[[bytes], object], list[bytes]]]:
    """Return the point decoders with encodings of the generator and of infinity."""

    decoders: list[tuple[Callable[[bytes], object], list[bytes]]] = []

    def add(form: str, degree: int, curve: str, *first: object, **options: object) -> None:
        parameters = CURVES[curve]
        generator = parameters.g1.generator if degree == 1 else parameters.g2.generator
        encode = getattr(encoding, f"encode_{form}_g{degree}")
        decode = getattr(encoding, f"decode_{form}_g{degree}")
        seeds = [encode(*first, point, **options) for point in (generator, None)]
        decoders.append((partial(decode, *first, **options), seeds))

    for degree in (1, 2):
        add("eip2537", degree, "bls12_381")
        for compressed in (True, False):
            add("zcash", degree, "bls12_381", compressed=compressed)
            # What arkworks writes of bls12_381 is the Zcash form.
            for curve in (name for name in CURVES if name != "bls12_381"):
                add("arkworks", degree, curve, CURVES[curve], compressed=compressed)
    add("eip196", 1, "bn254")
    add("eip197", 2, "bn254")
    return decoders


def _point_parser() -> Parser:
    """Combine the decoders into one; the first byte of an input selects the decoder."""
    decoders = _points()

    def read(data: bytes) -> object:
        decode, _ = decoders[data[0] % len(decoders)] if data else decoders[0]
        return decode(data[1:])

    def mutation(random: Random, data: bytes) -> bytes:
        return data[:1] + of_bytes(random, data[1:])

    seeds = [
        bytes([number]) + seed
        for number, (_, encodings) in enumerate(decoders)
        for seed in encodings
    ]
    return Parser(read, seeds, mutation)


def _compiled() -> bytes:
    facts = KernelFacts(PointerUses((0, 2), ()), 64, "saxpy")
    return CompiledCode(facts, b"\x7fELF code").pack()


def _prebuilt() -> Parser:
    """Return an entry of the manifest of prebuilt kernels."""
    facts = KernelFacts(PointerUses((0, 2), ()), 64, "saxpy", 0, "0" * 64)
    entry = Entry.of("examples.saxpy", 128, None, facts, b"\x7fELF code").document()
    return Parser(
        lambda data: Entry.parse(json.loads(data)), [json.dumps(entry).encode()], of_json,
        (ValueError, RecursionError),
    )  # fmt: skip


def _cached() -> Parser:
    """An entry of the cache as others may have left it: it is the one that was put, or none."""
    folder = Path(_folder.name)
    cache, key, content = CompileCache(folder), key_of("fuzz"), _compiled()
    cache.put(key, content)
    entry = folder / key[0] / key

    def read(data: bytes) -> None:
        # Processes share it; whatever they do meanwhile leaves the same two answers.
        entry.write_bytes(data)
        if cache.get(key) not in (None, content):
            raise AssertionError("an entry that nobody has put was taken")

    return Parser(read, [entry.read_bytes()], of_bytes, ())


_folder = TemporaryDirectory(prefix="quod-fuzz-")


def _shader() -> bytes:
    module = WgslModule(
        "@compute fn main() {}", "main", 64, (Binding(0), Binding(1, True)), 2, 4,
        (Field("value", 0, 0, u32),), "tint", (),
    )  # fmt: skip
    return KernelText(PointerUses((1,), ()), module).pack()


def _inference_parsers() -> dict[str, Parser]:
    """Return the parsers of keys and proofs of inferences."""
    key = InferenceKey((3, 2, 2), 8, ((-5, 7), (0, 0)), ((9, 1 << 20),), bytes(32), b"proof")
    written = _written(inference_key_writer(key))
    proof = _written(inference_proof_writer(key, np.array([[1, -2], [3, 4]]), b"proof"))
    return {
        "inference-key": Parser(
            lambda data: parse_inference_key(memoryview(data), "key"), [written], of_container
        ),
        "inference-proof": Parser(
            lambda data: parse_inference_proof(memoryview(data), "proof"), [proof], of_container
        ),
        "inference-inspect": Parser(
            lambda data: describe_inference(memoryview(data), "file"), [written, proof],
            of_container,
        ),
    }  # fmt: skip


def _answer_parsers() -> dict[str, Parser]:
    """Return the parsers of keys of language models, of answers and of tokens."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        write_llama(path, width=32, hidden=32, heads=2, kv_heads=1, kinds=("Q4_1",), family="qwen2")
        file = Gguf.open(path)
        model = read_model(file)
        plan = make_plan(file, model, [np.arange(40)])
        roots = {"tokens": bytes(32), "layers": bytes(32)}
        key = key_of_program(build(model, plan.scales), plan.digest, roots)
    written, statement = _written(model_key_writer(key)), TokenStatement((5, 9, 77), 1)
    answer = _written(answer_writer(key, statement, b"proof"))
    return {
        "model-key": Parser(
            lambda data: parse_model_key(memoryview(data), "key"), [written], of_container
        ),
        "answer": Parser(lambda data: parse_answer(memoryview(data), "a"), [answer], of_container),
        "answer-tokens": Parser(
            lambda data: parse_tokens(data, "tokens"), [tokens_to_json(statement)], of_json
        ),
        "answer-inspect": Parser(
            lambda data: describe_answer(memoryview(data), "file"), [written, answer], of_container
        ),
    }  # fmt: skip


def _lookup_parser() -> Parser:
    """Return the verifier of lookups whose columns are in the proof."""
    field = EXTENSIONS["m31.4"]
    statement = Statement(field, 3, 1, Range(2))
    columns = [from_integers(field.modulus, numbers) for numbers in ([0, 3], [1, 1], [2, 0])]
    proof = prove_committed("cpu", field, columns, Range(2))
    return Parser(lambda data: verify_committed(statement, data), [proof], of_bytes)


def _list_of(documents: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(documents) + b"]"


def _bellman_parsers() -> dict[str, Parser]:
    """Return the parsers of bellman's and arkworks's keys and proofs, for a small circuit."""
    circuit = recurrence("bls12_381", 2)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "circuit.params"
        write_bellman_parameters(path, parameters(circuit))
        params = path.read_bytes()
        constraints = circuit.write_r1cs(Path(folder) / "circuit.r1cs")
        witness = circuit.write_wtns(Path(folder) / "witness.wtns")
        key = ProvingKey.from_bellman(path, constraints, allow_insecure=True)
        proof, _ = key.prove(witness, seed=1)
        verifying = key.verifying_key
        key.close()
    transcript = bytes(64) + (1).to_bytes(4, "big") + bytes(544)
    forms = [proof_to_bytes(proof), proof_to_bytes(proof, compressed=False)]
    return {
        "bellman-params": Parser(
            lambda data: BellmanParameters.parse(memoryview(data), "params"),
            [params, params + transcript], of_bytes,
        ),
        "bellman-key": Parser(
            lambda data: BellmanVerifyingKey.parse(memoryview(data), "key"), [params], of_bytes
        ),
        "bellman-proof": Parser(proof_from_bytes, forms, of_bytes),
        "arkworks-proof": Parser(
            lambda data: arkworks.proof_from_bytes(data, "bls12_381"), forms, of_bytes
        ),
        "arkworks-key": Parser(
            lambda data: arkworks.verifying_key_from_bytes(data, "bls12_381"),
            [arkworks.verifying_key_to_bytes(verifying)], of_bytes,
        ),
        "bellman-proofs": Parser(proofs_from_bytes, [forms[0] * 3], of_bytes),
    }  # fmt: skip


def _zcash_parsers() -> dict[str, Parser]:
    """Return the parsers of trees, signatures and extended keys of Sapling."""
    tree, small = zcash.CommitmentTree(depth=4), zcash.CommitmentTree(depth=2)
    tree.extend(range(2, 13))
    small.extend([2, 3, 4], [0])
    scheme = zcash.spend_auth_scheme()
    key = zcash.ExtendedSpendingKey.master(bytes(32))
    verification_key = key.key.proof_generation_key.ak
    signature = encode_edwards(JUBJUB, verification_key) + scheme.sign(key.key.ask, b"message")

    def verify_signature(data: bytes) -> None:
        scheme.verify(data[:32], b"message", data[32:])

    document = Path(_folder.name) / "document.json"

    def of_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
        def read_document(data: bytes) -> object:
            document.write_bytes(data)
            return read(document)

        return read_document

    transactions = [SAPLING_DOCUMENT, MASP_DOCUMENT]
    return {
        "zcash-transaction": Parser(
            of_file(read_transaction), [json.dumps(each).encode() for each in transactions], of_json
        ),
        "zcash-bundle": Parser(of_file(read_descriptions), [json.dumps(SIGNED).encode()], of_json),
        "zcash-tree": Parser(
            lambda data: zcash.CommitmentTree.from_bytes(data, depth=4), [tree.to_bytes()], of_bytes
        ),
        "zcash-witness": Parser(small.mark_witness, [small.witness_to_bytes(0)], of_bytes),
        "zcash-signature": Parser(verify_signature, [signature], of_bytes),
        "zcash-spending-key": Parser(
            zcash.ExtendedSpendingKey.from_bytes, [key.to_bytes()], of_bytes
        ),
        "zcash-full-viewing-key": Parser(
            zcash.ExtendedFullViewingKey.from_bytes, [key.full_viewing_key.to_bytes()], of_bytes
        ),
    }


def all_parsers() -> dict[str, Parser]:
    """Return every parser by name."""
    golden = sorted((TESTS / "kernel" / "golden").glob("*.ir"))
    ptx = sorted((TESTS / "codegen" / "golden").glob("*.ptx"))
    proofs, publics, keys = map(_formats, ("proof.json", "public.json", "verification_key.json"))
    zkeys, witnesses, systems = map(_formats, ("circuit.zkey", "witness.wtns", "circuit.r1cs"))
    other = (FORMATS / "bn254" / "plonk.zkey").read_bytes()
    symbols = (EXAMPLE / "circuit.sym").read_bytes().splitlines(keepends=True)
    few = b"".join(symbols[:20] + symbols[-5:])
    unconstrained = (FORMATS / "unconstrained.r1cs").read_bytes()
    primes = sorted((FORMATS / "primes").glob("*.*"))
    witnesses += [path.read_bytes() for path in primes if path.suffix == ".wtns"]
    systems += [path.read_bytes() for path in primes if path.suffix == ".r1cs"]
    systems += [replaced(systems[0], {3: None}), replaced(systems[0], {3: b""})]
    models = [gguf_file(PAIRS, TENSORS, DATA, alignment=64, version=version) for version in (2, 3)]
    models.append(gguf_file([], [(b"new", (48, 2), 40, 0), (b"old", (4,), 0, 96)], bytes(128)))
    proofs += [_old_form(proofs[0])]
    keys += [_old_form(key) for key in keys[:1]]
    return {
        "zkey": Parser(_zkey, zkeys, of_container),
        "zkey-contributions": Parser(_key_contributions, zkeys, of_container),
        "wtns": Parser(_wtns, witnesses, of_container),
        "wtns-header": Parser(_view, witnesses, of_container),
        "r1cs": Parser(_r1cs, [*systems, unconstrained], of_container),
        "ptau": Parser(_ptau, _formats("powers.ptau"), of_container),
        "contributions": Parser(
            _contributions,
            [path.read_bytes() for path in sorted((TESTS / "data" / "ceremony").glob("*.ptau"))],
            of_container,
        ),
        "gguf": Parser(_gguf, models, of_bytes),
        "language-model": Parser(_language_model, _language_models(), of_bytes),
        "language-model-plan": Parser(
            lambda data: parse_plan(data, "plan"), [_plan_of_language_model()], of_json
        ),
        "inspect": Parser(
            _inspect, [*zkeys, *witnesses, *systems, other, _powers_of_tau()], of_container
        ),
        "inspect-json": Parser(_inspect, [*proofs, *publics, *keys], of_json),
        "proof": Parser(
            lambda data: parse_proof(data, curve="bn254"), [proofs[0], proofs[-1]], of_json
        ),
        "public": Parser(_public, publics, of_json),
        "verification-key": Parser(parse_verification_key, keys, of_json),
        "input": Parser(parse_example, [(EXAMPLE / "input.json").read_bytes()], of_json),
        "sym": Parser(lambda data: parse_symbols(data, 3), [few], of_text),
        "wasm": Parser(parse_calculator, [_calculator()], of_bytes),
        "ir": Parser(_ir, [path.read_bytes() for path in golden], of_text),
        "ptx": Parser(_ptx, [path.read_bytes() for path in ptx], of_text),
        "point": _point_parser(),
        "compiled": Parser(
            CompiledCode.unpack,
            [_compiled()],
            of_bytes,
            (ValueError, KeyError, struct.error),
        ),
        "cached": _cached(),
        "prebuilt": _prebuilt(),
        "shader": Parser(KernelText.unpack, [_shader()], of_json, (ValueError,)),
        "lookup": _lookup_parser(),
        "proofs": Parser(
            lambda data: parse_proofs(data, curve="bn254"), [_list_of(proofs[:1] * 3)], of_json
        ),
        "publics": Parser(
            lambda data: parse_publics(data, curve="bn254"), [_list_of(publics * 2)], of_json
        ),
        **_bellman_parsers(),
        **_gkr_parsers(),
        **_inference_parsers(),
        **_answer_parsers(),
        **_zcash_parsers(),
        **{name: _opening_parser(*scheme) for name, scheme in SCHEMES.items()},
    }
