"""The tests of fields, curves, MSMs, NTTs and proofs that run on a software WebGPU adapter.

Such a driver takes seconds to minutes to compile a kernel of points, and runs it on the processor.
There `make test-all` runs some tests of each package, so that each kind of kernel is run by some
driver, and `make test` an MSM and what is quick; a GPU runs them all.
"""

from __future__ import annotations

import functools
import os
import re

from tests.support.selection import runs_all

PACKAGES = (
    "tests/curve/",
    "tests/field/",
    "tests/filecoin/",
    "tests/groth16/",
    "tests/msm/",
    "tests/ntt/",
    "tests/r1cs/",
    "tests/sumcheck/",
    "tests/ceremony/",
    "tests/commitment/",
    "tests/gkr/",
    "tests/hash/",
    "tests/lookup/",
    "tests/tensor/",
    "tests/transcript/",
)

QUICK = (
    r"tests/r1cs/test_resident\.py::test_(the_values|rows_are|registers)\w*\[webgpu(:portable)?(-0)?\]",
    r"tests/r1cs/test_repeated_witnesses\.py::test_devices\w*\[webgpu(:portable)?-0\]",
    r"tests/msm/test_named\.py::test_scalars_in_as_many_words\w*\[webgpu\]",
    r"tests/ceremony/test_secret\.py::test_multiples\[webgpu-bn254\.g1\]",
    r"tests/commitment/test_hyperkzg\.py::test_quotients_on_gpus\[webgpu:portable\]",
    r"tests/commitment/test_rows\.py::test_\w+\[webgpu(:portable)?-(3-2-)?(bn254\.fr|m31\.4)\]",
    r"tests/commitment/test_code\.py::test_\w+\[webgpu:portable\]",
    r"tests/commitment/test_ligero_checker\.py::test_gpu_code\w+\[webgpu:portable\]",
    r"tests/commitment/test_ligero\.py::test_gpu_code\w+\[webgpu:portable\]",
    r"tests/curve/test_operations\.py::test_addition_of_every_pair\[webgpu-bn254\.g1\]",
    r"tests/curve/test_operations_gpu\.py::test_edwards\[webgpu:portable\]",
    r"tests/field/test_array\.py::test_montgomery_on_a_device\[webgpu-.*",
    r"tests/field/test_inversion\.py::test_inverse\[webgpu-bls12_381\.fq2?\]",
    r"tests/field/test_operations\.py::test_operations\[webgpu-bn254\.fr\]",
    r"tests/field/test_strategy\.py::test_sums_of_products\[webgpu-3-bn254\.fr\]",
    r"tests/filecoin/test_trees\.py::test_hashes_on_an_interpreter\[webgpu:portable\]",
    r"tests/gkr/test_gkr\.py::test_gpu_code_agrees_with_the_model\[webgpu:portable\]",
    r"tests/gkr/test_gkr\.py::test_poseidon2_on_gpus_agrees_with_the_model\[webgpu:portable\]",
    r"tests/lookup/test_lookup\.py::test_gpu_code_agrees_with_the_model\[webgpu:portable-1-2-1\]",
    r"tests/groth16/gpu/test_key\.py::test_proof_matches_the_cpu\[webgpu-bn254\]",
    # The other curve is proved on the emulated device, and its MSMs run in their own tests.
    r"tests/groth16/gpu/test_key\.py::test_(?!with_multip|a_key_made)\w+\[webgpu:portable(?!-bls12_381).*",
    r"tests/groth16/gpu/test_matrix\.py::test_products_with_a_witness\[webgpu-128-.*",
    r"tests/groth16/gpu/test_matrix\.py::test_products_with_several_vectors\[webgpu:portable-8-3\]",
    r"tests/groth16/gpu/test_upload\.py::test_every_value_is_uploaded\[webgpu-101-5\]",
    r"tests/groth16/test_lagrange\.py::test_lagrange_values\[webgpu-[0-9]+-bn254\]",
    r"tests/groth16/test_sparse\.py::test_a_long_sum_of_the_largest_values\[webgpu-bn254\]",
    r"tests/msm/run/test_msm\.py::test_(?!hostile)\w+\[webgpu:portable\b.*",
    r"tests/msm/sort/test_binning\.py::test_\w+\[webgpu:portable\b.*",
    r"tests/ntt/test_fields\.py::test_transforms_in_passes\[webgpu(:portable)?-(goldilocks|baby_bear)\]",
    r"tests/ntt/test_fields\.py::test_the_quotient_on_gpus\[webgpu(:portable)?-modulus[01]-[01]\]",
    r"tests/ntt/gpu/test_transforms\.py::test_default_tiles\[webgpu-10-NR\]",
    r"tests/ntt/gpu/test_transforms\.py::test_default_tiles\[webgpu:portable-11-NN\]",
    r"tests/tensor/test_activations\.py::test_edge_shapes\[webgpu-gelu-f16\]",
    r"tests/tensor/test_activations\.py::test_swiglu\[webgpu-bf16\]",
    r"tests/tensor/test_activations\.py::test_range_limits\[webgpu-silu\]",
    r"tests/tensor/test_adamw\.py::test_edge_shapes\[webgpu-(f32|bf16)-f32\]",
    r"tests/tensor/test_adamw\.py::test_clipped_and_scaled\[webgpu-0\.5\]",
    r"tests/tensor/test_adamw\.py::test_rates_in_memory\w+\[webgpu-True\]",
    r"tests/tensor/test_gradients\.py::test_(edge_shapes_on_gpus|clipped)\[webgpu(:portable|-f16)\]",
    r"tests/tensor/test_gradients\.py::test_overflowing_and_underflowing_squares\[webgpu-1e(-20|\+?36)\]",
    r"tests/tensor/test_loss\.py::test_edge_shapes_on_gpus\[webgpu:portable-f16\]",
    r"tests/tensor/test_loss\.py::test_large_logits\[webgpu-bf16\]",
    r"tests/tensor/test_loss\.py::test_out_of_range_targets_are_rejected\[webgpu-int32\]",
    r"tests/tensor/test_rows\.py::test_edge_shapes\[webgpu-layer_norm-bf16\]",
    r"tests/tensor/test_rows\.py::test_edge_shapes_on_gpus\[webgpu:portable-softmax-f16\]",
    r"tests/tensor/test_rows\.py::test_repeated_and_in_place_runs_are_equal\[webgpu\]",
    r"tests/tensor/test_rope\.py::test_edge_shapes\[webgpu-(halves-f32|interleaved-bf16)\]",
    r"tests/tensor/test_rope\.py::test_repeated_and_in_place_runs_are_equal\[webgpu\]",
    r"tests/tensor/test_attention\.py::test_edge_shapes\[webgpu-bf16-causal\]",
    r"tests/tensor/test_attention_decode\.py::test_edge_shapes\[webgpu-f32\]",
    r"tests/tensor/test_attention_pages\.py::test_edge_shapes\[webgpu-bf16\]",
    r"tests/tensor/test_attention_pages\.py::test_appended\w+\[webgpu-bf16-5\]",
    r"tests/tensor/test_attention_gradients\.py::test_edge_shapes\[webgpu-bf16-causal\]",
    r"tests/tensor/test_embeddings\.py::test_edge_shapes\[webgpu-(f32|bf16)\]",
    r"tests/tensor/test_embeddings\.py::test_(two_runs|unchecked_indices)\[webgpu\]",
    r"tests/tensor/test_row_gradients\.py::test_edge_shapes_of_norms\[webgpu-layer_norm-bf16\]",
    r"tests/tensor/test_row_gradients\.py::test_edge_shapes_of_softmax\[webgpu-f16\]",
    r"tests/tensor/test_row_gradients\.py::test_repeated_and_in_place_runs_are_equal\[webgpu\]",
    r"tests/tensor/test_reductions\.py::test_sums_and_means\[webgpu-f16\]",
    r"tests/tensor/test_reductions\.py::test_extremes_and_their_indices\[webgpu-argmin-f32\]",
    r"tests/tensor/test_transpose\.py::test_edge_shapes\[webgpu-(u1|f2|f8)\]",
    r"tests/tensor/test_transpose\.py::test_every_axis_order\[webgpu-f4\]",
    # Activations have products of f32.
    r"tests/tensor/test_gemm\.py::test_edge_shapes\[webgpu-bf16-\(False, True\)\]",
    r"tests/tensor/test_gemm\.py::test_integers_are_exact\[webgpu\]",
    r"tests/tensor/test_gemm\.py::test_activations\[webgpu-gelu\]",
    r"tests/tensor/quantised/test_batches\.py::test_every_type\[webgpu-Q4_(K-f32|0-bf16)\]",
    r"tests/tensor/quantised/test_bytes\.py::test_every_device_gives\w+\[webgpu-Q4_0\]",
    r"tests/tensor/quantised/test_bytes\.py::test_within_a_browser\[webgpu:portable\]",
    r"tests/sumcheck/test_prover\.py::test_agrees_with_the_model\[webgpu-m31\.4-product-6-.*",
    r"tests/sumcheck/test_prover\.py::test_rounds_on_large_\w+\[webgpu-1-True-m31\.4\]",
    r"tests/transcript/test_algebraic\.py::test_kernels_agree_\w+\[webgpu-1-(m31|baby_bear)\.4\]",
    r"tests/transcript/test_algebraic\.py::test_gpu_code_agrees\[webgpu:portable-\w+\.\d\]",
    r"tests/transcript/test_chain\.py::test_kernels_agree_with_the_host\[webgpu-3-goldilocks\.2\]",
    r"tests/transcript/test_chain\.py::test_sha_256_on_gpus\[webgpu:portable\]",
    r"tests/hash/test_sha2\.py::test_messages_on_gpus\[webgpu:portable\]",
)
"""Node ids, as regular expressions of which each is one test, or several of the same kernels."""

THOROUGH = (
    r"tests/ceremony/test_secret\.py::test_multiples\[webgpu-bn254\.g1\]",
    r"tests/commitment/test_ligero\.py::test_gpu_code\w+\[webgpu:portable\]",
    r"tests/curve/test_operations\.py::test_addition_of_every_pair\[webgpu-bn254\.g1\]",
    r"tests/curve/test_operations_gpu\.py::test_edwards\[webgpu:portable\]",
    r"tests/field/test_inversion\.py::test_inverse\[webgpu-bls12_381\.fq2?\]",
    r"tests/field/test_operations\.py::test_operations\[webgpu-bn254\.fr\]",
    r"tests/filecoin/test_trees\.py::test_hashes_on_an_interpreter\[webgpu:portable\]",
    r"tests/gkr/test_gkr\.py::test_gpu_code_agrees_with_the_model\[webgpu:portable\]",
    r"tests/lookup/test_lookup\.py::test_gpu_code\w+\[webgpu:portable-1-2-1\]",
    r"tests/r1cs/test_resident\.py::test_(rows_are|registers)\w*\[webgpu(:portable)?\]",
    r"tests/r1cs/test_resident\.py::test_the_values\w+\[webgpu-0\]",
    r"tests/msm/test_named\.py::test_scalars_in_as_many_words\w*\[webgpu\]",
    r"tests/msm/sort/test_binning\.py::test_(?!sorting.webgpu:portable-64-uni)\w+\[webgpu:portable.*",
    r"tests/sumcheck/test_prover\.py::test_agrees_with_the_model\[webgpu-m31\.4-.*",
    r"tests/transcript/test_algebraic\.py::test_kernels_agree_\w+\[webgpu-1-(m31|baby_bear)\.4\]",
    r"tests/commitment/test_hyperkzg\.py::test_quotients_on_gpus\[webgpu:portable\]",
    r"tests/tensor/test_activations\.py::test_edge_shapes\[webgpu-gelu-f16\]",
    r"tests/tensor/test_activations\.py::test_swiglu\[webgpu-bf16\]",
    r"tests/tensor/test_attention_decode\.py::test_edge_shapes\[webgpu-f32\]",
    r"tests/tensor/test_attention_gradients\.py::test_edge_shapes\[webgpu-bf16-causal\]",
    r"tests/tensor/test_attention_pages\.py::test_edge_shapes\[webgpu-bf16\]",
    r"tests/tensor/test_gradients\.py::test_(clipped|overflowing)\w*\[webgpu-.*",
    r"tests/tensor/test_row_gradients\.py::test_edge_shapes_of_norms\[webgpu-.*",
    r"tests/tensor/test_row_gradients\.py::test_repeated_and_in_place_runs_are_equal\[webgpu\]",
    r"tests/tensor/test_rows\.py::test_repeated_and_in_place_runs_are_equal\[webgpu\]",
    r"tests/tensor/quantised/test_batches\.py::test_every_type\[webgpu-Q4_0-bf16\]",
    r"tests/tensor/quantised/test_bytes\.py::test_within_a_browser\[webgpu:portable\]",
    r"tests/tensor/test_gemm\.py::test_edge_shapes\[webgpu-bf16-\(False, True\)\]",
    r"tests/tensor/test_gemm\.py::test_activations\[webgpu-gelu\]",
    r"tests/tensor/test_loss\.py::test_edge_shapes_on_gpus\[webgpu:portable-f16\]",
    r"tests/tensor/test_rows\.py::test_edge_shapes_on_gpus\[webgpu:portable-softmax-f16\]",
    r"tests/groth16/gpu/test_matrix\.py::test_products_with_several_vectors\[webgpu:portable-8-3\]",
    # The host code of proofs is that of the emulated device. What stays are the key with multiples
    # of its bases, which no interpreter has, and the key made on the device.
    r"tests/groth16/gpu/test_key\.py::"
    r"test_(?!with_multiples|a_key_made_on)\w+\[webgpu:portable(?!-bls12_381).*",
    r"tests/groth16/gpu/test_key\.py::test_proof_matches_the_cpu\[webgpu-bn254\]",
    r"tests/groth16/test_lagrange\.py::test_lagrange_values\[webgpu-[0-9]+-bn254\]",
    r"tests/msm/run/test_msm\.py::test_(?!kinds_of)\w+\[webgpu:portable\b.*",
    r"tests/ntt/test_fields\.py::test_transforms_in_passes\[webgpu(:portable)?-(goldilocks|baby_bear)\]",
    r"tests/ntt/gpu/test_transforms\.py::test_default_tiles\[webgpu(:portable-11-NN|-10-NR)\]",
)
"""Node ids of `QUICK` that only `make test-all` runs in software; others run the same kernels."""

ON_GPUS_ALONE = (
    r"tests/bench/test_chain\.py::test_a_key_in_memory_proves_it\[webgpu(:portable)?-.*",
    r"tests/bench/test_chain\.py::test_the_witness_satisfies_the_constraints\[webgpu(:portable)?-.*",
    r"tests/zcash/test_devices\.py::test_the_same_proof_on_every_device\[webgpu\]",
)
"""Tests of other packages that take minutes in software: proofs, and thousands of constraints."""


def is_left_out(node_id: str, parameters: dict[str, object]) -> bool:
    """Return whether a test takes an adapter, and this machine's, in software, is too slow."""
    if not any(str(value).startswith("webgpu") for value in parameters.values()):
        return False
    if os.environ.get("QUOD_TEST_WEBGPU") == "all":
        return False

    def is_of(rows: tuple[str, ...]) -> bool:
        return any(re.fullmatch(row, node_id) for row in rows)

    slow = is_of(ON_GPUS_ALONE) or (
        node_id.startswith(PACKAGES) and (not is_of(QUICK) or (not runs_all() and is_of(THOROUGH)))
    )
    return slow and is_software()


@functools.cache
def is_software() -> bool:
    """Return whether the adapter that tests take is in software; without an adapter, False."""
    from quod.device.webgpu.adapter import list_adapters
    from quod.device.webgpu.native import open_native
    from quod.errors import DeviceError

    try:
        return list_adapters(open_native())[0][0].is_software
    except DeviceError:
        return False
