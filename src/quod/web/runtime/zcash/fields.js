/** The fields of a JSON object of private information. Errors name the field and never show a value. */
import { integerOf } from "../curve.js";
import { InputError } from "../errors.js";
import { LIMITS, checkKeys, checkText } from "../files.js";
import { placeOf } from "../witness.js";
import { ORDER, P, decode } from "./jubjub.js";

/**
 * Decodes a text of hexadecimal digits.
 * @param {unknown} text
 * @param {number} size
 */
export function bytesOfHex(text, size) {
  if (typeof text !== "string" || /[^\da-f]/i.test(text) || text.length % 2 || !text) throw new InputError("must be text in hex");
  if (text.length !== 2 * size) throw new InputError(`must be ${size} bytes, not ${text.length / 2}`);
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * Parses the JSON of private information. Integers become BigInts, as they may exceed the precision of a double.
 * @param {string} text
 * @returns {any}
 */
export function parseInformation(text) {
  checkText(text, LIMITS.input, "the input");
  const revive = (/** @type {string} */ _, /** @type {unknown} */ value, /** @type {any} */ context) => {
    if (typeof value !== "number" || !context?.source) return value;
    if (!/^-?\d{1,20}$/.test(context.source)) throw new InputError("the input has a number that is not an integer of at most 20 digits");
    return BigInt(context.source);
  };
  let document;
  try {
    document = JSON.parse(text, /** @type {any} */ (revive));
  } catch (error) {
    if (error instanceof InputError) throw error;
    // The engine's message may quote the text.
    throw new InputError(`the input is not JSON${placeOf(error)}`);
  }
  checkKeys(text, "the input");
  return document;
}

/**
 * Converts a number, or the text of its digits, to an integer.
 * @param {unknown} value
 * @param {string} what The name of the value in messages.
 * @param {bigint} least
 * @param {bigint} most
 * @param {string} range The range in messages.
 */
export function integerWithin(value, what, least, most, range) {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    throw new InputError(`${what} is above 2^53, which this browser rounds; use a newer browser`);
  if (typeof value === "string" && !/^-?(0|[1-9]\d{0,38})$/.test(value)) throw new InputError("must be a whole number, or text of its digits");
  const isNumber = ["bigint", "string"].includes(typeof value) || Number.isInteger(value);
  const number = isNumber ? BigInt(/** @type {number} */ (value)) : undefined;
  if (number === undefined || number < least || number > most) throw new InputError(`${what} must be a whole number from ${range}`);
  return number;
}

/**
 * Decodes a number below the modulus of the circuit's field.
 * @param {string} what The name of the number in messages.
 * @param {Uint8Array} bytes
 */
export function elementOf(what, bytes) {
  const number = integerOf(bytes);
  if (number >= P) throw new InputError(`${what} is not below the modulus`);
  return number;
}

/** Returns a uniformly random scalar, from 1 on. */
export function randomScalar() {
  for (;;) {
    const scalar = BigInt.asUintN(252, integerOf(crypto.getRandomValues(new Uint8Array(32))));
    if (scalar && scalar < ORDER) return scalar;
  }
}

export class Fields {
  /**
   * Checks the names of the fields.
   * @param {any} document
   * @param {string[]} required
   * @param {string[]} optional
   * @param {string} [prefix] The text before the names in errors.
   */
  constructor(document, required, optional, prefix = "") {
    /** The name of the object in errors. */
    this.where = prefix ? `${prefix.slice(0, -1)}: ` : "the input ";
    if (typeof document !== "object" || document === null || Array.isArray(document)) throw new InputError(`${this.where}must be an object`);
    for (const name of required)
      if (!Object.hasOwn(document, name)) throw new InputError(`${prefix}${name}: is missing`);
    const allowed = [...required, ...optional];
    if (Object.keys(document).some((name) => !allowed.includes(name)))
      throw new InputError(`${this.where}has an unknown field; it may have ${allowed.join(", ")}`);
    this.document = document;
    this.prefix = prefix;
  }

  /** @param {string} name */
  has(name) {
    return Object.hasOwn(this.document, name);
  }

  /**
   * Returns the result of reading a field, whose errors get the field's name.
   * @template T
   * @param {string} name
   * @param {(value: any) => T} read
   * @returns {T}
   */
  read(name, read) {
    try {
      return read(this.document[name]);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      throw new InputError(`${this.prefix}${name}: ${error.message}`);
    }
  }

  /**
   * @param {string} name
   * @param {number} [size]
   */
  bytes(name, size = 32) {
    return this.read(name, (value) => bytesOfHex(value, size));
  }

  /** @param {string} name */
  point(name) {
    return this.read(name, (value) => decode(bytesOfHex(value, 32)));
  }

  /** @param {string} name */
  element(name) {
    return this.read(name, (value) => elementOf(name, bytesOfHex(value, 32)));
  }

  /**
   * Returns a scalar below the order of the subgroup.
   * @param {string} name
   * @param {bigint} [least]
   */
  scalar(name, least = 0n) {
    return this.read(name, (value) => {
      const scalar = integerOf(bytesOfHex(value, 32));
      if (scalar < least || scalar >= ORDER)
        throw new InputError(`${name} must be a scalar from ${least} to r - 1, with r the order of Jubjub's subgroup`);
      return scalar;
    });
  }

  /**
   * Returns a scalar, which is drawn if the object lacks it.
   * @param {string} name
   * @param {bigint} [least]
   */
  scalarOrDrawn(name, least) {
    return this.has(name) ? this.scalar(name, least) : randomScalar();
  }

  /** Returns the field `value`. */
  value() {
    return this.read("value", (value) => integerWithin(value, "the value", 0n, (1n << 64n) - 1n, "0 to 2**64 - 1"));
  }
}
