/** Reads the files of an exported site, except its graph. */
import { curveOf } from "./curve.js";
import { MismatchError } from "./errors.js";
import { checkedFile, jsonOf, parseDocument } from "./files.js";
import { WitnessCalculator } from "./witness.js";
import { WitnessFile } from "./witness_file.js";

/**
 * Reads site.json, which describes the exported site. The file is small, and reading it needs no GPU.
 * @param {import("./files.js").Read} read
 */
export const readSite = async (read) => parseDocument(await read("site.json"), "site.json", "quod-site-2");

/**
 * Returns true if a site has no witness calculator, so that users provide a witness file.
 * @param {any} site
 */
export const takesWitness = (site) => !site.files["witness.wasm"];

/**
 * Loads the witness calculator of a site, or a `WitnessFile` if it has none. Throws MismatchError if the calculator
 * is for another circuit or field.
 * @param {import("./files.js").Read} read
 * @param {any} site
 */
export async function loadCalculator(read, site) {
  if (takesWitness(site)) return new WitnessFile(site.variables, curveOf(site.curve).r);
  const wasm = await checkedFile(read, site.files, "witness.wasm");
  const calculator = await WitnessCalculator.load(wasm, curveOf(site.curve).r, site.signals);
  if (calculator.variables !== site.variables)
    throw new MismatchError(
      `the witness calculator computes ${calculator.variables} values and the key takes ${site.variables}: they belong to different circuits`);
  return calculator;
}

/**
 * Returns the kind of action of Zcash that a site proves; undefined for a site that takes inputs of its circuit.
 * @param {any} site
 */
export const loadAction = async (site) => site.action && new (await import("./zcash/action.js")).Action(site.action);

/**
 * Reads the verifying key of a site.
 * @param {import("./files.js").Read} read
 * @param {any} site
 */
export const loadKey = async (read, site) =>
  jsonOf(await checkedFile(read, site.files, "verification_key.json"));
