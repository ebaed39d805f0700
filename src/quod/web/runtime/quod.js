/**
 * Groth16 proofs of one exported circuit in the browser, in snarkjs's format:
 *
 *     import { load } from "./quod.js";
 *     const prover = await load("./");
 *     const { proof, publicSignals } = await prover.prove(input, { onProgress });
 */
import { curveOf, g1FromJson, g1ToJson, g2FromJson, g2ToJson, integerOf } from "./curve.js";
import { VerificationError } from "./errors.js";
import { checkedFile, reader } from "./files.js";
import { compileGraph, loadGraph } from "./graph.js";
import { addPartialSums } from "./msm.js";
import { loadAction, loadCalculator, loadKey, readSite, takesWitness } from "./site.js";
import { verify } from "./verify.js";

export * from "./errors.js";
export { LIMITS } from "./files.js";
export { loadGraph } from "./graph.js";
export { parseStrict, verify } from "./verify.js";
export { parseInput } from "./witness.js";

/** @typedef {import("./graph.js").Progress} Progress */

/**
 * Returns a uniformly random number below r.
 * @param {bigint} r
 */
function randomBelow(r) {
  for (;;) {
    const value = integerOf(crypto.getRandomValues(new Uint8Array(32))) & ((1n << BigInt(r.toString(2).length)) - 1n);
    if (value < r) return value;
  }
}

/**
 * Starts to compile the kernels, before the key is loaded; returns the option `graph` of `load`. Throws InputError or
 * DeviceError.
 * @param {string | URL} folder The URL of the exported site.
 * @param {object} [options]
 * @param {GPUDevice} [options.device]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {import("./files.js").Read} [options.read]
 * @param {number} [options.watchdog]
 */
export async function compile(folder, { read = reader(folder), device, onProgress, watchdog } = {}) {
  const document = await checkedFile(read, (await readSite(read)).files, "graph.json");
  return compileGraph(folder, device, { read, onProgress, watchdog, document });
}

/**
 * Loads the key, the kernels and the witness calculator. Throws InputError, MismatchError or DeviceError.
 * @param {string | URL} folder The URL of the exported site.
 * @param {object} [options]
 * @param {GPUDevice} [options.device]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {import("./files.js").Read} [options.read]
 * @param {(message: string) => void} [options.onNotice]
 * @param {boolean} [options.store]
 * @param {number} [options.watchdog]
 * @param {Promise<import("./graph.js").Graph>} [options.graph] The result of `compile`; default: compiles here.
 */
export async function load(folder, { read = reader(folder), device, onProgress, onNotice, store, watchdog, graph } = {}) {
  graph ??= compile(folder, { read, device, onProgress, watchdog });
  const site = await readSite(read);
  const [calculator, action, key, loadedGraph] = await Promise.all([
    loadCalculator(read, site), loadAction(site), loadKey(read, site),
    graph.then((compiled) => loadGraph(folder, device, { read, onProgress, onNotice, store, graph: compiled })),
  ]);
  return new Prover(site, curveOf(site.curve), calculator, action, key, loadedGraph);
}

export class Prover {
  /**
   * @param {any} site
   * @param {import("./curve.js").Curve} curve
   * @param {import("./witness.js").WitnessCalculator | import("./witness_file.js").WitnessFile} calculator
   * @param {import("./zcash/action.js").Action | undefined} action
   * @param {any} verificationKey
   * @param {import("./graph.js").Graph} graph
   */
  constructor(site, curve, calculator, action, verificationKey, graph) {
    this.site = site;
    this.curve = curve;
    this.calculator = calculator;
    this.action = action;
    this.verificationKey = verificationKey;
    this.graph = graph;
    /**
     * Settles when the previous proof has ended.
     * @type {Promise<unknown>}
     */
    this.previous = Promise.resolve();
  }

  /**
   * Computes a proof, verifies it and returns it with the public signals. Calls run one at a time.
   *
   * Throws InputError for an input that is malformed or does not satisfy the circuit, DeviceError if the GPU
   * fails, VerificationError if the proof does not verify.
   * @param {unknown} input Values by signal name: numbers, strings, or lists of them. On a site without a
   *   calculator: the bytes of a witness file. On a site of an action: its document.
   * @param {{ onProgress?: (progress: Progress) => void }} [options]
   */
  prove(input, { onProgress = () => {} } = {}) {
    const result = this.previous.then(() => this.proveNow(input, onProgress));
    this.previous = result.catch(() => {});
    return result;
  }

  /**
   * Computes a proof, as `prove` does, while no other proof is computed.
   * @param {unknown} input
   * @param {(progress: Progress) => void} onProgress
   */
  async proveNow(input, onProgress) {
    const total = this.graph.stages.length + 2;
    let stageStart = performance.now();
    /** @type {import("./graph.js").Timing[]} */
    const timings = [];
    const endStage = (/** @type {string} */ stage) => {
      timings.push({ stage, seconds: (performance.now() - stageStart) / 1000 });
      stageStart = performance.now();
    };
    const information = this.action?.read(input);
    const witness = await this.calculator.witness(information ? information.inputs : input);
    const size = witness.length / this.site.variables;
    /** @type {string[]} */
    const publicSignals = [];
    for (let i = 1; i <= this.site.public; i++) publicSignals.push(String(integerOf(witness.subarray(i * size, (i + 1) * size))));
    const statement = this.action?.encode(publicSignals);
    endStage("witness");
    onProgress({ step: "witness", done: 1, total });
    const { outputs, timings: graphTimings } = await this.graph.run({ witness }, {
      onProgress: ({ step, done }) => onProgress({ step, done: done + 1, total }),
    });
    timings.push(...graphTimings);
    stageStart = performance.now();
    const proof = this.assemble(outputs);
    endStage("assemble");
    if (!this.verify(publicSignals, proof))
      throw new VerificationError(`the computed proof does not verify, so it is not shown: ${
        takesWitness(this.site) ? "most likely the witness does not satisfy the circuit; otherwise " : ""}the GPU's driver may be faulty, or the key belongs to another circuit`);
    endStage("self-check");
    onProgress({ step: "self-check", done: total, total });
    const description = this.action && { ...statement, proof: this.action.encodeProof(proof) };
    return { proof, publicSignals, timings, ...(information && { description, secrets: information.secrets }) };
  }

  /**
   * Computes the proof from the five multi-scalar products (Groth, "On the size of pairing-based non-interactive
   * arguments", 2016), blinded with fresh r and s.
   * @param {Record<string, Uint8Array>} outputs The partial sums of A, B1, B2, C and H, and for each an error flag.
   */
  assemble(outputs) {
    const { g1, g2, r: order } = this.curve;
    for (const [name, flag] of Object.entries(outputs))
      if (name.endsWith(" flag") && flag.some((byte) => byte !== 0))
        throw new VerificationError(`the GPU computed scalars of the sum ${name.slice(0, -5)} that are not below r; its driver may be faulty`);
    const { points, msms } = this.site;
    const point = (/** @type {string} */ name, /** @type {1 | 2} */ degree = 1) =>
      outputs[name] ? addPartialSums(this.curve, degree, msms[name], outputs[name]) : null;
    const keyG1 = (/** @type {string} */ name) => g1FromJson(this.curve, points[name], name);
    const keyG2 = (/** @type {string} */ name) => g2FromJson(this.curve, points[name], name);
    const [r, s] = [randomBelow(order), randomBelow(order)];
    const delta = keyG1("delta1");
    const a = g1.add(keyG1("alpha1"), point("A"));
    const b1 = g1.add(keyG1("beta1"), point("B1"));
    const b2 = g2.add(keyG2("beta2"), point("B2", 2));
    const c = [g1.mul(s, a), g1.mul(r, b1), g1.mul((r * s) % order, delta), point("H")].reduce((x, y) => g1.add(x, y), point("C"));
    return {
      pi_a: g1ToJson(g1.add(a, g1.mul(r, delta))),
      pi_b: g2ToJson(g2.add(b2, g2.mul(s, keyG2("delta2")))),
      pi_c: g1ToJson(c),
      protocol: "groth16",
      curve: this.curve.snarkjs,
    };
  }

  /**
   * Returns true if a proof is valid under the site's key; see `verify`.
   * @param {unknown} publicSignals
   * @param {unknown} proof
   */
  verify(publicSignals, proof) {
    return verify(this.verificationKey, publicSignals, proof, { allowInsecure: this.site.insecure === true });
  }

  /** Frees the GPU memory; the prover cannot be used afterwards. */
  destroy() {
    this.graph.destroy();
  }
}
