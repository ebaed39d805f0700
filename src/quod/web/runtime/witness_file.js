/** Reads and writes witnesses for other programs: .wtns files of circom and snarkjs, version 2. */
import { integerOf } from "./curve.js";
import { InputError, MismatchError } from "./errors.js";

/**
 * Returns the file of a witness.
 * @param {Uint8Array} values The values, as `WitnessCalculator.witness` returns them.
 * @param {number} variables The number of values.
 * @param {bigint} prime The order of the field.
 */
export function witnessFile(values, variables, prime) {
  const size = values.length / variables;
  const file = new Uint8Array(size + 44 + values.length);
  const words = new DataView(file.buffer);
  [0x736e7477, 2, 2, 1, size + 8, 0, size].forEach((word, i) => words.setUint32(4 * i, word, true));
  for (let i = 0; i < size; i++) file[28 + i] = Number((prime >> BigInt(8 * i)) & 255n);
  [variables, 2, values.length, 0].forEach((word, i) => words.setUint32(28 + size + 4 * i, word, true));
  file.set(values, size + 44);
  return file;
}

/** Takes the place of `WitnessCalculator` on a site without a calculator; its input is a witness file. */
export class WitnessFile {
  /**
   * @param {number} variables The number of values of a witness.
   * @param {bigint} prime The order of the scalar field of the key's curve.
   */
  constructor(variables, prime) {
    this.variables = variables;
    this.prime = prime;
  }

  /** Returns 0 for every name: there are no input signals. */
  sizeOf() {
    return 0;
  }

  /**
   * Returns the values of a file, in the form of `WitnessCalculator.witness`. Throws InputError for a damaged file,
   * MismatchError for the witness of another circuit or field.
   * @param {unknown} file
   * @returns {Promise<Uint8Array>}
   */
  async witness(file) {
    const damaged = () => new InputError("the file is not a witness (.wtns), or it is damaged");
    if (!(file instanceof Uint8Array) || file.length < 28) throw damaged();
    const words = new DataView(file.buffer, file.byteOffset, file.length);
    const word = (/** @type {number} */ at) => words.getUint32(at, true);
    // A section begins with its number and length. Section 1 has the size of a value, the prime and the count;
    // section 2 has the values.
    const size = word(24);
    const countOffset = 28 + size;
    const values = file.subarray(countOffset + 16);
    if (word(0) !== 0x736e7477 || word(4) !== 2 || word(8) !== 2 || word(12) !== 1 || word(16) !== size + 8 || word(20) || !size || file.length < countOffset + 16)
      throw damaged();
    if (integerOf(file.subarray(28, countOffset)) !== this.prime) throw new MismatchError("the witness belongs to another field than the key");
    if (word(countOffset) !== this.variables)
      throw new MismatchError(`the witness has ${word(countOffset)} values and the key takes ${this.variables}: they belong to different circuits`);
    if (word(countOffset + 4) !== 2 || word(countOffset + 8) !== values.length || word(countOffset + 12) || values.length !== size * this.variables)
      throw damaged();
    for (let at = 0; at < values.length; at += size) {
      const value = integerOf(values.subarray(at, at + size));
      if (value >= this.prime || (!at && value !== 1n)) throw damaged();
    }
    return values.slice();
  }
}
