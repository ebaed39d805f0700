/** The training as the page has it: batches and rates by the number of a step, and the recorded step that learns from them. */
import { checkedFile, parseDocument, reader } from "./files.js";
import { loadGraph } from "./graph.js";

/** A target that is not counted. */
const NOT_COUNTED = -100;

/**
 * A number that looks random, one for each number: the last mixing of MurmurHash3.
 * @param {number} n
 */
function hashed(n) {
  n = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
  n = Math.imul(n ^ (n >>> 13), 0xc2b2ae35);
  return (n ^ (n >>> 16)) >>> 0;
}

/**
 * The inputs and targets of a step: sequences, a separator, and the sequences from their ends.
 * @param {number} step From 1 on.
 * @param {{ batch: number, tokens: number, symbols: number }} shape
 */
export function batchOf(step, { batch, tokens, symbols }) {
  const length = tokens / 2;
  const inputs = new Int32Array(batch * tokens);
  const targets = new Int32Array(batch * tokens).fill(NOT_COUNTED);
  for (let row = 0; row < batch; row++) {
    const given = Array.from({ length }, (_, i) => hashed((step * batch + row) * length + i) % (symbols - 1));
    const whole = [...given, symbols - 1, ...given.toReversed()];
    inputs.set(whole.slice(0, tokens), row * tokens);
    targets.set(whole.slice(length + 1), row * tokens + length);
  }
  return { inputs, targets };
}

/**
 * What differs from step to step of AdamW.
 * @param {number} step
 * @param {{ learningRate: number, warmUp: number, weightDecay: number, beta1: number, beta2: number }} rates
 */
export function ratesOf(step, { learningRate, warmUp, weightDecay, beta1, beta2 }) {
  const rate = learningRate * Math.min(1, step / warmUp);
  return new Float32Array([weightDecay * rate, rate / (1 - beta1 ** step), 1 / Math.sqrt(1 - beta2 ** step)]);
}

/** What the page was exported with. */
export const readTraining = async (/** @type {import("./files.js").Read} */ read = reader("./")) =>
  parseDocument(await read("training.json"), "training.json", "quod-training-1");

/**
 * @param {any} plan What `readTraining` gives.
 * @param {GPUDevice} [device]
 * @param {(progress: import("./graph.js").Progress) => void} [onProgress]
 */
export async function loadTraining(plan, device, onProgress) {
  const read = reader("./");
  const document = await checkedFile(read, plan.files, "graph.json");
  return new Training(plan, await loadGraph("./", device, { document, onProgress }));
}

export class Training {
  /**
   * @param {any} plan
   * @param {import("./graph.js").Graph} graph
   */
  constructor(plan, graph) {
    this.plan = plan;
    this.graph = graph;
    this.number = 0;
  }

  /**
   * One step; all but the batch, the rates and what it answers stays on the GPU. The answer has the loss, the share
   * of symbols that were right before the step learnt from them, and the first sequence with what was said of it.
   */
  async step() {
    const { shape, rates } = this.plan;
    const number = this.number + 1;
    const { inputs, targets } = batchOf(number, shape);
    const bytes = (/** @type {Int32Array | Float32Array} */ array) => new Uint8Array(array.buffer);
    const { outputs } = await this.graph.run({ tokens: bytes(inputs), targets: bytes(targets), rates: bytes(ratesOf(number, rates)) });
    this.number = number;
    const logits = new Float32Array(outputs.logits.buffer);
    const found = Array.from(targets, (_, row) => largest(logits.subarray(row * shape.symbols, (row + 1) * shape.symbols)));
    const counted = [...targets.keys()].filter((row) => targets[row] !== NOT_COUNTED);
    const length = shape.tokens / 2;
    return {
      number,
      loss: new Float32Array(outputs.loss.buffer)[0],
      right: counted.filter((row) => found[row] === targets[row]).length / counted.length,
      given: [...inputs.subarray(0, length)],
      said: found.slice(length, 2 * length),
    };
  }

  destroy() {
    this.graph.destroy();
  }
}

/** @param {Float32Array} values */
function largest(values) {
  let at = 0;
  values.forEach((value, i) => {
    if (value > values[at]) at = i;
  });
  return at;
}
