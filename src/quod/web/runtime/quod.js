/**
 * Proofs of one circuit in the browser, in the shape of snarkjs:
 *
 *     import { load } from "./quod.js";
 *     const prover = await load("./");
 *     const { proof, publicSignals } = await prover.prove(input, { onProgress });
 */
import { curveOf, g1FromJson, g1ToJson, g2FromJson, g2ToJson, integerOf, pointFromWords } from "./curve.js";
import { VerificationError } from "./errors.js";
import { checkedFile, reader } from "./files.js";
import { loadGraph } from "./graph.js";
import { loadCalculator, loadKey, readSite, takesWitness } from "./site.js";
import { verify } from "./verify.js";

export * from "./errors.js";
export { LIMITS } from "./files.js";
export { loadGraph } from "./graph.js";
export { parseStrict, verify } from "./verify.js";
export { parseInput } from "./witness.js";

/** @typedef {import("./graph.js").Progress} Progress */

/**
 * A uniformly random number below r.
 * @param {bigint} r
 */
function randomBelow(r) {
  for (;;) {
    const value = integerOf(crypto.getRandomValues(new Uint8Array(32))) & ((1n << BigInt(r.toString(2).length)) - 1n);
    if (value < r) return value;
  }
}

/**
 * Loads key, kernels and witness calculator. Throws InputError, MismatchError or DeviceError.
 * @param {string | URL} folder Of the exported site.
 * @param {object} [options]
 * @param {GPUDevice} [options.device]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {import("./files.js").Read} [options.read]
 * @param {number} [options.watchdog]
 */
export async function load(folder, { read = reader(folder), device, onProgress, watchdog } = {}) {
  const site = await readSite(read);
  const [calculator, key, document] = await Promise.all([
    loadCalculator(read, site), loadKey(read, site), checkedFile(read, site.files, "graph.json"),
  ]);
  const graph = await loadGraph(folder, device, { read, onProgress, watchdog, document });
  return new Prover(site, curveOf(site.curve), calculator, key, graph);
}

export class Prover {
  /**
   * @param {any} site
   * @param {import("./curve.js").Curve} curve
   * @param {import("./witness.js").WitnessCalculator | import("./witness_file.js").WitnessFile} calculator
   * @param {any} verificationKey
   * @param {import("./graph.js").Graph} graph
   */
  constructor(site, curve, calculator, verificationKey, graph) {
    this.site = site;
    this.curve = curve;
    this.calculator = calculator;
    this.verificationKey = verificationKey;
    this.graph = graph;
    /** @type {Promise<unknown>} */
    this.last = Promise.resolve();
  }

  /**
   * A verified proof and its public signals. Calls wait for one another.
   *
   * InputError for an input that is malformed or does not satisfy the circuit, DeviceError for a GPU
   * that fails, VerificationError if the result does not verify.
   * @param {unknown} input By signal: numbers, text, or lists of them; of a site without a calculator the bytes of
   *   a witness file.
   * @param {{ onProgress?: (progress: Progress) => void }} [options]
   */
  prove(input, { onProgress = () => {} } = {}) {
    const proof = this.last.then(() => this.proveNow(input, onProgress));
    this.last = proof.catch(() => {});
    return proof;
  }

  /**
   * @param {unknown} input
   * @param {(progress: Progress) => void} onProgress
   */
  async proveNow(input, onProgress) {
    const total = this.graph.stages.length + 2;
    let before = performance.now();
    /** @type {import("./graph.js").Timing[]} */
    const timings = [];
    const note = (/** @type {string} */ stage) => {
      timings.push({ stage, seconds: (performance.now() - before) / 1000 });
      before = performance.now();
    };
    const witness = await this.calculator.witness(input);
    note("witness");
    onProgress({ step: "witness", done: 1, total });
    const { outputs, timings: ofGraph } = await this.graph.run({ witness }, {
      onProgress: ({ step, done }) => onProgress({ step, done: done + 1, total }),
    });
    timings.push(...ofGraph);
    before = performance.now();
    const proof = this.assemble(outputs);
    note("assemble");
    const size = witness.length / this.site.variables;
    /** @type {string[]} */
    const publicSignals = [];
    for (let i = 1; i <= this.site.public; i++) publicSignals.push(String(integerOf(witness.subarray(i * size, (i + 1) * size))));
    if (!this.verify(publicSignals, proof))
      throw new VerificationError(`the GPU computed something that is no proof, so nothing is shown: ${
        takesWitness(this.site) ? "most likely the witness does not satisfy the circuit; else " : ""}its driver may be faulty, or the key belongs to another circuit`);
    note("self-check");
    onProgress({ step: "self-check", done: total, total });
    return { proof, publicSignals, timings };
  }

  /**
   * The proof from the five sums (Groth, "On the size of pairing-based non-interactive arguments", 2016),
   * blinded with fresh r and s.
   * @param {Record<string, Uint8Array>} outputs
   */
  assemble(outputs) {
    const { g1, g2, r: order } = this.curve;
    for (const [name, flag] of Object.entries(outputs))
      if (name.endsWith(" flag") && flag.some((byte) => byte !== 0))
        throw new VerificationError(`the GPU found scalars of sum ${name.slice(0, -5)} that are not below r: its driver may be faulty`);
    const point = (/** @type {string} */ name, /** @type {1 | 2} */ degree = 1) =>
      outputs[name] ? pointFromWords(this.curve, degree, outputs[name]) : null;
    const { points } = this.site;
    const first = (/** @type {string} */ name) => g1FromJson(this.curve, points[name], name);
    const second = (/** @type {string} */ name) => g2FromJson(this.curve, points[name], name);
    const [r, s] = [randomBelow(order), randomBelow(order)];
    const delta = first("delta1");
    const a = g1.add(first("alpha1"), point("A"));
    const b1 = g1.add(first("beta1"), point("B1"));
    const b2 = g2.add(second("beta2"), point("B2", 2));
    const c = [g1.mul(s, a), g1.mul(r, b1), g1.mul((r * s) % order, delta), point("H")].reduce((x, y) => g1.add(x, y), point("C"));
    return {
      pi_a: g1ToJson(g1.add(a, g1.mul(r, delta))),
      pi_b: g2ToJson(g2.add(b2, g2.mul(s, second("delta2")))),
      pi_c: g1ToJson(c),
      protocol: "groth16",
      curve: this.curve.snarkjs,
    };
  }

  /**
   * True if a proof is valid under the site's key; see `verify`.
   * @param {unknown} publicSignals
   * @param {unknown} proof
   */
  verify(publicSignals, proof) {
    return verify(this.verificationKey, publicSignals, proof, { allowInsecure: this.site.insecure === true });
  }

  /** Frees the GPU's memory; the prover cannot be used afterwards. */
  destroy() {
    this.graph.destroy();
  }
}
