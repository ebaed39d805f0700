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

/** Progress: of the step `load` in bytes, of others in steps of work. */
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
  /** A GPU with the required limits; default: the browser's best. */
  device?: GPUDevice;
  onProgress?: (progress: Progress) => void;
  /** The source of files; default: the folder. */
  read?: (name: string, onBytes?: (count: number) => void) => Promise<Uint8Array<ArrayBuffer>>;
  /** Seconds without an answer after which the GPU counts as hung: 60, or 900 if the CPU emulates it. */
  watchdog?: number;
}

/** Loads the key, the kernels and any witness calculator of an exported site. Rejects with a `QuodError`. */
export function load(folder: string | URL, options?: LoadOptions): Promise<Prover>;

export interface Prover {
  readonly verificationKey: VerificationKey;
  /**
   * A proof, verified before it is returned. Calls wait for one another. Rejects with a `QuodError`.
   * A site without a witness calculator takes the bytes of a witness file (.wtns).
   */
  prove(
    input: Input | Uint8Array,
    options?: { onProgress?: (progress: Progress) => void },
  ): Promise<{ proof: Proof; publicSignals: string[]; timings: Timing[] }>;
  verify(publicSignals: string[], proof: Proof): boolean;
  /** Frees the GPU's memory. */
  destroy(): void;
}

/**
 * True if a proof is valid; throws `InputError` or `MismatchError` for malformed arguments, and
 * `InsecureKeyError` for a key for which anyone can forge proofs, unless tests allow it.
 */
export function verify(
  key: VerificationKey,
  publicSignals: string[],
  proof: Proof,
  options?: { allowInsecure?: boolean },
): boolean;

/** The limits of a text by kind: its characters and its values. */
export interface Limit {
  length: number;
  values: number;
}
export const LIMITS: Record<"proof" | "publicSignals" | "key" | "input", Limit>;

/** Strict JSON of proofs, keys and public signals, without duplicate keys and the like. */
export function parseStrict(text: string, what: string, limit?: Limit): any;

/** An input file, whose numbers may be longer than JavaScript's. */
export function parseInput(text: string): Input;

/** Recorded work that was exported on its own. */
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
