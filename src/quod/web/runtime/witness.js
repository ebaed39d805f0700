/**
 * Computes witnesses with the WebAssembly calculator of circom 2 (`circom --wasm`), or of a circuit in Python, which
 * has the same interface; and parses circuit inputs. Errors never show the value of an input: it may be secret.
 *
 * The calculator identifies inputs by the FNV-1a hash of their names. Numbers pass through shared memory as
 * little-endian 32-bit words. Calculators of the first releases of circom 2.0 import their memory from the page and
 * do not report how many values an input has.
 */
import { InputError, MismatchError, messageOf } from "./errors.js";
import { checkKeys, checkText, LIMITS } from "./files.js";

/**
 * An input; `kind` is the form of its value in a circuit in Python: field, list, bits, bytes or point.
 * @typedef {{ name: string, dims: number[], kind?: string }} Signal
 */

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
 * Returns the part of a message about an error of JSON that names its place, if any.
 * @param {unknown} error
 */
export function placeOf(error) {
  const place = /\bat position \d+/.exec(messageOf(error));
  return place ? `: there is an error ${place[0]}` : "";
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
    // The engine's message may quote the text.
    throw new InputError(`the input is not JSON${placeOf(error)}`);
  }
  checkKeys(text, "the input");
  return input;
}

/**
 * Converts a value of an input to an integer. The value is an integer, a boolean, or a string with a decimal or
 * hexadecimal (0x...) number. Throws InputError otherwise.
 * @param {unknown} value
 * @param {string} what The name of the value in messages.
 * @param {number} digits The maximal number of digits.
 */
function parseInteger(value, what, digits) {
  if (typeof value === "boolean") value = Number(value);
  if (typeof value === "number" && !Number.isSafeInteger(value))
    throw new InputError(`${what} must be a whole number; write numbers above 2^53 in quotes`);
  const text = String(value).trim();
  if (!["number", "bigint", "string"].includes(typeof value) || !/^-?(\d+|0x[\da-f]+)$/i.test(text))
    throw new InputError(`${what} must be a whole number`);
  if (text.length > digits + 3) throw new InputError(`${what} has too many digits`);
  const magnitude = BigInt(text.replace("-", ""));
  return text[0] === "-" ? -magnitude : magnitude;
}

/**
 * Converts a value of an input to a field element, as `parseInteger` does; a negative number stands for its sum with
 * the prime. Throws InputError for other values.
 * @param {unknown} value
 * @param {bigint} prime
 * @param {string} what The name of the value in messages.
 */
export function parseElement(value, prime, what) {
  const number = parseInteger(value, what, 400);
  if (number >= prime || -number >= prime) throw new InputError(`${what} is not below the modulus of the circuit's field`);
  return number < 0n ? number + prime : number;
}

/**
 * Returns the bits of a number, least significant first.
 * @param {bigint} number
 * @param {number} count
 */
const bitsOf = (number, count) => [...number.toString(2).padStart(count, "0")].reverse().map(Number);

/**
 * Converts the value of an input of bits or bytes to a list of bits, the form in which calculators take it; other
 * values stay as they are. Bits are a number, bytes hexadecimal digits. Throws InputError for other values.
 * @param {Signal} signal
 * @param {unknown} value
 */
function bitsOfValue({ name, dims, kind }, value) {
  const [count] = dims;
  if (Array.isArray(value)) return value;
  if (kind === "bits") {
    const number = parseInteger(value, name, count);
    if (number < 0n || number >> BigInt(count)) throw new InputError(`${name} must be a number of ${count} bits`);
    return bitsOf(number, count);
  }
  if (kind !== "bytes") return value;
  const digits = typeof value === "string" ? value.trim().replace(/^0x/i, "") : "";
  if (digits.length !== count / 4 || /[^\da-f]/i.test(digits))
    throw new InputError(`${name} must be ${count / 8} bytes, as ${count / 4} hexadecimal digits`);
  return (digits.match(/../g) ?? []).flatMap((pair) => bitsOf(BigInt(`0x${pair}`), 8));
}

/**
 * Returns an input in the form that a calculator takes. Throws InputError for a signal of a circuit in Python that is
 * missing or malformed.
 * @param {any} input
 * @param {Signal[]} signals
 */
function inInterfaceForm(input, signals) {
  if (typeof input !== "object" || input === null) return input;
  const converted = { ...input };
  for (const signal of signals.filter(({ kind }) => kind)) {
    if (!Object.hasOwn(input, signal.name)) throw new InputError(`input ${signal.name} is missing`);
    converted[signal.name] = bitsOfValue(signal, input[signal.name]);
  }
  return converted;
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
      if (signals.has(name)) throw new InputError(`the input has ${name} twice`);
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

/** A witness calculator of circom 2 or of a circuit in Python. */
export class WitnessCalculator {
  /**
   * Loads a calculator. Throws InputError if it is not a calculator of circom 2, MismatchError if it computes in
   * another field.
   * @param {BufferSource} wasm
   * @param {bigint} prime The order of the scalar field of the key's curve.
   * @param {Signal[]} signals The site's signals.
   */
  static async load(wasm, prime, signals = []) {
    let module;
    try {
      module = await WebAssembly.compile(wasm);
    } catch (error) {
      throw new InputError(`the witness calculator could not be loaded: ${messageOf(error)}`);
    }
    const calculator = new WitnessCalculator(module, prime, signals);
    await calculator.start();
    return calculator;
  }

  /**
   * @param {WebAssembly.Module} module
   * @param {bigint} prime
   * @param {Signal[]} signals
   */
  constructor(module, prime, signals) {
    const names = new Set(WebAssembly.Module.exports(module).map((item) => item.name));
    for (const name of ["init", "getWitness", "setInputSignal", "getWitnessSize", "readSharedRWMemory"])
      if (!names.has(name)) throw new InputError(`the witness calculator is not from circom 2: it does not export ${name}`);
    this.module = module;
    this.prime = prime;
    this.signals = signals;
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
    const values = [...flatten(inInterfaceForm(input, this.signals))].map(([name, list]) => {
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
      // Calculators of circuits in Python export the address of the witness.
      if (wasm.getWitnessStart) return new Uint8Array(wasm.memory.buffer, wasm.getWitnessStart(), 4 * this.variables * this.words).slice();
      const witness = new Uint32Array(this.variables * this.words);
      for (let i = 0, at = 0; i < this.variables; i++) {
        wasm.getWitness(i);
        for (let word = 0; word < this.words; word++) witness[at++] = wasm.readSharedRWMemory(word);
      }
      return new Uint8Array(witness.buffer);
    } catch (error) {
      // Other messages may contain values.
      const lines = this.messages.matchAll(/Error in (?:template [\w$]{1,100}|[\w.-]{1,100}) line: \d{1,9}(?:, in [^\n]{1,200})?/g);
      const trace = [...lines].map(([line]) => line).join("; ").replace(/Error in (\S+\.py) line: /g, "$1:");
      throw new InputError(`${this.problem || `the witness calculator failed: ${error}`}${trace ? ` (${trace})` : ""}`);
    }
  }
}
