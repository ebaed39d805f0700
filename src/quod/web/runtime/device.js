/** The browser's GPU: requested with the limits that are needed, or a clear error. */
import { DeviceError, said } from "./errors.js";

/**
 * @typedef {object} Needs
 * @property {Record<string, number>} limits By WebGPU's names.
 * @property {string[]} features
 * @property {number} memory Bytes of buffers in all.
 */

/** @param {number} bytes */
export const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;

/**
 * The browser's GPU with the required limits and features; DeviceError says why there is none.
 * @param {Needs} needs
 * @returns {Promise<GPUAdapter>}
 */
export async function findAdapter(needs) {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu && globalThis.isSecureContext === false)
    throw new DeviceError("browsers give pages a GPU over https and on localhost only: open this page there");
  if (!gpu)
    throw new DeviceError(
      "this browser has no WebGPU. Chrome and Edge 113, Safari 26, Firefox 141 and later ones have it; " +
        "on Linux it may have to be turned on in the settings");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter)
    throw new DeviceError(
      "this browser has WebGPU but found no GPU that it can use: see whether graphics acceleration is on in " +
        "its settings, and whether the driver is up to date");
  for (const [name, needed] of Object.entries(needs.limits)) {
    const there = Number(/** @type {any} */ (adapter.limits)[name] ?? 0);
    if (there < needed)
      throw new DeviceError(`this GPU is too small for this page: its ${name} is ${there}, and ${needed} is needed`);
  }
  for (const feature of needs.features)
    if (!adapter.features.has(feature)) throw new DeviceError(`this GPU lacks ${feature}, which the site was exported for`);
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
    throw new DeviceError(`the GPU could not be opened: ${said(error)}`);
  }
}

/**
 * The name of a GPU, as far as the browser reports it.
 * @param {GPUAdapterInfo} info
 */
export function nameOf(info) {
  const { vendor, architecture, description } = info ?? {};
  return description || [vendor, architecture].filter(Boolean).join(" ") || "GPU";
}

/**
 * True if the CPU emulates the GPU, which is much slower.
 * @param {GPUAdapterInfo} info
 */
export const isSoftware = (info) =>
  Boolean(info?.isFallbackAdapter) ||
  /swiftshader|llvmpipe|lavapipe|software|warp/i.test([info?.vendor, info?.architecture, info?.description].join(" "));

/**
 * The result of a promise; DeviceError if the GPU is lost or `seconds` pass first.
 * @template T
 * @param {GPUDevice} device
 * @param {Promise<T>} promise
 * @param {number} seconds
 * @param {string} what
 * @returns {Promise<T>}
 */
export function guarded(device, promise, seconds, what) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new DeviceError(`the GPU has not answered for ${seconds} s during ${what}: it hangs, or is too slow; load the page again`));
    }, 1000 * seconds);
    device.lost.then(({ reason, message }) =>
      reject(new DeviceError(`the GPU was lost during ${what} (${message || reason}); close other tabs that use it and load the page again`)));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/**
 * Runs a function that creates GPU objects; DeviceError for validation errors.
 * @template T
 * @param {GPUDevice} device
 * @param {string} what
 * @param {() => T | Promise<T>} make
 * @returns {Promise<T>}
 */
export async function scoped(device, what, make) {
  /** @type {GPUErrorFilter[]} */
  const kinds = ["out-of-memory", "internal", "validation"];
  kinds.forEach((kind) => device.pushErrorScope(kind));
  let made, thrown;
  try {
    made = await make();
  } catch (error) {
    thrown = error;
  }
  const found = [];
  for (const kind of [...kinds].reverse()) {
    const error = await device.popErrorScope();
    if (error) found.push(kind === "out-of-memory" ? "the GPU has not enough memory" : error.message);
  }
  if (found.length) throw new DeviceError(`${what}: ${found.join("; ").slice(0, 400)}`);
  if (thrown) throw thrown;
  return /** @type {T} */ (made);
}
