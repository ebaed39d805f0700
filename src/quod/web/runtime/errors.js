/** The errors that the runtime raises on purpose; `name` is the kind, as in Quod's Python. */
export class QuodError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}
/** A file or a value from outside is malformed. */
export class InputError extends QuodError {}
/** Two inputs, each well formed, do not belong together. */
export class MismatchError extends QuodError {}
/** A proof does not verify. */
export class VerificationError extends QuodError {}
/** Anyone can forge proofs for a key: it has no contribution, or its secret is known. */
export class InsecureKeyError extends QuodError {}
/** The GPU is absent, lost, hung, out of memory, or below a required limit. */
export class DeviceError extends QuodError {}

/**
 * The message of anything that was thrown.
 * @param {any} error
 * @returns {string}
 */
export const said = (error) => error?.message ?? String(error);

const kinds = { QuodError, InputError, MismatchError, VerificationError, InsecureKeyError, DeviceError };

/**
 * Converts an error to a message between worker and page, and back.
 * @param {any} error
 * @returns {{ name: string, message: string }}
 */
export const packed = (error) => ({ name: error?.name ?? "Error", message: said(error) });

/** @param {{ name: string, message: string }} data */
export function unpacked({ name, message }) {
  const kind = kinds[/** @type {keyof typeof kinds} */ (name)] ?? Error;
  return Object.assign(new kind(message), { name });
}
