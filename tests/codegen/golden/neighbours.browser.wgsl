// Kernel neighbours, written by Quod.
enable subgroups;
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
@group(0) @binding(3) var<storage, read_write> buffer2: array<u32>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v1 = local_id;
  let v2 = group_id * 64u + v1;
  let v3 = buffer0[v2];
  let v4 = subgroupShuffle(v3, (v1 % 32u + 1u) % 32u);
  let v5 = buffer0[v2];
  let v6 = v5 + v4;
  let v7 = v2 * 2u;
  buffer1[v7] = v6;
  buffer1[v7 + 1u] = select(0u, 1u, v6 < v5);
  let v8 = buffer0[v2];
  let v9 = subgroupBallot(v4 < v8).x;
  buffer2[v2] = v9;
}
