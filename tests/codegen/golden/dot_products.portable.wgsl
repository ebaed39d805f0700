// Kernel dot_products, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
@group(0) @binding(3) var<storage, read_write> buffer2: array<u32>;
struct Values0 { m0: u32, m1: u32 }
fn f1_multiply_high(a0: u32, a1: u32) -> u32 {
  let v1 = a0 & 65535u;
  let v2 = a0 >> 16u;
  let v3 = a1 & 65535u;
  let v4 = a1 >> 16u;
  let v5 = v2 * v3 + ((v1 * v3) >> 16u);
  return v2 * v4 + (v5 >> 16u) + (((v5 & 65535u) + v1 * v4) >> 16u);
}
fn f0_accumulate(a0: u32, a1: u32, a2: u32, a3: u32, a4: u32, a5: u32) -> Values0 {
  let v1 = f1_multiply_high(a2, a4);
  let v2 = a0 + a2 * a4;
  return Values0(v2, a1 + ((v1 + a2 * (a5 & 1048575u) + (a3 & 1048575u) * a4) & 1048575u) + select(0u, 1u, v2 < a0));
}
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(local_invocation_index) local_id: u32, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>) {
  let group_id = group.y * grid.x + group.x;
  if (group_id >= parameters.words[0].x) { return; }
  let v1 = group_id * 64u + local_id;
  if (v1 < parameters.words[0].y) {
    let v2 = v1 * 4u * 2u;
    let v3 = buffer0[v2];
    let v4 = buffer0[v2 + 1u];
    let v5 = buffer0[v2 + 2u];
    let v6 = buffer0[v2 + 3u];
    let v7 = buffer0[v2 + 4u];
    let v8 = buffer0[v2 + 5u];
    let v9 = buffer0[v2 + 6u];
    let v10 = buffer0[v2 + 7u];
    let v11 = buffer1[v2];
    let v12 = buffer1[v2 + 1u];
    let v13 = buffer1[v2 + 2u];
    let v14 = buffer1[v2 + 3u];
    let v15 = buffer1[v2 + 4u];
    let v16 = buffer1[v2 + 5u];
    let v17 = buffer1[v2 + 6u];
    let v18 = buffer1[v2 + 7u];
    let v19 = f0_accumulate(v3, v4, v3, v4, v11, v12);
    let v20 = f0_accumulate(v19.m0, v19.m1, v5, v6, v13, v14);
    let v21 = f0_accumulate(v20.m0, v20.m1, v7, v8, v15, v16);
    let v22 = f0_accumulate(v21.m0, v21.m1, v9, v10, v17, v18);
    let v23 = v22.m0 + v5;
    let v24 = v22.m1 + v6;
    let v25 = v24 + select(0u, 1u, v23 < v22.m0);
    let v26 = v7 + v17;
    let v27 = v26 + select(0u, 1u, (v24 < v22.m1) | (v25 < v24));
    let v28 = v1 * 2u * 2u;
    buffer2[v28] = v23;
    buffer2[v28 + 1u] = v25;
    buffer2[v28 + 2u] = v27;
    buffer2[v28 + 3u] = v8 + v18 + select(0u, 1u, (v26 < v7) | (v27 < v26));
  }
}
