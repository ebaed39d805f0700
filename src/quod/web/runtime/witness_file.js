/** Witnesses that were computed elsewhere: .wtns files of circom and snarkjs, version 2, the only one in use. */
import { integerOf } from "./curve.js";
import { InputError, MismatchError } from "./errors.js";

/** The replacement of a calculator on a site without one: it takes the witness itself. */
export class WitnessFile {
  /**
   * @param {number} variables Values of a witness.
   * @param {bigint} prime Of the field that the key's curve has.
   */
  constructor(variables, prime) {
    this.variables = variables;
    this.prime = prime;
  }

  /** It has no inputs. */
  sizeOf() {
    return 0;
  }

  /**
   * The values of a file, in the form of `WitnessCalculator.witness`. InputError for a damaged file,
   * MismatchError for the witness of another circuit or field.
   * @param {unknown} file
   * @returns {Promise<Uint8Array>}
   */
  async witness(file) {
    const damaged = () => new InputError("this is no witness file (.wtns), or it is damaged");
    if (!(file instanceof Uint8Array) || file.length < 28) throw damaged();
    const words = new DataView(file.buffer, file.byteOffset, file.length);
    const word = (/** @type {number} */ at) => words.getUint32(at, true);
    // Sections 1 (size, prime, count) and 2 (the values), each after its number and length.
    const size = word(24);
    const count = 28 + size;
    const values = file.subarray(count + 16);
    if (word(0) !== 0x736e7477 || word(4) !== 2 || word(8) !== 2 || word(12) !== 1 || word(16) !== size + 8 || word(20) || !size || file.length < count + 16)
      throw damaged();
    if (integerOf(file.subarray(28, count)) !== this.prime) throw new MismatchError("the witness is of another field than the key");
    if (word(count) !== this.variables)
      throw new MismatchError(`the witness has ${word(count)} values and the key ${this.variables}: they are of different circuits`);
    if (word(count + 4) !== 2 || word(count + 8) !== values.length || word(count + 12) || values.length !== size * this.variables)
      throw damaged();
    for (let at = 0; at < values.length; at += size) {
      const value = integerOf(values.subarray(at, at + size));
      if (value >= this.prime || (!at && value !== 1n)) throw damaged();
    }
    return values.slice();
  }
}
