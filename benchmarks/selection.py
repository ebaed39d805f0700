"""The rows that docs/benchmarks.md shows, by section: one `Selected` for each row."""

from __future__ import annotations

from typing import Any, NamedTuple


class Place(NamedTuple):
    """A machine, by its file in benchmarks/results without `.json`, and a device of it."""

    machine: str
    device: str


EPYC = Place("amd-epyc-2-threads", "cpu")
EPYC_25_17 = Place("amd-epyc-family-25-model-17-2-threads", "cpu")
EPYC_26_2 = Place("amd-epyc-family-26-model-2-2-threads", "cpu")
XEON = Place("intel-r-xeon-r-processor-2-threads", "cpu")
XEON_6_207 = Place("intel-r-xeon-r-processor-family-6-model-207-2-threads", "cpu")
H100 = Place("nvidia-h100-80gb-hbm3", "cuda")
H200 = Place("nvidia-h200", "cuda")
H200_FIRST = Place("nvidia-h200", "cuda:0")
H200_WEBGPU = Place("nvidia-h200", "webgpu")
BROWSER = Place("intel-r-xeon-r-processor-2-threads", "browser")


class Selected(NamedTuple):
    """A filter that exactly one recorded row passes.

    computation: the name of the row; `{log2}` stands for the row's parameter of that name.
    peer: the beginning of the peer's name; empty for a row without a peer.
    parameters: the parameters that the row must have, among others.
    """

    computation: str
    place: Place
    subject: str
    peer: str
    parameters: dict[str, Any]


_PROVE = "prove, key resident"
_WHOLE = "prove, whole process"
_MSM = "MSM of 2^{log2} points, {group}"
_NTT = "NTT of 2^{log2} elements, scalar field of {curve}"
_GEMM = "Matrix product {shape}, {dtype}"
_G1 = "bls12_381.g1"

SELECTION: dict[str, list[Selected]] = {
    "Groth16 for circom circuits": [
        Selected(
            "Proof in process, {constraints:,} constraints", EPYC, "groth16", "snarkjs",
            {"what": _PROVE, "circuit": "membership"},
        ),
        Selected(
            "Proof in process, {constraints:,} constraints", EPYC, "groth16", "snarkjs",
            {"what": _PROVE, "circuit": "bn254-sha256-8blocks"},
        ),
        Selected(
            "Proof in process, {constraints:,} constraints", XEON_6_207, "groth16", "snarkjs",
            {"what": _PROVE, "circuit": "bn254-sha256-8blocks"},
        ),
        Selected(
            "Proof, whole process, {constraints:,} constraints", EPYC, "process", "snarkjs",
            {"what": _WHOLE, "circuit": "quod-bn254-eddsa"},
        ),
        Selected(
            "Proof, whole process, {constraints:,} constraints", EPYC_25_17, "process", "snarkjs",
            {"what": _WHOLE, "circuit": "bn254-sha256-8blocks"},
        ),
        Selected(
            "Verification in process", XEON_6_207, "groth16", "snarkjs",
            {"what": "verify, key resident", "circuit": "membership"},
        ),
        Selected(
            "Batch verification of {proofs} Sapling Output proofs",
            EPYC_25_17, "verify", "one-by-one",
            {"what": "verify a batch, key resident", "proofs_from": "bytes"},
        ),
        Selected(
            "Witness of {values:,} values", EPYC_25_17, "witness", "snarkjs", {"what": "witness"}
        ),
        Selected(
            "`quod powersoftau prepare`, power {log2}", XEON_6_207, "ceremony", "snarkjs",
            {"what": "prepare", "log2": 12},
        ),
    ],
    "Groth16 on GPUs": [
        Selected(
            "Proof, {constraints:,} constraints, {curve}", H200, "groth16", "",
            {"what": _PROVE, "circuit": "chain", "constraints": 100000},
        ),
        Selected(
            "Proof, {constraints:,} constraints, {curve}", H200, "groth16", "",
            {"what": _PROVE, "circuit": "chain", "constraints": 16000000},
        ),
        Selected(
            "Proofs, {constraints:,} constraints, a job on each of {devices} GPUs",
            H200_FIRST, "groth16", "",
            {"what": "jobs of one key on several devices", "constraints": 16000000},
        ),
        Selected(
            "Proofs in batches of {together}, {constraints:,} constraints", H200, "groth16", "",
            {"what": "prove many, key resident", "constraints": 16000},
        ),
        Selected(
            "Proof, {constraints:,} constraints, {curve}", H200_WEBGPU, "groth16", "cuda",
            {"what": _PROVE, "constraints": 31211},
        ),
    ],
    "MSM and NTT": [
        Selected(f"{_MSM}, 1 thread", EPYC, "msm", "arkworks", {"group": _G1, "log2": 14}),
        Selected(f"{_MSM}, 1 thread", XEON, "msm", "arkworks", {"group": _G1, "log2": 14}),
        Selected(_MSM, H200, "msm", "", {"group": _G1, "log2": 20, "scalars": "uniform"}),
        Selected(_MSM, H100, "msm", "", {"group": _G1, "log2": 20, "scalars": "uniform"}),
        Selected(_MSM, H200_WEBGPU, "msm", "", {"group": _G1, "log2": 20}),
        Selected(
            f"{_NTT}, {{threads}} threads", XEON, "ntt", "",
            {"curve": "bn254", "log2": 20, "what": "forward NN", "threads": 2},
        ),
        Selected(_NTT, H200, "ntt", "", {"curve": "bn254", "log2": 24, "what": "forward NN"}),
        Selected(_NTT, H100, "ntt", "", {"curve": "bn254", "log2": 24, "what": "forward NN"}),
        Selected(
            _NTT, H200_WEBGPU, "ntt", "",
            {"curve": "bls12_381", "log2": 20, "what": "forward NN"},
        ),
    ],
    "Sumcheck, GKR, lookups and commitments": [
        Selected(
            "Sumcheck over {factors} tables of 2^{log2}, {field}",
            XEON_6_207, "sumcheck", "pyzorch",
            {"field": "bn254.fr", "log2": 16},
        ),
        Selected(
            "Sumcheck over {factors} tables of 2^{log2}, {field}",
            XEON_6_207, "sumcheck", "pyzorch",
            {"field": "goldilocks", "log2": 18},
        ),
        Selected(
            "Sumcheck over {factors} tables of 2^{log2}, {field}",
            H200, "sumcheck", "",
            {"field": "bn254.fr", "log2": 22, "batch": 1, "eq": None},
        ),
        Selected(
            "GKR over {field}, {instances:,} Keccak instances a proof", EPYC_26_2, "gkr", "",
            {"what": "prove", "field": "m31.3", "instances": 512},
        ),
        Selected(
            "GKR over {field}, {instances:,} Keccak instances a proof", H200, "gkr", "",
            {"what": "prove", "instances": 8192, "reduction": "columns"},
        ),
        Selected(
            "GKR over {field}, {instances:,} Merkle paths a proof", H200, "gkr", "",
            {"what": "prove", "circuit": "merkle-paths"},
        ),
        Selected(
            "Lookup of 2^{log2} values of {bits} bits, {field}", H200, "lookup", "",
            {"field": "m31.4", "log2": 24},
        ),
        Selected(
            "Ligero commitment, 2^{log2} elements, {field}", H200, "commitment", "",
            {"scheme": "ligero", "field": "m31.4", "log2": 24, "time": "commit"},
        ),
    ],
    "Tensors": [
        Selected(_GEMM, H100, "gemm", "torch", {"shape": "8192x8192x8192", "dtype": "f16"}),
        Selected(_GEMM, H100, "gemm", "torch", {"shape": "8192x8192x8192", "dtype": "int8"}),
        Selected(_GEMM, H200, "gemm", "torch", {"shape": "4096x4096x4096", "dtype": "e4m3"}),
        Selected(
            f"{_GEMM}, 1 thread", EPYC_25_17, "gemm", "numpy",
            {"kind": "nn", "shape": "1024x1024x1024"},
        ),
        Selected(
            "Attention, {kind}, {shape} {dtype}", H100, "attention", "torch",
            {"kind": "causal", "shape": "1x16x8192x128", "dtype": "f16"},
        ),
        Selected(
            "Decoding, {shape} {dtype}", H100, "decode", "copy",
            {"kind": "plain", "shape": "8x32x8x8192x128", "dtype": "bf16"},
        ),
        Selected(
            "Softmax, {shape} {dtype}", H200, "softmax", "torch",
            {"shape": "32768x4096", "dtype": "f32"},
        ),
        Selected(
            "{rows} rows by {type} weights, {size} x {size}", H200, "quant", "torch",
            {"type": "Q4_K", "activations": "exact", "workspaces": 1},
        ),
    ],
    "Verified inference": [
        Selected(
            "Proof of {images} images, network {network}", H200, "inference", "",
            {"what": "prove"},
        ),
        Selected(
            "Verification of {images} images, network {network}", EPYC_25_17, "inference", "",
            {"what": "verify"},
        ),
    ],
    "Service": [
        Selected(
            "`Prove` over gRPC with an instant worker, p50", XEON_6_207, "submit", "",
            {"what": "Prove, p50"},
        ),
        Selected(
            "Jobs of {constraints:,} constraints, one worker", H200, "serve-pipeline", "",
            {"what": "worker", "constraints": 1000000, "process": True},
        ),
        Selected(
            "Jobs of {constraints:,} constraints, {workers} workers", H200, "serve-pipeline", "",
            {"what": "worker", "constraints": 16000, "workers": 3},
        ),
    ],
    "Browser": [
        Selected(
            f"{_MSM}, bases kept, GPU emulated on the CPU",
            BROWSER, "browser-msm", "ZPrize",
            {"log2": 14, "bases": "kept", "time": "run"},
        ),
        Selected(
            "Proof, domain of {domain:,}, GPU emulated on the CPU", BROWSER, "browser-proof", "",
            {"circuit": "membership", "time": "later"},
        ),
    ],
    "Start-up": [
        Selected(
            "`import quod`", XEON_6_207, "process", "", {"what": "python -c 'import quod'"}
        ),
        Selected(
            "First proof with an empty kernel cache", XEON_6_207, "process", "",
            {"what": "prove, nothing compiled yet", "circuit": "membership"},
        ),
    ],
}  # fmt: skip
