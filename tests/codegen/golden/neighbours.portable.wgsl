// Kernel neighbours, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
@group(0) @binding(3) var<storage, read_write> buffer2: array<u32>;
var<workgroup> shared0: array<u32, 64>;
var<workgroup> shared1: array<atomic<u32>, 2>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v1 = local_id;
  let v2 = group_id * 64u + v1;
  let v3 = buffer0[v2];
  let v4 = v1 % 32u;
  let v5 = v1 / 32u;
  shared0[v1] = v3;
  workgroupBarrier();
  let v6 = shared0[min(v5 * 32u + (v4 + 1u) % 32u, 63u)];
  workgroupBarrier();
  let v7 = buffer0[v2];
  let v8 = v7 + v6;
  let v9 = v2 * 2u;
  buffer1[v9] = v8;
  buffer1[v9 + 1u] = select(0u, 1u, v8 < v7);
  let v10 = buffer0[v2];
  if (v4 == 0u) {
    atomicStore(&shared1[v5], 0u);
  }
  workgroupBarrier();
  if (v6 < v10) {
    let v11 = atomicOr(&shared1[v5], 1u << (v4 & 31u));
  }
  workgroupBarrier();
  let v12 = atomicLoad(&shared1[v5]);
  workgroupBarrier();
  buffer2[v2] = v12;
}
