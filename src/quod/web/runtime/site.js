/** The contents of an exported site, besides its graph. */
import { curveOf } from "./curve.js";
import { MismatchError } from "./errors.js";
import { checkedFile, parseDocument } from "./files.js";
import { WitnessCalculator } from "./witness.js";
import { WitnessFile } from "./witness_file.js";

/**
 * The exported site's description of itself; small, and needs no GPU.
 * @param {import("./files.js").Read} read
 */
export const readSite = async (read) => parseDocument(await read("site.json"), "site.json", "quod-site-1");

/**
 * True if a site has no calculator, so that users bring a witness.
 * @param {any} site
 */
export const takesWitness = (site) => !site.files["witness.wasm"];

/**
 * The witness calculator of a site, or its replacement that takes witnesses; MismatchError if it is of another
 * circuit or field.
 * @param {import("./files.js").Read} read
 * @param {any} site
 */
export async function loadCalculator(read, site) {
  if (takesWitness(site)) return new WitnessFile(site.variables, curveOf(site.curve).r);
  const wasm = await checkedFile(read, site.files, "witness.wasm");
  const calculator = await WitnessCalculator.load(wasm, curveOf(site.curve).r);
  if (calculator.variables !== site.variables)
    throw new MismatchError(
      `the witness calculator has ${calculator.variables} values and the key ${site.variables}: they are of different circuits`);
  return calculator;
}

/**
 * The verifying key of a site.
 * @param {import("./files.js").Read} read
 * @param {any} site
 */
export const loadKey = async (read, site) =>
  JSON.parse(new TextDecoder().decode(await checkedFile(read, site.files, "verification_key.json")));
