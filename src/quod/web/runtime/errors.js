/** The errors that the runtime throws on purpose; `name` is the class name, as in Quod's Python. */
export class QuodError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}
/** A file or a value from outside is malformed. */
export class InputError extends QuodError {}
/** Two well-formed inputs do not belong together. */
export class MismatchError extends QuodError {}
/** A proof does not verify. */
export class VerificationError extends QuodError {}
/** Anyone can forge proofs for a key: it has no contribution, or its secret is known. */
export class InsecureKeyError extends QuodError {}
/** The GPU is absent, lost, hung, out of memory, or below a required limit. */
export class DeviceError extends QuodError {}

/**
 * Returns the message of any thrown value.
 * @param {any} error
 * @returns {string}
 */
export const messageOf = (error) => error?.message ?? String(error);

const kinds = { QuodError, InputError, MismatchError, VerificationError, InsecureKeyError, DeviceError };

/**
 * Converts an error to data that can be posted between worker and page; `errorFromData` is the inverse.
 * @param {any} error
 * @returns {{ name: string, message: string }}
 */
export const dataOfError = (error) => ({ name: error?.name ?? "Error", message: messageOf(error) });

/** @param {{ name: string, message: string }} data */
export function errorFromData({ name, message }) {
  const kind = kinds[/** @type {keyof typeof kinds} */ (name)] ?? Error;
  return Object.assign(new kind(message), { name });
}
