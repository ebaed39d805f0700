"""The kernel that fills memory with a nonzero word; WebGPU itself fills memory with zeros."""

from __future__ import annotations

import struct

GROUP = 256

FILL = f"""struct Parameters {{ words: array<vec4<u32>, 1> }}
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> memory: array<u32>;
@compute @workgroup_size({GROUP})
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>,
        @builtin(num_workgroups) grid: vec3<u32>) {{
  let word = parameters.words[0].y;
  let start = parameters.words[0].z;
  let count = parameters.words[0].w;
  let index = (group.y * grid.x + group.x) * {GROUP}u + lane;
  if (index < count) {{ memory[start + index] = word; }}
}}
"""


def fill_words(word: int, offset: int, nbytes: int) -> tuple[int, list[int]]:
    """Return the number of workgroups and the parameter block of a fill.

    offset, nbytes: the range within the binding in bytes, multiples of 4.
    """
    groups = -(-nbytes // (4 * GROUP))
    block = struct.pack("<4I", groups, word, offset // 4, nbytes // 4)
    return groups, list(struct.unpack("<4I", block))
