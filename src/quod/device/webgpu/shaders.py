"""The few kernels that the device itself needs, as WGSL written by hand."""

from __future__ import annotations

COUNT = """\
@group(0) @binding(1) var<storage, read_write> state: array<u32>;

@compute @workgroup_size(1)
fn main() {
    let count = state[0] + 1u;
    state[0] = count;
    state[1] = (count ^ 0x5bd1e995u) * 2654435769u;
    state[2] = 0x51554f44u;
    state[3] = state[4];
    state[4] = 0u;
}
"""
"""Runs at the end of every submission: increments the count, and stores two words derived from it.

Word 3 gets what the submission's kernels have left in word 4, which is then reset.
"""
STATE_BYTES = 32


def count_words(count: int) -> tuple[int, int, int]:
    """Return the words that `COUNT` stores for submission `count`, counted from 1."""
    mask = 0xFFFFFFFF
    return count & mask, ((count & mask) ^ 0x5BD1E995) * 2654435769 & mask, 0x51554F44


FILL = """\
struct Parameters { word: u32, first: u32, count: u32, unused: u32 }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> memory: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) grid: vec3<u32>) {
    let index = (group.y * grid.x + group.x) * 64u + lane;
    if (index < parameters.count) {
        memory[parameters.first + index] = parameters.word;
    }
}
"""
"""Sets `count` words from `first` on."""
FILL_LANES = 64

SUBGROUPS = """\
@group(0) @binding(1) var<storage, read_write> state: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_size) size: u32,
        @builtin(subgroup_invocation_id) index: u32) {
    state[2u * lane] = size;
    state[2u * lane + 1u] = index;
}
"""
"""Stores the size of each instance's subgroup and its index in the subgroup."""
SUBGROUP_LANES = 64

LOOPS = """\
@group(0) @binding(1) var<storage, read_write> state: array<u32>;

@compute @workgroup_size(1)
fn main() {
    var count = 0u;
    for (var outer = 0u; outer < 300u; outer++) {
        for (var inner = 0u; inner < 300u; inner++) {
            count += state[0] + 1u;
        }
    }
    state[1] = count;
}
"""
"""Counts to 90,000 in nested loops: some drivers end long loops early and report no error."""
LOOP_COUNT = 90_000
