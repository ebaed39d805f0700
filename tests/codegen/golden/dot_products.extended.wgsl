// Kernel dot_products, written by Quod.
struct Parameters { words: array<vec4<u32>, 1> }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read_write> buffer0: array<u32>;
@group(0) @binding(2) var<storage, read_write> buffer1: array<u32>;
@group(0) @binding(3) var<storage, read_write> buffer2: array<u32>;
fn f0_accumulate(a0: u64, a1: u64, a2: u64) -> u64 {
  return a0 + (((a1 & 4503599627370495lu) * (a2 & 4503599627370495lu)) & 4503599627370495lu);
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
    let v19 = u64(v3) | (u64(v4) << 32u);
    let v20 = f0_accumulate(v19, v19, u64(v11) | (u64(v12) << 32u));
    let v21 = u64(v5) | (u64(v6) << 32u);
    let v22 = f0_accumulate(v20, v21, u64(v13) | (u64(v14) << 32u));
    let v23 = u64(v7) | (u64(v8) << 32u);
    let v24 = f0_accumulate(v22, v23, u64(v15) | (u64(v16) << 32u));
    let v25 = u64(v17) | (u64(v18) << 32u);
    let v26 = f0_accumulate(v24, u64(v9) | (u64(v10) << 32u), v25);
    let v27 = v26 + v21;
    let v28 = v23 + v25 + select(0lu, 1lu, v27 < v26);
    let v29 = v1 * 2u * 2u;
    buffer2[v29] = u32(v27);
    buffer2[v29 + 1u] = u32(v27 >> 32u);
    buffer2[v29 + 2u] = u32(v28);
    buffer2[v29 + 3u] = u32(v28 >> 32u);
  }
}
