// Kernel histogram, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<atomic<u32>>;
fn remainder_u32(a: u32, b: u32) -> u32 { return select(a % select(b, 1u, b == 0u), a, b == 0u); }
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v2 = parameters.words[0].y;
  for (var v1 = group_id * 64u + local_id; v1 < v2; v1 += parameters.words[0].x * 64u) {
    let v3 = buffer0[v1];
    let v4 = atomicAdd(&buffer1[remainder_u32(v3, parameters.words[0].z)], 1u);
  }
}
