/** The prover in a worker, so that the page stays responsive; messages are {id, task, ...} and their answers. */
import { findAdapter, isSoftware, nameOf } from "./device.js";
import { DeviceError, packed } from "./errors.js";
import { LIMITS, reader } from "./files.js";
import { load } from "./quod.js";
import { loadCalculator, loadKey, readSite } from "./site.js";
import { parseStrict, verify } from "./verify.js";
import { parseInput } from "./witness.js";

const read = reader(new URL(".", import.meta.url));
/** @type {Promise<import("./quod.js").Prover> | undefined} */
let prover;
/** The receiver of loading progress, once a task waits for it. */
let follow = (/** @type {any} */ _progress) => {};

/** Files that could not be loaded may be available next time. */
function prepared() {
  prover ??= load(new URL(".", import.meta.url), { onProgress: (progress) => follow(progress) }).catch((error) => {
    prover = undefined;
    throw error;
  });
  return prover;
}

/** @type {Record<string, (message: any, progress: (progress: any) => void) => any>} */
const tasks = {
  /** The inputs of the circuit: the candidate signals whose size the calculator knows. */
  async inputs() {
    const site = await readSite(read);
    const calculator = await loadCalculator(read, site);
    return site.signals
      .map((/** @type {any} */ signal) => ({ ...signal, size: calculator.sizeOf(signal.name) }))
      .filter((/** @type {any} */ signal) => signal.size > 0);
  },
  async device() {
    const { info } = await findAdapter((await readSite(read)).needs);
    return { name: nameOf(info), software: isSoftware(info) };
  },
  /** Loads while the form is filled in; errors are reported when a proof is requested. */
  async prepare() {
    await prepared().catch(() => {});
  },
  async prove({ text, witness }, onProgress) {
    const input = witness ?? parseInput(text);
    follow = onProgress;
    const loaded = await prepared();
    try {
      return await loaded.prove(input, { onProgress });
    } catch (error) {
      if (error instanceof DeviceError) {
        // Reload after a failure.
        loaded.destroy();
        prover = undefined;
      }
      throw error;
    }
  },
  async verify({ publicSignals, proof }) {
    const site = await readSite(read);
    const [signals, points] = [
      parseStrict(publicSignals, "the list of public signals", LIMITS.publicSignals),
      parseStrict(proof, "the proof", LIMITS.proof),
    ];
    return verify(await loadKey(read, site), signals, points, { allowInsecure: site.insecure === true });
  },
};

globalThis.onmessage = async (/** @type {MessageEvent} */ { data: { id, task, ...message } }) => {
  try {
    const result = await tasks[task](message, (progress) => postMessage({ id, progress }));
    postMessage({ id, result });
  } catch (error) {
    postMessage({ id, error: packed(error) });
  }
};
