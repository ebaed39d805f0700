/** A Spend, an Output or a Convert of Zcash's Sapling or of MASP, in place of an input of the circuit. */
import { describe, parseDescription } from "./description.js";
import { readConvert, readOutput, readSpend } from "./documents.js";
import { hexOf, parseInformation } from "./fields.js";
import { bytesOf } from "./jubjub.js";

const READERS = { spend: readSpend, output: readOutput, convert: readConvert };

/** The kind of action that a site proves; `site.json` names it. */
export class Action {
  /** @param {{ statement: "spend" | "output" | "convert", protocol: import("./documents.js").Protocol }} parameters */
  constructor({ statement, protocol }) {
    this.statement = statement;
    this.protocol = protocol;
  }

  /**
   * Parses the JSON of a document of private information.
   * @param {string} text
   */
  parse(text) {
    return parseInformation(text);
  }

  /**
   * Returns the inputs of the circuit for a document of private information, and in hex the scalars that later steps
   * of the transaction need. Throws InputError or MismatchError.
   * @param {unknown} document
   */
  read(document) {
    const { inputs, secrets } = READERS[this.statement](this.protocol, document);
    return { inputs, secrets: Object.fromEntries(Object.entries(secrets).map(([name, scalar]) => [name, hexOf(bytesOf(scalar))])) };
  }

  /**
   * Returns the description of a proof.
   * @param {string[]} publicSignals
   * @param {any} proof
   */
  describe(publicSignals, proof) {
    return describe(this.statement, publicSignals, proof);
  }

  /**
   * Returns the public signals and the proof of a description, in snarkjs's form.
   * @param {any} description
   */
  statementOf(description) {
    return parseDescription(this.statement, description);
  }
}
