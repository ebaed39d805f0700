/**
 * Witnesses computed by circom 2's calculator (its option --wasm), and the circuit's inputs.
 *
 * The calculator identifies inputs by the FNV-1a hash of their names; numbers pass through shared memory, as
 * little-endian 32-bit words. The first releases of circom 2.0 import their memory from the page and do not
 * report how many values an input has.
 */
import { InputError, MismatchError, said } from "./errors.js";
import { checkKeys, checkText, LIMITS } from "./files.js";

/** @typedef {{ name: string, size: number }} Signal */

const problems = [
  "an input that the circuit does not have",
  "more values than the inputs have",
  "an input that was set twice",
  "the input does not satisfy the circuit",
  "the calculator has not enough memory",
  "an input has more values than its signal",
];

/**
 * The 64-bit FNV-1a hash, as two words.
 * @param {string} name
 * @returns {[number, number]}
 */
export function hashOf(name) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(name)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return [Number(hash >> 32n), Number(hash & 0xffffffffn)];
}

/**
 * Parses JSON whose numbers may exceed a double: they become text.
 * @param {string} text
 * @returns {any}
 */
export function parseInput(text) {
  checkText(text, LIMITS.input, "the input");
  let input;
  try {
    input = JSON.parse(
      text,
      /** @type {any} */ ((/** @type {string} */ _, /** @type {unknown} */ value, /** @type {any} */ context) =>
        typeof value === "number" && context?.source ? context.source : value),
    );
  } catch (error) {
    throw new InputError(`the input is not JSON: ${said(error)}`);
  }
  checkKeys(text, "the input");
  return input;
}

/**
 * Parses a number of the circuit's field: an integer, decimal or 0x..., in quotes if it is long.
 * @param {unknown} value
 * @param {bigint} prime
 * @param {string} what
 */
export function element(value, prime, what) {
  const shown = JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}` : v))?.slice(0, 40);
  if (typeof value === "boolean") value = Number(value);
  if (typeof value === "number" && !Number.isSafeInteger(value))
    throw new InputError(`${what} is ${value}: write numbers above 2^53 in quotes, and whole`);
  if (typeof value === "string") value = value.trim();
  const text = String(value);
  if (!["number", "bigint", "string"].includes(typeof value) || !/^-?(\d{1,400}|0x[\da-f]{1,400})$/i.test(text))
    throw new InputError(`${what} is ${shown}, and must be a whole number`);
  const size = BigInt(text.replace("-", ""));
  if (size >= prime) throw new InputError(`${what} is not below the modulus of the circuit's field`);
  return text[0] === "-" && size ? prime - size : size;
}

/**
 * The names and values of an input: lists are flattened, members of objects have dots in their names.
 * @param {unknown} input
 * @returns {Map<string, unknown[]>}
 */
export function flatten(input) {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    throw new InputError('the input is no object: write {"signal": value, ...}');
  /** @type {Map<string, unknown[]>} */
  const found = new Map();
  /**
   * @param {any} value
   * @param {string} name
   */
  const visit = (value, name) => {
    const flat = [value].flat(Infinity);
    if (!flat.some((item) => typeof item === "object" && item !== null)) {
      found.set(name, flat);
    } else if (Array.isArray(value)) value.forEach((item, i) => visit(item, `${name}[${i}]`));
    else for (const [key, item] of Object.entries(value)) visit(item, name ? `${name}.${key}` : key);
  };
  visit(input, "");
  found.delete("");
  return found;
}

const mostPages = 1 << 15;

/**
 * An instance of the module, with memory as large as it requires. Only the engine knows that size:
 * it refuses a smaller memory.
 * @param {WebAssembly.Module} module
 * @param {any} imports
 */
async function instantiate(module, imports) {
  const wanted = WebAssembly.Module.imports(module).find((item) => item.kind === "memory");
  if (!wanted) return WebAssembly.instantiate(module, imports);
  for (let initial = 64; ; initial *= 2)
    try {
      const memory = { [wanted.name]: new WebAssembly.Memory({ initial }) };
      return await WebAssembly.instantiate(module, { ...imports, [wanted.module]: { ...imports[wanted.module], ...memory } });
    } catch (error) {
      if (!(error instanceof WebAssembly.LinkError) || initial >= mostPages)
        throw new InputError(`the witness calculator does not start: ${said(error)}`);
    }
}

export class WitnessCalculator {
  /**
   * InputError if it is not circom's, MismatchError if it computes in another field.
   * @param {BufferSource} wasm
   * @param {bigint} prime Of the field that the key's curve has.
   */
  static async load(wasm, prime) {
    let module;
    try {
      module = await WebAssembly.compile(wasm);
    } catch (error) {
      throw new InputError(`the witness calculator does not load: ${said(error)}`);
    }
    const calculator = new WitnessCalculator(module, prime);
    await calculator.start();
    return calculator;
  }

  /**
   * @param {WebAssembly.Module} module
   * @param {bigint} prime
   */
  constructor(module, prime) {
    const names = new Set(WebAssembly.Module.exports(module).map((item) => item.name));
    for (const name of ["init", "getWitness", "setInputSignal", "getWitnessSize", "readSharedRWMemory"])
      if (!names.has(name)) throw new InputError(`the witness calculator is none of circom 2: it exports no ${name}`);
    this.module = module;
    this.prime = prime;
    /** @type {any} */
    this.exports = undefined;
    this.words = 0;
    this.messages = "";
    this.problem = "";
  }

  async start() {
    const message = () => {
      let text = "";
      for (let code; (code = this.exports.getMessageChar?.() ?? 0) !== 0; ) text += String.fromCharCode(code);
      return text;
    };
    const runtime = {
      exceptionHandler: (/** @type {number} */ code) => {
        this.problem = problems[code - 1] ?? `error ${code}`;
        throw new Error(this.problem);
      },
      printErrorMessage: () => (this.messages += message() + "\n"),
      // Values that the circuit logs.
      writeBufferMessage: () => void message(),
      showSharedRWMemory: () => {},
      log: () => {},
    };
    // A calculator is unusable after an error, so each witness gets a fresh one.
    this.exports = (await instantiate(this.module, { runtime })).exports;
    this.messages = this.problem = "";
    this.words = this.exports.getFieldNumLen32();
    this.exports.getRawPrime();
    const prime = this.read();
    if (prime !== this.prime)
      throw new MismatchError("the witness calculator was compiled for another field than the key; see circom's --prime");
  }

  read() {
    let value = 0n;
    for (let i = this.words; i--; ) value = (value << 32n) | BigInt(this.exports.readSharedRWMemory(i) >>> 0);
    return value;
  }

  /** The number of values of a witness. */
  get variables() {
    return this.exports.getWitnessSize();
  }

  /**
   * The number of values of an input; 0 or less for an unknown name, undefined if the
   * calculator does not report it.
   * @param {string} name
   * @returns {number | undefined}
   */
  sizeOf(name) {
    return this.exports.getInputSignalSize?.(...hashOf(name));
  }

  /**
   * The witness: canonical little-endian integers of 4 * words bytes each, the constant 1 first.
   *
   * InputError says which input is missing, unknown, too long or too large, or in which line of
   * the circuit the input fails.
   * @param {unknown} input
   * @returns {Promise<Uint8Array>}
   */
  async witness(input) {
    await this.start();
    const wasm = this.exports;
    const values = [...flatten(input)].map(([name, list]) => {
      // A calculator that does not report sizes fails on values that exceed its input.
      const size = this.sizeOf(name) ?? list.length;
      if (size <= 0 && list.length) throw new InputError(`the circuit has no input ${name}`);
      if (size !== list.length)
        throw new InputError(`input ${name} takes ${size} value${size === 1 ? "" : "s"}, not ${list.length}`);
      return { name, list: list.map((v, i) => element(v, this.prime, size > 1 ? `${name}[${i}]` : name)) };
    });
    const given = values.reduce((sum, { list }) => sum + list.length, 0);
    const wanted = wasm.getInputSize?.() ?? given;
    if (given !== wanted) throw new InputError(`the circuit takes ${wanted} input values, and ${given} are given: some input is missing`);
    try {
      wasm.init(0);
      for (const { name, list } of values) {
        const hash = hashOf(name);
        list.forEach((value, i) => {
          for (let word = 0; word < this.words; word++, value >>= 32n)
            wasm.writeSharedRWMemory(word, Number(value & 0xffffffffn));
          wasm.setInputSignal(...hash, i);
        });
      }
      const out = new Uint32Array(this.variables * this.words);
      for (let i = 0, at = 0; i < this.variables; i++) {
        wasm.getWitness(i);
        for (let word = 0; word < this.words; word++) out[at++] = wasm.readSharedRWMemory(word);
      }
      return new Uint8Array(out.buffer);
    } catch (error) {
      const trace = this.messages.trim().replaceAll("\n", "; ");
      throw new InputError(`${this.problem || `the witness calculator failed: ${error}`}${trace ? ` (${trace})` : ""}`);
    }
  }
}
