/** Quod in the browser: proofs of one exported circuit, and recorded GPU work on WebGPU. */

/** A proof as snarkjs writes it; numbers are decimal strings. */
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
/**
 * The values of a circuit's input signals by name; numbers of 2^53 or more are bigints or strings. In a circuit in
 * Python, bits are a number, bytes a string of hexadecimal digits, and a point a list of two coordinates.
 */
export type Input = Record<string, Value>;

/** Progress of a step: `done` of `total` bytes for the step `load`, counts of work items for other steps. */
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
  /** A GPU with the required limits; default: the browser's high-performance adapter. */
  device?: GPUDevice;
  onProgress?: (progress: Progress) => void;
  /** Called with messages for the user, such as that the browser's storage is full. */
  onNotice?: (message: string) => void;
  /** Keep the key in the browser's storage for later visits; default: true. */
  store?: boolean;
  /** Reads a file of the site; default: fetches it from the folder. `afresh` bypasses the browser's caches. */
  read?: (name: string, onBytes?: (count: number) => void, afresh?: boolean) => Promise<Uint8Array<ArrayBuffer>>;
  /** Seconds without progress after which the GPU counts as hung; default: 60, or 900 if the CPU emulates the GPU. */
  watchdog?: number;
  /** The result of `compile` for the same folder, device and reader. */
  graph?: Promise<Graph>;
}

/**
 * Starts to compile the kernels of an exported site, which takes no memory of the GPU yet; the result is the option
 * `graph` of `load`. Rejects with a `QuodError`.
 */
export function compile(folder: string | URL, options?: LoadOptions): Promise<Graph>;

/**
 * Loads the key and the witness calculator (if any) of an exported site, and starts to compile its kernels. Rejects
 * with a `QuodError`. A first proof waits for the kernels; it rejects if the browser does not compile one.
 */
export function load(folder: string | URL, options?: LoadOptions): Promise<Prover>;

/** The result of a proof. */
export interface Proved {
  proof: Proof;
  publicSignals: string[];
  timings: Timing[];
  /** Of a Spend, an Output or a Convert: the fields of its description and the proof's 192 bytes, in hex. */
  description?: Record<string, string>;
  /** The scalars alpha, esk and rcv in hex, as far as the kind has them: the rest of the transaction needs them. */
  secrets?: Record<string, string>;
}

/** The private information of a Spend, an Output or a Convert; bytes in hex, integers of 2^53 or more as bigints. */
export type ActionDocument = Record<string, unknown>;

export interface Action {
  /** Parses the JSON of a document; integers become bigints. */
  parse(text: string): ActionDocument;
  /** Returns the public signals and the proof of a description, for `verify`. */
  statementOf(description: Record<string, unknown>): { publicSignals: string[]; proof: Proof };
}

export interface Prover {
  readonly verificationKey: VerificationKey;
  /**
   * Computes a proof and verifies it before returning it. Calls run one at a time. Rejects with a `QuodError`.
   * On a site without a witness calculator, `input` is the bytes of a witness file (.wtns). On a site of a Spend, an
   * Output or a Convert, it is the document that `quod zcash` reads.
   */
  prove(
    input: Input | Uint8Array | ActionDocument,
    options?: { onProgress?: (progress: Progress) => void },
  ): Promise<Proved>;
  /** The kind of Spend, Output or Convert that the site proves; undefined on other sites. */
  readonly action: Action | undefined;
  verify(publicSignals: string[], proof: Proof): boolean;
  /** Frees the GPU memory; the prover cannot be used afterwards. */
  destroy(): void;
}

/**
 * Returns true if a proof is valid. Throws `InputError` for malformed arguments, `MismatchError` for arguments
 * that do not belong together, and `InsecureKeyError` for a key for which anyone can forge proofs, unless
 * `allowInsecure` is true.
 */
export function verify(
  key: VerificationKey,
  publicSignals: string[],
  proof: Proof,
  options?: { allowInsecure?: boolean },
): boolean;

/** The limits of a JSON text: `length` in characters, `values` as a count of JSON values. */
export interface Limit {
  length: number;
  values: number;
}
export const LIMITS: Record<"proof" | "publicSignals" | "key" | "input", Limit>;

/**
 * Parses the JSON of a proof, key or list of public signals. Throws `InputError` for duplicate keys, fractions,
 * long numbers without quotes and deep nesting; `what` names the document in messages.
 */
export function parseStrict(text: string, what: string, limit?: Limit): any;

/** Parses an input file; its numbers become strings, so that numbers of 2^53 or more stay exact. */
export function parseInput(text: string): Input;

/** Loads recorded GPU work that was exported without a site. */
export function loadGraph(folder: string | URL, device?: GPUDevice, options?: Omit<LoadOptions, "device" | "graph">): Promise<Graph>;

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
