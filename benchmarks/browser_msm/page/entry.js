/**
 * Runs the prize entry as its harness does: whole calls of `compute_msm`, which makes a device, its
 * kernels and its buffers each time. What it waits for kernels to compile is counted aside.
 */

let compiling = 0;
const errors = [];

/** The entry makes its pipelines one by one. */
const makePipeline = GPUDevice.prototype.createComputePipelineAsync;
GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
  const begin = performance.now();
  try {
    return await makePipeline.call(this, descriptor);
  } finally {
    compiling += performance.now() - begin;
  }
};

/** The entry does not look at the errors of its device. */
const requestDevice = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (descriptor) {
  const device = await requestDevice.call(this, descriptor);
  device.addEventListener("uncapturederror", ({ error }) => errors.push(error.message));
  device.lost.then(({ reason, message }) => reason === "destroyed" || errors.push(message));
  return device;
};

let entry;

/** One call: milliseconds in all and of these for kernels, and the point in decimal. */
export async function run() {
  if (!entry) {
    const { compute_msm, Buffer } = await import("./entry-bundle.js");
    const [points, scalars] = await Promise.all(
      ["points.bin", "scalars.bin"].map(async (name) => Buffer.from(await (await fetch(name)).arrayBuffer())),
    );
    entry = () => compute_msm(points, scalars, false);
  }
  compiling = 0;
  const begin = performance.now();
  const { x, y } = await entry();
  const total = performance.now() - begin;
  if (errors.length) throw new Error(`the entry's device says: ${errors[0]}`);
  return { total, compiling, x: x.toString(), y: y.toString() };
}
