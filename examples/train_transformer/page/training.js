/** Trains the model: creates the batch and the rates of each step, and runs the recorded training step on the GPU. */
import { checkedFile, parseDocument, reader } from "./files.js";
import { loadGraph } from "./graph.js";

/** The target of a position that does not contribute to the loss. */
const IGNORED_TARGET = -100;

/**
 * Returns a pseudorandom 32-bit number for n: the finaliser of MurmurHash3, a bijection.
 * @param {number} n
 */
function hash(n) {
  n = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
  n = Math.imul(n ^ (n >>> 13), 0xc2b2ae35);
  return (n ^ (n >>> 16)) >>> 0;
}

/**
 * Returns the inputs and targets of a step: each row is a random sequence, a separator, and the sequence reversed.
 * @param {number} step Counted from 1.
 * @param {{ batch: number, tokens: number, symbols: number }} shape
 */
export function batchOf(step, { batch, tokens, symbols }) {
  const length = tokens / 2;
  const inputs = new Int32Array(batch * tokens);
  const targets = new Int32Array(batch * tokens).fill(IGNORED_TARGET);
  for (let row = 0; row < batch; row++) {
    const sequence = Array.from({ length }, (_, i) => hash((step * batch + row) * length + i) % (symbols - 1));
    const symbolsOfRow = [...sequence, symbols - 1, ...sequence.toReversed()];
    inputs.set(symbolsOfRow.slice(0, tokens), row * tokens);
    targets.set(symbolsOfRow.slice(length + 1), row * tokens + length);
  }
  return { inputs, targets };
}

/**
 * Returns AdamW's factors of a step: weight decay times rate, the bias-corrected rate, and 1 / sqrt(1 - beta2^step).
 * @param {number} step
 * @param {{ learningRate: number, warmUp: number, weightDecay: number, beta1: number, beta2: number }} rates
 */
export function ratesOf(step, { learningRate, warmUp, weightDecay, beta1, beta2 }) {
  const rate = learningRate * Math.min(1, step / warmUp);
  return new Float32Array([weightDecay * rate, rate / (1 - beta1 ** step), 1 / Math.sqrt(1 - beta2 ** step)]);
}

/** Reads training.json, the plan with which the page was exported. */
export const readTraining = async (/** @type {import("./files.js").Read} */ read = reader("./")) =>
  parseDocument(await read("training.json"), "training.json", "quod-training-1");

/**
 * Loads the recorded training step. Throws InputError or DeviceError.
 * @param {any} plan The result of `readTraining`.
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
   * Runs a training step. Only the batch, the rates and the outputs are copied between GPU and page.
   *
   * Returns the loss; `right`, the fraction of symbols that the model predicted correctly before this step's update;
   * and the first sequence (`given`) with the model's prediction (`said`).
   */
  async step() {
    const { shape, rates } = this.plan;
    const number = this.number + 1;
    const { inputs, targets } = batchOf(number, shape);
    const bytes = (/** @type {Int32Array | Float32Array} */ array) => new Uint8Array(array.buffer);
    const { outputs } = await this.graph.run({ tokens: bytes(inputs), targets: bytes(targets), rates: bytes(ratesOf(number, rates)) });
    this.number = number;
    const logits = new Float32Array(outputs.logits.buffer);
    const predictions = Array.from(targets, (_, row) => argmax(logits.subarray(row * shape.symbols, (row + 1) * shape.symbols)));
    const counted = [...targets.keys()].filter((row) => targets[row] !== IGNORED_TARGET);
    const length = shape.tokens / 2;
    return {
      number,
      loss: new Float32Array(outputs.loss.buffer)[0],
      right: counted.filter((row) => predictions[row] === targets[row]).length / counted.length,
      given: [...inputs.subarray(0, length)],
      said: predictions.slice(length, 2 * length),
    };
  }

  destroy() {
    this.graph.destroy();
  }
}

/** @param {Float32Array} values */
function argmax(values) {
  let index = 0;
  values.forEach((value, i) => {
    if (value > values[index]) index = i;
  });
  return index;
}
