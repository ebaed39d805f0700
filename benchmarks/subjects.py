"""Measurements of `run.py` on each kind of device: the arguments of quod bench, by subject."""

from __future__ import annotations

import filecoin

from quod.curve.named import EDWARDS, WEIERSTRASS

Commands = dict[str, list[list[str]]]

OTHER_CURVES = (*WEIERSTRASS, *EDWARDS)
"""Curves without a pairing; one size of each is measured."""

EXAMPLE = "examples/membership"

# Each run is a process, and the one that finds nothing compiled takes several seconds.
_TWICE = ["--repeats", "2", "--seconds", "0"]
_ONCE = ["--repeats", "1", "--seconds", "0"]
# Long enough for a constant load.
_LOADED = ["--repeats", "2", "--seconds", "3"]
_AGAINST_COPY = ["--against", "copy"]

_MERKLE_PATHS = [
    *("--circuit", "merkle-paths", "--field", "m31.4", "--instances", "10000"),
    *("--commitment", "ligero"),
]

_MODEL = ["--model", "examples/verified_mlp/model.gguf"]

QUANTISED = ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K")

_ON_ONE_THREAD = ["--threads", "1", "--against", "numpy"]
_ROWS = ("4096x32768", "32768x4096", "8192x1024")
_DECODED = ("8x32x8x8192x128", "1x32x8x65536x128")


def _kinds(*names: str) -> list[str]:
    return [word for name in names for word in ("--kind", name)]


def _shapes(*shapes: str) -> list[str]:
    return [word for shape in shapes for word in ("--shape", shape)]


ZCASH = [["--proof", kind] for kind in ("sapling-spend", "masp-spend", "masp-convert")]
FILECOIN = [[*("--proof", kind), *("--params", filecoin.FOLDER), *_ONCE] for kind in filecoin.KINDS]
"""Filecoin's proofs for sectors of 2 KiB, whose parameters `run.py` makes."""

CPU: Commands = {
    "field": [[]],
    "msm": [
        ["--curve", "bls12_381", "--log2", "12", "--log2", "14", "--against", "arkworks"],
        ["--curve", "bls12_381", "--log2", "16", "--log2", "18", "--log2", "20"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "bits"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "equal"],
        ["--curve", "bls12_381", "--log2", "16", "--scalars", "giant"],
        ["--curve", "bls12_381", "--group", "g2", "--log2", "14", "--log2", "16"],
        ["--curve", "bn254", "--log2", "14", "--log2", "16"],
        *(["--curve", curve, "--log2", "14"] for curve in OTHER_CURVES),
    ],
    "ntt": [
        ["--curve", "bn254", "--log2", "14", "--log2", "16", "--log2", "18", "--log2", "20"],
        ["--curve", "bls12_381", "--log2", "16", "--log2", "20"],
        ["--field", "goldilocks", "--log2", "16", "--log2", "20"],
    ],
    "sumcheck": [
        *(
            ["--field", field, "--log2", "14", "--log2", "18"]
            for field in ("m31.4", "goldilocks.2", "bn254.fr")
        ),
        *(
            ["--field", field, "--log2", "10", "--log2", "14", "--against", "pyzorch"]
            for field in ("goldilocks", "bn254.fr")
        ),
    ],
    "commitment": [
        *(
            ["--field", field, "--log2", "12", "--log2", "16", "--log2", "20"]
            for field in ("m31.4", "goldilocks.2")
        ),
        ["--scheme", "hyrax", "--log2", "12", "--log2", "16"],
    ],
    "lookup": [
        *(
            ["--field", field, "--log2", "10", "--log2", "14", "--log2", "18"]
            for field in ("m31.4", "bn254.fr")
        ),
        ["--field", "m31.4", "--log2", "18", "--bits", "16"],
        ["--field", "m31.4", "--log2", "16", "--columns", "4", "--bits", "12", "--width", "3"],
    ],
    "gkr": [
        *(
            ["--field", field, "--instances", "1", "--instances", "16"]
            for field in ("m31.3", "m31.4")
        ),
        ["--circuit", "wide", "--field", "m31.4", "--instances", "1"],
        ["--field", "m31.4", "--instances", "64", "--commitment", "ligero"],
        ["--columns", "--field", "m31.3", "--instances", "64", "--instances", "512"],
        ["--columns", "--field", "m31.4", "--instances", "64", "--instances", "512"],
        ["--columns", "--field", "m31.4", "--instances", "512", "--commitment", "ligero"],
        ["--field", "m31.4", "--instances", "1", "--threads", "1"],
        ["--columns", "--field", "m31.4", "--instances", "1", "--threads", "1"],
        ["--columns", "--field", "m31.3", "--instances", "512", "--against", "products"],
        [*_MERKLE_PATHS, *_ONCE],
    ],
    "groth16": [[f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns", "--against", "snarkjs"]],
    "process": [
        [f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns", *peer]
        for peer in ([], ["--against", "snarkjs"], ["--against", "rapidsnark"])
    ],
    "queue": [[], ["--database", "postgresql:///postgres"]],
    "submit": [[]],
    "solidity": [["--curve", curve, *_ONCE] for curve in ("bn254", "bls12_381")],
    "witness": [
        [f"{EXAMPLE}/circuit.wasm", f"{EXAMPLE}/input.json", *peer]
        for peer in ([], ["--against", "snarkjs"])
    ],
    "ceremony": [["--log2", "12", "--step", "prepare", "--against", "snarkjs", *_ONCE]],
    "setup": [
        [
            "--power",
            "15",
            "--step",
            "setup",
            "--step",
            "contribute",
            "--against",
            "snarkjs",
            *_TWICE,
        ],
        ["--power", "22", "--step", "memory", *_ONCE],
    ],
    "gemm": [
        [*_kinds("nn", "nt", "tn"), *_shapes("1024"), *_ON_ONE_THREAD],
        [*_kinds("int8"), *_shapes("1024"), "--threads", "1"],
    ],
    "attention": [[*_kinds("full", "causal"), "--threads", "1", "--against", "limit"]],
    "decode": [[*_kinds("plain", "paged"), "--threads", "1", "--against", "copy"]],
    "softmax": [_ON_ONE_THREAD],
    "norm": [[*_kinds("layer", "rms"), *_ON_ONE_THREAD]],
    "activation": [[*_kinds("silu", "gelu-tanh", "swiglu"), *_ON_ONE_THREAD]],
    "loss": [_ON_ONE_THREAD],
    "adamw": [_ON_ONE_THREAD],
    "inference": [_MODEL],
    "filecoin": FILECOIN,
    "zcash": ZCASH,
    # Of the shared fixtures alone.
    "verify": [],
}

_TENSORS_ON_CUDA: dict[str, list[tuple[list[str], tuple[str, ...]]]] = {
    "gemm": [
        (_shapes("512", "1024", "4096", "8192"), ("f32", "f16", "bf16")),
        ([*_kinds("nt", "tn"), *_shapes("4096")], ("f32", "bf16")),
        ([*_kinds("int8", "tf32"), *_shapes("1024", "4096", "8192")], ("f32",)),
    ],
    "attention": [
        (
            [*_kinds("full", "causal"), *_shapes("1x16x8192x128", "4x16x2048x64")],
            ("f16", "bf16"),
        ),
        ([*_kinds("full", "causal"), *_shapes("1x16x2048x128")], ("f32",)),
    ],
    "softmax": [(_shapes(*_ROWS), ("f32", "bf16"))],
    "norm": [([*_kinds("layer", "rms"), *_shapes(*_ROWS)], ("f32", "bf16"))],
    "activation": [
        ([*_kinds("silu", "gelu", "gelu-tanh", "swiglu"), *_shapes("8192x8192")], ("f32", "bf16"))
    ],
    "loss": [(_shapes(*_ROWS, "4096x131072"), ("f32", "bf16"))],
    "adamw": [(_shapes("8192x8192"), ("f32",))],
}
"""Options of tensor subjects, and the types with which each is measured."""

CUDA: Commands = {
    "field": [[]],
    "msm": [
        ["--curve", "bls12_381", *(f"--log2={size}" for size in (16, 18, 20, 22))],
        ["--curve", "bls12_381", "--log2", "24"],
        *(
            ["--curve", "bls12_381", "--log2", "20", "--scalars", kind]
            for kind in ("bits", "equal", "giant")
        ),
        ["--curve", "bls12_381", "--group", "g2", "--log2", "16", "--log2", "20"],
        ["--curve", "bn254", "--log2", "20", "--log2", "24"],
        ["--curve", "bls12_377", "--log2", "20", "--log2", "22"],
        *(["--curve", curve, "--log2", "20"] for curve in OTHER_CURVES),
    ],
    "ntt": [
        ["--curve", "bls12_381", *(f"--log2={size}" for size in (20, 22, 24))],
        *(["--curve", "bls12_381", "--log2", size] for size in ("26", "28")),
        ["--curve", "bn254", "--log2", "20", "--log2", "24"],
        ["--field", "goldilocks", "--log2", "20", "--log2", "24"],
        ["--field", "baby_bear", "--log2", "20", "--log2", "24"],
    ],
    "sumcheck": [
        ["--field", "bn254.fr", "--log2", "18", "--log2", "22"],
        ["--field", "bn254.fr", "--log2", "22", "--batch", "8"],
        ["--field", "bn254.fr", "--log2", "22", "--eq"],
        *(["--field", field, "--log2", "24"] for field in ("m31.3", "m31.4", "goldilocks.2")),
        ["--field", "m31.4", "--log2", "24", "--in-base", "1"],
    ],
    "commitment": [
        *(
            ["--field", field, "--log2", "20", "--log2", "24"]
            for field in ("m31.4", "goldilocks.2")
        ),
        ["--scheme", "hyrax", "--log2", "20", "--log2", "24"],
    ],
    "lookup": [
        ["--field", "m31.4", "--log2", "20", "--log2", "24", "--bits", "16"],
        ["--field", "bn254.fr", "--log2", "18", "--log2", "22", "--bits", "16"],
    ],
    "gkr": [
        ["--field", "m31.3", "--instances", "1", "--batch", "1024", "--proofs", "8192", *_TWICE],
        ["--field", "bn254.fr", "--instances", "1", "--batch", "396", "--proofs", "7920", *_TWICE],
        ["--study", "--field", "m31.3", *_TWICE],
        ["--field", "m31.4", "--instances", "1024", "--instances", "8192"],
        ["--columns", "--field", "m31.4", "--instances", "1024", "--instances", "8192"],
        ["--circuit", "wide", "--field", "m31.4", "--instances", "1"],
        [*_MERKLE_PATHS, *_TWICE],
    ],
    "process": [[f"{EXAMPLE}/circuit.zkey", f"{EXAMPLE}/witness.wtns", *_TWICE]],
    "groth16": [
        ["--curve", "bn254", *(f"--constraints={n}" for n in (100_000, 800_000, 3_200_000))],
        ["--curve", "bls12_381", "--constraints", "800000"],
        ["--curve", "bn254", "--constraints", "16000000"],
        *(["--circuit", name] for name in ("sapling-output", "masp-output")),
    ],
    "setup": [
        ["--power", "20", *_ONCE],
        ["--power", "22", "--step", "setup", *_ONCE],
    ],
    "ceremony": [
        ["--log2", "16", "--log2", "20", "--step", "contribute", *_ONCE],
        ["--log2", "12", "--log2", "16", "--log2", "20", "--step", "prepare", *_ONCE],
        ["--log2", "22", "--step", "prepare", *_ONCE],
    ],
    "quant": [
        *(["--type", name, *_AGAINST_COPY] for name in QUANTISED),
        *(
            ["--type", "Q4_K", "--batch", "512", "--activations", kind, "--against", "torch"]
            for kind in ("exact", "int8")
        ),
    ],
    "attention-gradient": [["--shape", "1x16x8192x128", "--dtype", "f16", "--against", "torch"]],
    "inference": [_MODEL],
    **{
        subject: [
            [*options, "--dtype", dtype, "--against", peer]
            for options, dtypes in listed
            for dtype in dtypes
            for peer in ("torch", "limit")
        ]
        for subject, listed in _TENSORS_ON_CUDA.items()
    },
    "decode": [
        [*_kinds(*kinds), *_shapes(*_DECODED), "--dtype", dtype, "--against", peer]
        for kinds, peer in ((("plain", "paged"), "copy"), (("plain",), "torch"))
        for dtype in ("f32", "f16", "bf16")
    ],
    "serve-pipeline": [
        *(["--constraints", "16000", "--lanes", f"{n}", *_LOADED] for n in (1, 2, 3)),
        *(["--constraints", "16000", "--process", "--workers", f"{n}", *_LOADED] for n in (1, 3)),
        ["--constraints", "1000000", *_LOADED],
    ],
    "filecoin": FILECOIN,
    "zcash": ZCASH,
}
"""Sizes that take long are commands of their own, the longest last: what a run within a given time
leaves is measured by the next. Most of that time a key of so many constraints is made."""

# Minutes on a GPU, so that each figure is of few repeats.
_QUICK = ["--repeats", "5", "--seconds", "0.2"]
_BOTH_FIELDS = ["--field", "bls12_381.fq", "--field", "bls12_381.fr"]
_AGAINST_CUDA = ["--against", "cuda"]
_MASP_OUTPUT = ["--curve", "bls12_381", "--constraints", "31211"]
"""The number of constraints of MASP's Output circuit, for which others have published times."""

WEBGPU: Commands = {
    "field": [
        ["--chosen", *_BOTH_FIELDS, *_QUICK],
        ["--limbs", "30/64", *_BOTH_FIELDS, *_QUICK],
    ],
    "msm": [
        ["--curve", "bls12_381", "--log2", "16", "--log2", "20", *_QUICK],
        ["--curve", "bls12_377", "--log2", "16", "--log2", "18", *_QUICK],
        ["--curve", "bn254", "--log2", "16", *_QUICK],
    ],
    "ntt": [["--curve", "bls12_381", "--log2", "16", "--log2", "20", *_QUICK]],
    "sumcheck": [["--field", "m31.4", "--log2", "20", *_QUICK]],
    "commitment": [["--field", "m31.4", "--log2", "20", *_QUICK]],
    "lookup": [["--field", "m31.4", "--log2", "18", *_QUICK]],
    "gkr": [
        ["--field", "m31.4", "--instances", "64", *_QUICK],
        ["--columns", "--field", "m31.4", "--instances", "64", *_QUICK],
    ],
    "groth16": [
        [*_MASP_OUTPUT, *_QUICK, *_AGAINST_CUDA],
        ["--curve", "bn254", "--constraints", "100000", *_QUICK],
    ],
    "gemm": [[*_shapes("2048"), "--against", "torch", *_QUICK]],
    "process": [[*_MASP_OUTPUT, *_ONCE]],
}

PORTABLE: Commands = {
    "field": [WEBGPU["field"][0], ["--limbs", "13", *_BOTH_FIELDS, *_QUICK]],
    "msm": WEBGPU["msm"][:1],
    "groth16": [[*_MASP_OUTPUT, *_QUICK, *_AGAINST_CUDA]],
    "process": WEBGPU["process"],
    "zcash": [["--proof", "sapling-spend", "--only", what] for what in ("witnesses", "proofs")],
}
"""Measurements in addition to `WEBGPU`, within the limits that every browser has."""
