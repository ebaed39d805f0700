// Kernel vector_add, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
@group(0) @binding(3) var<storage, read_write> buffer2: array<u32>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v1 = group_id * 64u + local_id;
  if (v1 < parameters.words[0].y) {
    let v2 = buffer0[v1];
    let v3 = buffer1[v1];
    buffer2[v1] = v2 + v3;
  }
}
