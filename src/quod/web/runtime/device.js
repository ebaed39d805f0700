/** Opens the browser's GPU with the limits that a site needs, or reports why it cannot. */
import { DeviceError, messageOf } from "./errors.js";

/**
 * @typedef {object} Needs
 * @property {Record<string, number>} limits The least value of each limit, by WebGPU's name.
 * @property {string[]} features
 * @property {number} memory The total size of all buffers, in bytes.
 */

/** @param {number} bytes */
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/**
 * Returns the browser's GPU adapter. Throws DeviceError if there is none, or if it lacks a limit or feature.
 * @param {Needs} needs
 * @returns {Promise<GPUAdapter>}
 */
export async function findAdapter(needs) {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu && globalThis.isSecureContext === false)
    throw new DeviceError("browsers offer WebGPU only to pages from https or localhost: open this page there");
  if (!gpu)
    throw new DeviceError(
      "this browser has no WebGPU. Chrome and Edge from 113, Safari from 26 and Firefox from 141 have WebGPU; " +
        "on Linux you may have to turn WebGPU on in the browser's settings");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter)
    throw new DeviceError(
      "this browser has WebGPU but found no GPU that it can use: check that graphics acceleration is on in " +
        "the browser's settings, and that the GPU's driver is up to date");
  for (const [name, needed] of Object.entries(needs.limits)) {
    const limit = Number(/** @type {any} */ (adapter.limits)[name] ?? 0);
    if (limit < needed)
      throw new DeviceError(`this GPU is too small for this page: its ${name} is ${limit}, and the page needs ${needed}`);
  }
  for (const feature of needs.features)
    if (!adapter.features.has(feature)) throw new DeviceError(`this GPU lacks the feature ${feature}, which the site needs`);
  return adapter;
}

/**
 * @param {Needs} needs
 * @returns {Promise<GPUDevice>}
 */
export async function openDevice(needs) {
  const adapter = await findAdapter(needs);
  const timestamps = adapter.features.has("timestamp-query") ? ["timestamp-query"] : [];
  try {
    return await adapter.requestDevice({
      requiredLimits: needs.limits,
      requiredFeatures: /** @type {GPUFeatureName[]} */ ([...needs.features, ...timestamps]),
    });
  } catch (error) {
    throw new DeviceError(`the GPU could not be opened: ${messageOf(error)}`);
  }
}

/**
 * Returns the name of a GPU as far as the browser reports it, else "GPU".
 * @param {GPUAdapterInfo} info
 */
export function nameOf(info) {
  const { vendor, architecture, description } = info ?? {};
  return description || [vendor, architecture].filter(Boolean).join(" ") || "GPU";
}

/**
 * Returns true if the CPU emulates the GPU, which is much slower.
 * @param {GPUAdapterInfo} info
 */
export const isSoftware = (info) =>
  Boolean(info?.isFallbackAdapter) ||
  /swiftshader|llvmpipe|lavapipe|software|warp/i.test([info?.vendor, info?.architecture, info?.description].join(" "));

/**
 * Returns the result of a promise. Throws DeviceError if the GPU is lost or `seconds` pass first.
 * @template T
 * @param {GPUDevice} device
 * @param {Promise<T>} promise
 * @param {number} seconds
 * @param {string} what The awaited step, for messages.
 * @returns {Promise<T>}
 */
export function guarded(device, promise, seconds, what) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new DeviceError(`the GPU has not answered for ${seconds} s during ${what}: it hangs or is too slow; load the page again`));
    }, 1000 * seconds);
    device.lost.then(({ reason, message }) =>
      reject(new DeviceError(`the GPU was lost during ${what} (${message || reason}); close other tabs that use the GPU and load the page again`)));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Runs a function that creates GPU objects. Throws DeviceError if WebGPU reports an error meanwhile.
 * @template T
 * @param {GPUDevice} device
 * @param {string} what The beginning of the message.
 * @param {() => T | Promise<T>} make
 * @returns {Promise<T>}
 */
export async function scoped(device, what, make) {
  /** @type {GPUErrorFilter[]} */
  const kinds = ["out-of-memory", "internal", "validation"];
  kinds.forEach((kind) => device.pushErrorScope(kind));
  let result, exception;
  try {
    result = await make();
  } catch (error) {
    exception = error;
  }
  const problems = [];
  for (const kind of [...kinds].reverse()) {
    const error = await device.popErrorScope();
    if (error) problems.push(kind === "out-of-memory" ? "the GPU has not enough memory" : error.message);
  }
  if (problems.length) throw new DeviceError(`${what}: ${problems.join("; ").slice(0, 400)}`);
  if (exception) throw exception;
  return /** @type {T} */ (result);
}
