/** Quod in the browser: proofs of one exported circuit, and recorded work on WebGPU. */

/** A proof as snarkjs writes it; numbers are decimal text. */
export interface Proof {
  pi_a: string[];
  pi_b: string[][];
  pi_c: string[];
  protocol?: "groth16";
  curve?: "bn128" | "bls12381";
}

/** A verifying key as snarkjs writes it. */
export interface VerificationKey {
  protocol: string;
  curve: string;
  nPublic: number;
  vk_alpha_1: string[];
  vk_beta_2: string[][];
  vk_gamma_2: string[][];
  vk_delta_2: string[][];
  IC: string[][];
}

export type Value = number | bigint | string | boolean | Value[] | { [field: string]: Value };
/** The values of a circuit's input signals by name; long numbers as text. */
export type Input = Record<string, Value>;

/** How far it is: of the step `load` in bytes, of others in pieces of work. */
export interface Progress {
  step: string;
  done: number;
  total: number;
}

export interface Timing {
  stage: string;
  seconds: number;
}

export interface LoadOptions {
  /** A GPU with what the site needs; the browser's best unless given. */
  device?: GPUDevice;
  onProgress?: (progress: Progress) => void;
  /** Where files come from, if not from the folder. */
  read?: (name: string, onBytes?: (count: number) => void) => Promise<Uint8Array<ArrayBuffer>>;
  /** Seconds without an answer after which the GPU counts as hung: 60, or 900 if a processor plays it. */
  watchdog?: number;
}

/** Loads key, kernels and, where there is one, witness calculator of an exported site. Rejects with a `QuodError`. */
export function load(folder: string | URL, options?: LoadOptions): Promise<Prover>;

export interface Prover {
  readonly verificationKey: VerificationKey;
  /**
   * A proof, verified before it is given. Calls wait for one another. Rejects with a `QuodError`.
   * A site without a witness calculator takes the bytes of a witness file (.wtns).
   */
  prove(
    input: Input | Uint8Array,
    options?: { onProgress?: (progress: Progress) => void },
  ): Promise<{ proof: Proof; publicSignals: string[]; timings: Timing[] }>;
  verify(publicSignals: string[], proof: Proof): boolean;
  /** Gives the GPU's memory back. */
  destroy(): void;
}

/**
 * Whether a proof is valid; throws `InputError` or `MismatchError` for what is malformed, and
 * `InsecureKeyError` for a key for which anyone can forge proofs, unless it is allowed, for tests.
 */
export function verify(
  key: VerificationKey,
  publicSignals: string[],
  proof: Proof,
  options?: { allowInsecure?: boolean },
): boolean;

/** How long a text may be, in characters, and how many values it may hold, by what it is. */
export interface Limit {
  length: number;
  values: number;
}
export const LIMITS: Record<"proof" | "publicSignals" | "key" | "input", Limit>;

/** JSON of proofs, keys and public signals as strict as a verifier wants it: no key twice, say. */
export function parseStrict(text: string, what: string, limit?: Limit): any;

/** An input file, whose numbers may be longer than JavaScript's. */
export function parseInput(text: string): Input;

/** Recorded work that was exported alone. */
export function loadGraph(folder: string | URL, device?: GPUDevice, options?: Omit<LoadOptions, "device">): Promise<Graph>;

export interface Graph {
  readonly inputs: Record<string, { bytes: number }>;
  readonly outputs: Record<string, { bytes: number }>;
  readonly stages: string[];
  run(
    inputs: Record<string, Uint8Array | Uint32Array>,
    options?: { onProgress?: (progress: Progress) => void },
  ): Promise<{ outputs: Record<string, Uint8Array>; timings: Timing[] }>;
  destroy(): void;
}

export class QuodError extends Error {}
export class InputError extends QuodError {}
export class MismatchError extends QuodError {}
export class VerificationError extends QuodError {}
export class InsecureKeyError extends QuodError {}
export class DeviceError extends QuodError {}
