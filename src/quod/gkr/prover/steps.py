"""Kernels between the sumchecks of a proof that both reductions launch: one workgroup per proof.

The transcript stays on the device from the commitment to the claims about the inputs. `states` are
the prover states (`quod.gkr.prover.state`), `progress` and `proof` the buffers of a sumcheck
(`quod.sumcheck.memory`).
"""

from __future__ import annotations

from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.prover.gates import (
    PUBLIC_TAG,
    TAG_SHIFT,
    Coefficients,
    ConstantGates,
    GateForm,
    GateTable,
)
from quod.gkr.prover.state import CLAIM, FIRST_POINT, StateMemory, StateSizes
from quod.hash.table import Hash
from quod.hash.words import Words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir.value import Value
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.mixed import MixedField
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript.chain import Chain, challenge
from quod.transcript.labels import Label


@kernel
def begin_proofs(
    k: Builder,
    sizes: StateSizes,
    chain_length: U32,
    randoms: U32,
    log_outputs: U32,
    states: Pointer[U32],
    challenges: Pointer[U32],
    *,
    field: FieldSpec,
    hash: Hash = Hash.SHA3_256,
) -> None:
    """Draw the random coefficients and the point of the first claim, whose value is 0.

    The sequential hash delay precedes the random coefficients, and again the point. Without random
    coefficients there is one delay. On entry the transcript states are those after the commitment.
    challenges: receives the random coefficients, `randoms` elements per proof.
    """
    f, chain = field_arithmetic(k, field, inlined=True), Chain(k, hash)
    proof_index, local = k.workgroup_id(), k.local_id()
    prover_state = StateMemory(f, states, proof_index, sizes)
    coordinate_count = log_outputs + sizes.log_instances
    # The first phase draws the random coefficients, the second one the points. One loop for both
    # contains the code of the hash once.
    with k.range(1 - k.minimum(randoms, 1), 2, carry=prover_state.load_transcript(chain)) as phases:
        is_second = phases.index > 0
        with k.range(0, chain_length, carry=phases.carried) as loop:
            loop.next(chain.absorbed(loop.carried, Label.CHAIN, ()))
        with k.range(
            0, k.select(is_second, coordinate_count, randoms), carry=loop.results
        ) as draws:
            index = draws.index
            state = next_state(k, chain, draws.carried, index > 0)
            challenge_element = f.bounded(challenge(f, field, state))
            with k.if_((local == 0) & (phases.index == 0)):
                f.store(challenges, proof_index * randoms + index, challenge_element)
            with k.if_((local == 0) & is_second):
                offset = k.select(
                    index < log_outputs,
                    index + FIRST_POINT,
                    prover_state.instance_point + index - log_outputs,
                )
                prover_state.store(offset, challenge_element)
            draws.next(state)
        phases.next(draws.results)
    k.barrier()
    with k.if_(local == 0):
        prover_state.store_transcript(chain, phases.results)
        prover_state.store(CLAIM, f.bounded(f.zero()))


def next_state(k: Builder, chain: Chain, state: Words, is_further: Value) -> Words:
    """Return the transcript state from which a challenge is derived.

    The first challenge follows the last message; each later challenge follows an empty message.
    """
    after_empty_message = chain.absorbed(state, Label.NEXT, ())
    return tuple(
        k.select(is_further, absorbed, unchanged)
        for absorbed, unchanged in zip(after_empty_message, state, strict=True)
    )


@kernel
def begin_first_sumcheck(
    k: Builder,
    sizes: StateSizes,
    rounds: U32,
    halvings: U32,
    constants: ConstantGates,
    weights: Pointer[U32],
    states: Pointer[U32],
    progress: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """Set the claim of a layer's first sumcheck, and its transcript state.

    The claim is the state's claim minus the weighted sum of the constant gates, times 2**-halvings.
    weights: 2**constants.log_size elements per proof.
    rounds: the number of rounds of the sumcheck.
    """
    f, chain = MixedField(k, form.field).extended, Chain(k)
    sums = WorkgroupSums(k, f, 1)
    proof_index, local = k.workgroup_id(), k.local_id()
    coefficients = _Constants(k, form, constants, proof_index)
    with k.range(local, constants.count, k.workgroup_size, carry=f.bounded(f.zero())) as loop:
        output, code = k.load(constants.gates, loop.index * 2, 2)
        weight = f.bounded(f.load(weights, (proof_index << constants.log_size) + output))
        loop.next(f.bounded(loop.carried + coefficients.times(weight, code)))
    (total,) = sums.totals([loop.results])
    prover_state = StateMemory(f, states, proof_index, sizes)
    next_progress = SumcheckProgress(f, progress, sizes.batch, proof_index, rounds)
    half = (form.field.modulus.value + 1) // 2
    with k.range(0, halvings, carry=f.bounded(prover_state.load(CLAIM) - total)) as loop:
        loop.next(f.bounded(loop.carried * half))
    with k.if_(local == 0):
        next_progress.set_claim(loop.results)
        next_progress.set_state(chain, prover_state.load_transcript(chain))


class _Constants:
    """Coefficients of a proof's constant gates, evaluated at the point of the instances."""

    def __init__(
        self, k: Builder, form: GateForm, constants: ConstantGates, proof_index: Value
    ) -> None:
        self._has_public, self._proof_index, self._constants = (
            form.has_public,
            proof_index,
            constants,
        )
        zero = k.constant(0, constants.public.type)
        # Public inputs are read from `collapsed`, so this table has none, and no runs of gates.
        fixed_form = GateForm(form.field, (), False, form.has_random, form.below_is_base)
        gate_table = GateTable(
            zero, zero, constants.randoms, zero, constants.gates, constants.gates,
            constants.coefficients, constants.challenges,
        )  # fmt: skip
        self._numbers = Coefficients(k, fixed_form, gate_table)
        self._zero, self._mixed = zero, self._numbers.mixed

    def times(self, weight: Any, code: Value) -> Any:
        """Return a weight times the coefficient with a code."""
        mixed, f = self._mixed, self._mixed.extended
        if not self._has_public:
            return self._multiply_fixed(weight, code)
        with mixed.base.k.if_((code >> TAG_SHIFT) == PUBLIC_TAG) as branch:
            public_index = code & ((1 << TAG_SHIFT) - 1)
            constants = self._constants
            coefficient = f.load(
                constants.collapsed, self._proof_index * constants.public + public_index
            )
            branch.yield_(f.bounded(weight * coefficient))
        with branch.otherwise():
            branch.yield_(self._multiply_fixed(weight, code))
        return branch.results

    def _multiply_fixed(self, weight: Any, code: Value) -> Any:
        coefficient = self._numbers.load(code, self._proof_index, self._zero)
        return self._mixed.extended.bounded(self._mixed.multiply(weight, coefficient))


@kernel
def set_points(
    k: Builder,
    n: U32,
    sizes: StateSizes,
    log_below: U32,
    states: Pointer[U32],
    points: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Set the point of eq in a sumcheck, n coordinates in all proofs.

    The coordinates are 1/2 in `log_below` wire variables, then the point of the instances.
    """
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        rounds = log_below + sizes.log_instances
        proof_index, variable = i // rounds, i % rounds
        prover_state = StateMemory(f, states, proof_index, sizes)
        with k.if_(variable < log_below) as branch:
            branch.yield_(f.bounded(f.one() * ((field.modulus.value + 1) // 2)))
        with branch.otherwise():
            branch.yield_(prover_state.load(prover_state.instance_point + variable - log_below))
        f.store(points, i, branch.results)
