"""Structs that the checking kernels take."""

from __future__ import annotations

from quod.kernel import U32, Pointer, Struct


class Tiles(Struct):
    """The tiles of a launch, a workgroup each: the first one, and how many there are of a proof."""

    first: U32
    count: U32


class PerProof(Struct):
    """An array of all proofs, `stride` entries a proof: elements, or words that are no elements."""

    stride: U32
    entries: Pointer[U32]


class Records(Struct):
    """The records of all proofs, `stride` a proof, and the first one that a kernel writes."""

    stride: U32
    first: U32
    words: Pointer[U32]


class Sent(Struct):
    """The elements that were sent of all proofs, `elements` a proof.

    From the word `first_digest` on stand their digests, `digests` a proof.
    """

    elements: U32
    digests: U32
    first_digest: U32
    words: Pointer[U32]


class PartialSums(Struct):
    """The parts of all sums, `stride` a proof, and the run's ticket.

    From the word `tags` on stands the ticket of the run for each part.
    """

    stride: U32
    tags: U32
    words: Pointer[U32]
    begun: Pointer[U32]


class GateTables(Struct):
    """Gates as columns of `total` entries, the rows of their parts, and their coefficients.

    `coefficients` has the `numbers` of the circuit, then the public inputs of all proofs, `public`
    a proof, each for 2**log_instances instances.
    """

    total: U32
    numbers: U32
    public: U32
    log_instances: U32
    rows: Pointer[U32]
    gates: Pointer[U32]
    coefficients: Pointer[U32]


class Challenges(Struct):
    """The challenges of all proofs, `stride` a proof, and the first random coefficient."""

    stride: U32
    first_random: U32
    elements: Pointer[U32]
