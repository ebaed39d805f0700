/** A Spend, an Output or a Convert of Zcash's Sapling or of MASP, in place of an input of the circuit. */
import { hexOf } from "../files.js";
import { encodeStatement, parseDescription, proofBytes } from "./description.js";
import { readConvert, readOutput, readSpend } from "./documents.js";
import { parseInformation } from "./fields.js";
import { bytesOf } from "./jubjub.js";

const READERS = { spend: readSpend, output: readOutput, convert: readConvert };

/** What a document says: the inputs of the circuit, and in hex the scalars that later steps of the transaction need. */
export class Information {
  /**
   * @param {Record<string, any>} inputs
   * @param {Record<string, string>} secrets
   */
  constructor(inputs, secrets) {
    this.inputs = inputs;
    this.secrets = secrets;
  }
}

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
   * Reads a document of private information; returns it unchanged if it has been read already. Throws InputError or
   * MismatchError.
   * @param {unknown} document
   */
  read(document) {
    if (document instanceof Information) return document;
    const { inputs, secrets } = READERS[this.statement](this.protocol, document);
    return new Information(inputs, Object.fromEntries(Object.entries(secrets).map(([name, scalar]) => [name, hexOf(bytesOf(scalar))])));
  }

  /**
   * Returns the fields of a description but for its proof, in hex. Throws InputError if a point has small order, which
   * verifiers refuse.
   * @param {string[]} publicSignals
   */
  encode(publicSignals) {
    return encodeStatement(this.statement, publicSignals);
  }

  /**
   * Returns the 192 bytes of a proof in hex.
   * @param {any} proof In snarkjs's form.
   */
  encodeProof(proof) {
    return hexOf(proofBytes(proof));
  }

  /**
   * Returns the public signals and the proof of a description, in snarkjs's form.
   * @param {any} description
   */
  statementOf(description) {
    return parseDescription(this.statement, description);
  }
}
