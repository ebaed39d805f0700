/**
 * Computes witnesses with the WebAssembly calculator of circom 2 (`circom --wasm`), and parses circuit inputs.
 *
 * The calculator identifies inputs by the FNV-1a hash of their names. Numbers pass through shared memory as
 * little-endian 32-bit words. Calculators of the first releases of circom 2.0 import their memory from the page and
 * do not report how many values an input has.
 */
import { InputError, MismatchError, messageOf } from "./errors.js";
import { checkKeys, checkText, LIMITS } from "./files.js";

/** @typedef {{ name: string, size: number }} Signal */

/** The problems that the calculator's error codes mean, from code 1. */
const problems = [
  "the circuit has no input of this name",
  "the input has too many values",
  "an input was set twice",
  "the input does not satisfy the circuit",
  "the calculator has not enough memory",
  "an input has more values than its signal",
];

/**
 * Returns the 64-bit FNV-1a hash as two words, high word first.
 * @param {string} name
 * @returns {[number, number]}
 */
export function hashOf(name) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(name)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return [Number(hash >> 32n), Number(hash & 0xffffffffn)];
}

/**
 * Parses the JSON of an input. Numbers become strings, as they may exceed the precision of a double.
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
    throw new InputError(`the input is not JSON: ${messageOf(error)}`);
  }
  checkKeys(text, "the input");
  return input;
}

/**
 * Converts a value of an input to a field element. The value is an integer, a boolean, or a string with a decimal or
 * hexadecimal (0x...) number; a negative number stands for its sum with the prime. Throws InputError otherwise.
 * @param {unknown} value
 * @param {bigint} prime
 * @param {string} what The name of the value in messages.
 */
export function parseElement(value, prime, what) {
  const shown = JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}` : v))?.slice(0, 40);
  if (typeof value === "boolean") value = Number(value);
  if (typeof value === "number" && !Number.isSafeInteger(value))
    throw new InputError(`${what} is ${value}, and must be a whole number; write numbers above 2^53 in quotes`);
  if (typeof value === "string") value = value.trim();
  const text = String(value);
  if (!["number", "bigint", "string"].includes(typeof value) || !/^-?(\d{1,400}|0x[\da-f]{1,400})$/i.test(text))
    throw new InputError(`${what} is ${shown}, and must be a whole number`);
  const magnitude = BigInt(text.replace("-", ""));
  if (magnitude >= prime) throw new InputError(`${what} is not below the modulus of the circuit's field`);
  return text[0] === "-" && magnitude ? prime - magnitude : magnitude;
}

/**
 * Returns the values of an input by signal name. Lists are flattened; a member of an object is named `object.member`.
 * @param {unknown} input
 * @returns {Map<string, unknown[]>}
 */
export function flatten(input) {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    throw new InputError('the input is not an object: write {"signal": value, ...}');
  /** @type {Map<string, unknown[]>} */
  const signals = new Map();
  /**
   * @param {any} value
   * @param {string} name
   */
  const visit = (value, name) => {
    const flat = [value].flat(Infinity);
    if (!flat.some((item) => typeof item === "object" && item !== null)) {
      signals.set(name, flat);
    } else if (Array.isArray(value)) value.forEach((item, i) => visit(item, `${name}[${i}]`));
    else for (const [key, item] of Object.entries(value)) visit(item, name ? `${name}.${key}` : key);
  };
  visit(input, "");
  signals.delete("");
  return signals;
}

/** The memory limit of a calculator, in pages of 64 KiB: 2 GiB. */
const maxPages = 1 << 15;

/**
 * Instantiates the module, with an imported memory if it needs one. JavaScript cannot read the required size of
 * the memory, so the size doubles until the engine accepts it.
 * @param {WebAssembly.Module} module
 * @param {any} imports
 */
async function instantiate(module, imports) {
  const memoryImport = WebAssembly.Module.imports(module).find((item) => item.kind === "memory");
  if (!memoryImport) return WebAssembly.instantiate(module, imports);
  for (let initial = 64; ; initial *= 2)
    try {
      const memory = { [memoryImport.name]: new WebAssembly.Memory({ initial }) };
      return await WebAssembly.instantiate(module, { ...imports, [memoryImport.module]: { ...imports[memoryImport.module], ...memory } });
    } catch (error) {
      if (!(error instanceof WebAssembly.LinkError) || initial >= maxPages)
        throw new InputError(`the witness calculator could not be started: ${messageOf(error)}`);
    }
}

/** A witness calculator of circom 2. */
export class WitnessCalculator {
  /**
   * Loads a calculator. Throws InputError if it is not a calculator of circom 2, MismatchError if it computes in
   * another field.
   * @param {BufferSource} wasm
   * @param {bigint} prime The order of the scalar field of the key's curve.
   */
  static async load(wasm, prime) {
    let module;
    try {
      module = await WebAssembly.compile(wasm);
    } catch (error) {
      throw new InputError(`the witness calculator could not be loaded: ${messageOf(error)}`);
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
      if (!names.has(name)) throw new InputError(`the witness calculator is not from circom 2: it does not export ${name}`);
    this.module = module;
    this.prime = prime;
    /** @type {any} */
    this.exports = undefined;
    this.words = 0;
    this.messages = "";
    this.problem = "";
  }

  /** Instantiates the module and checks its field. */
  async start() {
    const readMessage = () => {
      let text = "";
      for (let code; (code = this.exports.getMessageChar?.() ?? 0) !== 0; ) text += String.fromCharCode(code);
      return text;
    };
    const runtime = {
      exceptionHandler: (/** @type {number} */ code) => {
        this.problem = problems[code - 1] ?? `error ${code}`;
        throw new Error(this.problem);
      },
      printErrorMessage: () => (this.messages += readMessage() + "\n"),
      // The circuit's log output is read and dropped.
      writeBufferMessage: () => void readMessage(),
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
      throw new MismatchError("the witness calculator was compiled for another field than the key; compile it with circom's --prime for the key's curve");
  }

  /** Returns the number in the calculator's shared memory. */
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
   * Returns the number of values of an input; 0 or less for an unknown name, undefined if the calculator does not
   * report sizes.
   * @param {string} name
   * @returns {number | undefined}
   */
  sizeOf(name) {
    return this.exports.getInputSignalSize?.(...hashOf(name));
  }

  /**
   * Computes the witness: canonical little-endian integers of 4 * words bytes each, the constant 1 first.
   *
   * Throws InputError for an input that is missing, unknown, too long or too large, or that fails an assertion of
   * the circuit; the message names the input or the circuit's line.
   * @param {unknown} input
   * @returns {Promise<Uint8Array>}
   */
  async witness(input) {
    await this.start();
    const wasm = this.exports;
    const values = [...flatten(input)].map(([name, list]) => {
      // A calculator that does not report sizes throws if an input has too many values.
      const size = this.sizeOf(name) ?? list.length;
      if (size <= 0 && list.length) throw new InputError(`the circuit has no input ${name}`);
      if (size !== list.length)
        throw new InputError(`input ${name} takes ${size} value${size === 1 ? "" : "s"}, not ${list.length}`);
      return { name, list: list.map((v, i) => parseElement(v, this.prime, size > 1 ? `${name}[${i}]` : name)) };
    });
    const count = values.reduce((sum, { list }) => sum + list.length, 0);
    const expected = wasm.getInputSize?.() ?? count;
    if (count !== expected) throw new InputError(`the circuit takes ${expected} input values, not ${count}: some input is missing`);
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
      const witness = new Uint32Array(this.variables * this.words);
      for (let i = 0, at = 0; i < this.variables; i++) {
        wasm.getWitness(i);
        for (let word = 0; word < this.words; word++) witness[at++] = wasm.readSharedRWMemory(word);
      }
      return new Uint8Array(witness.buffer);
    } catch (error) {
      const trace = this.messages.trim().replaceAll("\n", "; ");
      throw new InputError(`${this.problem || `the witness calculator failed: ${error}`}${trace ? ` (${trace})` : ""}`);
    }
  }
}
