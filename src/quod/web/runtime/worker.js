/**
 * Runs the prover in a worker, so that the page stays responsive. A request is {id, task, ...}; its responses are
 * {id, progress}, and finally {id, result} or {id, error}.
 */
import { curveOf } from "./curve.js";
import { findAdapter, isSoftware, nameOf } from "./device.js";
import { DeviceError, dataOfError } from "./errors.js";
import { LIMITS, reader } from "./files.js";
import { compile, load } from "./quod.js";
import { loadAction, loadCalculator, loadKey, readSite } from "./site.js";
import { parseStrict, verify } from "./verify.js";
import { parseInput } from "./witness.js";
import { witnessFile } from "./witness_file.js";

const folder = new URL(".", import.meta.url);
const read = reader(folder);
/** The kernels, which are compiled before the prover is loaded. @type {Promise<import("./quod.js").Graph> | undefined} */
let graph;
/** @type {Promise<import("./quod.js").Prover> | undefined} */
let prover;
/** Receives the progress of loading, once a task waits for the prover. @type {((progress: any) => void) | undefined} */
let reportLoading;
/** Messages about the loading that no task has received. @type {string[]} */
let notices = [];

const options = {
  onProgress: (/** @type {any} */ progress) => reportLoading?.(progress),
  onNotice: (/** @type {string} */ notice) => (reportLoading ? reportLoading({ notice }) : notices.push(notice)),
};

/** Forgets the prover, so that the next task loads another one. */
function forget() {
  graph = prover = undefined;
}

/** Returns the graph, whose kernels the first call starts to compile. */
const getGraph = () => (graph ??= compile(folder, options));

/** Returns the prover, which the first call loads. A failed load is retried by the next call. */
function getProver() {
  prover ??= load(folder, { ...options, graph: getGraph() }).catch((error) => {
    forget();
    throw error;
  });
  return prover;
}

/** @type {Record<string, (message: any, progress: (progress: any) => void) => any>} */
const tasks = {
  /** Returns the input signals of the circuit: the listed signals for which the calculator reports a size. */
  async inputs() {
    const site = await readSite(read);
    const calculator = await loadCalculator(read, site);
    return site.signals
      .map((/** @type {any} */ signal) => ({ ...signal, size: calculator.sizeOf(signal.name) }))
      .filter((/** @type {any} */ signal) => signal.size > 0);
  },
  async device() {
    const { info } = await findAdapter((await readSite(read)).needs);
    return { name: nameOf(info), software: isSoftware(info) };
  },
  /** Starts to compile the kernels while the user reads the page; `prove` reports errors. */
  async compile() {
    await getGraph().catch(forget);
  },
  /** Loads the prover while the user fills in the form; `prove` reports errors. */
  async prepare() {
    await getProver().catch(() => {});
  },
  /** Computes the witness of an input, which needs no GPU; returns it as a file, with the secrets of an action. */
  async witness({ text }) {
    const site = await readSite(read);
    const action = await loadAction(site);
    const information = action?.read(action.parse(text));
    const values = await (await loadCalculator(read, site)).witness(information ? information.inputs : parseInput(text));
    return { file: witnessFile(values, site.variables, curveOf(site.curve).r), secrets: information?.secrets };
  },
  async prove({ text, witness }, onProgress) {
    const action = await loadAction(await readSite(read));
    // An error of a document is shown before the key is loaded.
    const input = witness ?? (action ? action.read(action.parse(text)) : parseInput(text));
    reportLoading = onProgress;
    for (const notice of notices) onProgress({ notice });
    notices = [];
    const loadedProver = await getProver();
    try {
      return await loadedProver.prove(input, { onProgress });
    } catch (error) {
      if (error instanceof DeviceError) {
        loadedProver.destroy();
        forget();
      }
      throw error;
    }
  },
  /** Verifies a proof and its public signals; on a site of an action, a description. */
  async verify({ publicSignals, proof, description }) {
    const site = await readSite(read);
    const action = await loadAction(site);
    const statement = action ? action.statementOf(parseStrict(description, "the description", LIMITS.proof)) : {
      publicSignals: parseStrict(publicSignals, "the list of public signals", LIMITS.publicSignals),
      proof: parseStrict(proof, "the proof", LIMITS.proof),
    };
    return verify(await loadKey(read, site), statement.publicSignals, statement.proof, { allowInsecure: site.insecure === true });
  },
};

globalThis.onmessage = async (/** @type {MessageEvent} */ { data: { id, task, ...message } }) => {
  try {
    const result = await tasks[task](message, (progress) => postMessage({ id, progress }));
    postMessage({ id, result });
  } catch (error) {
    postMessage({ id, error: dataOfError(error) });
  }
};
