// Kernel reduce_sum, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
var<workgroup> shared0: array<u32, 64>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v1 = local_id;
  let v2 = group_id;
  let v3 = v2 * 64u + v1;
  var v4: u32;
  if (v3 < parameters.words[0].y) {
    let v5 = buffer0[v3];
    v4 = v5;
  } else {
    v4 = 0u;
  }
  shared0[v1] = v4;
  workgroupBarrier();
  let v6 = v1 + 32u;
  if (v6 < 64u) {
    let v7 = shared0[v1];
    let v8 = shared0[v6];
    shared0[v1] = v7 + v8;
  }
  workgroupBarrier();
  let v9 = v1 + 16u;
  if (v9 < 32u) {
    let v10 = shared0[v1];
    let v11 = shared0[v9];
    shared0[v1] = v10 + v11;
  }
  workgroupBarrier();
  let v12 = v1 + 8u;
  if (v12 < 16u) {
    let v13 = shared0[v1];
    let v14 = shared0[v12];
    shared0[v1] = v13 + v14;
  }
  workgroupBarrier();
  let v15 = v1 + 4u;
  if (v15 < 8u) {
    let v16 = shared0[v1];
    let v17 = shared0[v15];
    shared0[v1] = v16 + v17;
  }
  workgroupBarrier();
  let v18 = v1 + 2u;
  if (v18 < 4u) {
    let v19 = shared0[v1];
    let v20 = shared0[v18];
    shared0[v1] = v19 + v20;
  }
  workgroupBarrier();
  let v21 = v1 + 1u;
  if (v21 < 2u) {
    let v22 = shared0[v1];
    let v23 = shared0[v21];
    shared0[v1] = v22 + v23;
  }
  workgroupBarrier();
  if (v1 == 0u) {
    let v24 = shared0[v1];
    buffer1[v2] = v24;
  }
}
