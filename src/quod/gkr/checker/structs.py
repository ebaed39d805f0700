"""The structs of the checking kernels."""

from __future__ import annotations

from quod.kernel import U32, Pointer, Struct


class Tiles(Struct):
    """The tiles of a launch, one workgroup each: the first tile, and the tiles per proof."""

    first: U32
    count: U32


class PerProof(Struct):
    """An array of all proofs with `stride` entries per proof: elements or 32-bit words."""

    stride: U32
    entries: Pointer[U32]


class Records(Struct):
    """The records of all proofs, `stride` per proof, and the first record that a kernel writes."""

    stride: U32
    first: U32
    words: Pointer[U32]


class ProofElements(Struct):
    """The elements of all proofs, `elements` per proof, and their digests, `digests` per proof.

    The digests of all proofs begin at word `first_digest`.
    """

    elements: U32
    digests: U32
    first_digest: U32
    words: Pointer[U32]


class PartialSums(Struct):
    """The partial sums of all proofs, `stride` per proof, and a tag for each partial sum.

    tags: the first word of the tags. A tag is the ticket of the run that wrote the partial sum.
    run_start: the ticket of the current run, then the states of the transcripts.
    """

    stride: U32
    tags: U32
    words: Pointer[U32]
    run_start: Pointer[U32]


class GateTables(Struct):
    """Gates as columns of `total` entries, the rows of the partial sums, and the coefficients.

    `numbers` is the number of the circuit's coefficients. `coefficients` begins with them; the
    public inputs of all proofs follow, `public` per proof, each for 2**log_instances instances.
    """

    total: U32
    numbers: U32
    public: U32
    log_instances: U32
    rows: Pointer[U32]
    gates: Pointer[U32]
    coefficients: Pointer[U32]


class Challenges(Struct):
    """The challenges of all proofs, `stride` per proof, and the first random coefficient."""

    stride: U32
    first_random: U32
    elements: Pointer[U32]
