/** The page: a form from the circuit's signals, progress, the proof, and verification. */
import { mib } from "./device.js";
import { InputError, said, unpacked } from "./errors.js";
import { checkLength, LIMITS, reader } from "./files.js";
import { readSite, takesWitness } from "./site.js";
import { parseInput } from "./witness.js";

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
/**
 * @param {string} tag
 * @param {object} [properties]
 * @param {(Node | string)[]} children
 */
const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const seconds = (/** @type {number} */ s) => (s < 1 ? `${Math.round(1000 * s)} ms` : `${s.toFixed(s < 10 ? 2 : 1)} s`);

// --- the worker

/** @type {Worker} */
let worker;
/** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void, onProgress?: (p: any) => void }>} */
const waiting = new Map();
let asked = 0;

function startWorker() {
  worker?.terminate();
  for (const { reject } of waiting.values()) reject(new Error("cancelled"));
  waiting.clear();
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data: { id, progress, result, error } }) => {
    const task = waiting.get(id);
    if (progress) return task?.onProgress?.(progress);
    waiting.delete(id);
    if (error) task?.reject(unpacked(error));
    else task?.resolve(result);
  };
  worker.onerror = (event) => {
    for (const { reject } of waiting.values()) reject(new Error(`the prover has stopped: ${event.message ?? "it could not start"}`));
    waiting.clear();
  };
}

/**
 * @param {string} task
 * @param {object} [message]
 * @param {(progress: any) => void} [onProgress]
 * @returns {Promise<any>}
 */
const ask = (task, message, onProgress) =>
  new Promise((resolve, reject) => {
    waiting.set(++asked, { resolve, reject, onProgress });
    worker.postMessage({ id: asked, task, ...message });
  });

// --- the form

/** @type {{ name: string, size: number, dims?: number[], public?: boolean }[]} */
let signals = [];

/** The file to prove, on a site without a calculator. */
function showFile() {
  const about = make("small", {}, " .wtns; stays secret");
  const file = make("input", { id: "witness", type: "file", accept: ".wtns" });
  $("fields").replaceChildren(make("label", { htmlFor: "witness" }, "Witness", about), file);
  $("as-json").hidden = true;
}

/** Its bytes; a value has at most 128, and the rest of a file is small. */
async function witnessBytes() {
  const [file] = $("witness").files;
  if (!file) throw new InputError("choose the file of a witness");
  checkLength(file.size, { length: 128 * site.variables + 1024 }, file.name);
  return new Uint8Array(await file.arrayBuffer());
}

function showFields() {
  $("fields").replaceChildren(...signals.flatMap(({ name, size, public: shown }) => {
    const id = `in-${name}`;
    const hint = [size > 1 ? `${size} numbers, with spaces or commas between them` : "", shown === undefined ? "" : shown ? "public" : "stays secret"];
    const label = make("label", { htmlFor: id }, name, make("small", {}, " ", hint.filter(Boolean).join("; ")));
    const field = make(size > 1 ? "textarea" : "input", { id, autocomplete: "off", spellcheck: false, ...(size > 1 ? { rows: Math.min(4, size) } : {}) });
    return [label, field];
  }));
  $("as-json").open = !signals.length;
}

/**
 * Nests a flat list according to the given dimensions.
 * @param {string[]} list
 * @param {number[]} dims
 * @returns {any}
 */
function nested(list, [size, ...rest]) {
  if (!rest.length) return list;
  const step = list.length / size;
  return Array.from({ length: size }, (_, i) => nested(list.slice(i * step, (i + 1) * step), rest));
}

/** The fields as JSON; the text area counts instead if it is open. */
function inputText() {
  if ($("as-json").open || !signals.length) return $("json").value;
  /** @type {Record<string, any>} */
  const input = {};
  for (const { name, size, dims } of signals) {
    const words = $(`in-${name}`).value.split(/[\s,;"'[\]]+/).filter(Boolean);
    if (words.length !== size) throw new InputError(`${name} takes ${size} number${size > 1 ? "s" : ""}; there ${words.length === 1 ? "is" : "are"} ${words.length}`);
    input[name] = size === 1 && !dims?.length ? words[0] : nested(words, dims ?? [size]);
  }
  return JSON.stringify(input);
}

/** @param {unknown[]} list */
const shown = (list) => list.join(list.some((value) => String(value).length > 8) ? "\n" : " ");

/** @param {string} text Of an input file. */
function fill(text) {
  $("json").value = text;
  let fits = signals.length > 0;
  const input = parseInput(text);
  for (const { name } of signals) {
    if (input[name] === undefined) fits = false;
    else $(`in-${name}`).value = shown([input[name]].flat(Infinity));
  }
  $("as-json").open = !fits;
}

/**
 * @param {string} id
 * @param {unknown} [error]
 */
function complain(id, error) {
  $(id).hidden = !error;
  const text = error ? said(error) : "";
  // A sentence may begin with a file name.
  $(id).textContent = text && (/^[a-z]+[ ,]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text) + ".";
}

// --- proving

/** @param {boolean} on */
function busy(on) {
  $("prove").disabled = $("check").disabled = on;
  $("cancel").hidden = !on;
  $("form").setAttribute("aria-busy", on);
}

const steps = { load: "Loading the key", compile: "Preparing the GPU", witness: "Computing the witness", "self-check": "Checking the proof" };

/** @type {Record<string, number>} */
let shares = {};

/** @param {{ step: string, done: number, total: number }} progress */
function showProgress({ step, done, total }) {
  // Loading and preparing, if they happen, are the first half, the proof is the rest.
  const part = step === "load" || step === "compile" ? step : "prove";
  shares[part] = done / total;
  const { load = 1, compile = 1, prove = 0 } = shares;
  $("bar").value = 0.25 * load + 0.25 * compile + 0.5 * prove;
  const count = step === "load" ? `${mib(done)} of ${mib(total)}` : `${done} of ${total}`;
  $("step").textContent = `${steps[/** @type {keyof typeof steps} */ (step)] ?? `Done: ${step}`} (${count})`;
}

/** A user who begins with the form will need the key and the compiled kernels. */
function prepare() {
  for (const event of ["input", "change", "click"]) $("form").removeEventListener(event, prepare);
  ask("prepare").catch(() => {});
}

async function prove() {
  complain("problem");
  $("done").hidden = true;
  shares = {};
  try {
    const given = takesWitness(site) ? { witness: await witnessBytes() } : { text: inputText() };
    busy(true);
    $("work").hidden = false;
    $("bar").value = 0;
    $("step").textContent = "Starting …";
    const begin = performance.now();
    show(await ask("prove", given, showProgress), (performance.now() - begin) / 1000);
  } catch (error) {
    complain("problem", error);
  } finally {
    busy(false);
    $("work").hidden = true;
  }
}

/**
 * @param {any} result
 * @param {number} total
 */
function show({ proof, publicSignals, timings }, total) {
  $("proof").textContent = JSON.stringify(proof, null, 1);
  $("public").textContent = JSON.stringify(publicSignals, null, 1);
  $("v-proof").value = $("proof").textContent;
  $("v-public").value = $("public").textContent;
  const made = timings.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.seconds, 0);
  $("summary").textContent = `Made and verified on this device in ${seconds(made)}` + (total > 1.5 * made ? `; with loading ${seconds(total)}.` : ".");
  $("signals").replaceChildren(...publicSignals.flatMap((/** @type {string} */ value, /** @type {number} */ i) =>
    [make("dt", {}, site.publics[i] ?? `public signal ${i + 1}`), make("dd", {}, value)]).slice(0, 40));
  $("times").replaceChildren(...timings.map((/** @type {any} */ row) =>
    make("tr", {}, make("td", {}, row.stage), make("td", {}, seconds(row.seconds)))));
  $("done").hidden = false;
  $("h-done").focus();
}

/** @param {Event} event */
async function keep({ target }) {
  const button = /** @type {HTMLButtonElement} */ (target);
  const name = /** @type {HTMLElement} */ (button.parentElement).dataset.of;
  if (!name || button.tagName !== "BUTTON") return;
  const text = $(name).textContent;
  if (button.textContent === "Download") {
    const href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    make("a", { href, download: `${name}.json` }).click();
    return void setTimeout(() => URL.revokeObjectURL(href), 60000);
  }
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

async function check() {
  const verdict = $("verdict");
  verdict.className = "";
  verdict.textContent = "Verifying …";
  try {
    const valid = await ask("verify", { proof: $("v-proof").value, publicSignals: $("v-public").value });
    verdict.className = valid ? "good" : "bad";
    verdict.textContent = valid ? "The proof is valid for these public signals." : "The proof is not valid for these public signals. Do not accept it.";
  } catch (error) {
    verdict.className = "bad";
    complain("verdict", error);
  }
}

// --- start

/** @type {any} */
let site;

async function start() {
  site = await readSite(reader(new URL(".", import.meta.url)));
  document.title = `${site.name}: prove`;
  $("name").textContent = site.name;
  $("about").textContent = `Groth16 on ${site.curve}, ${site.constraints} constraints. Made with Quod ${site.quod}.` +
    (site.insecure ? " For tests only: anyone can forge proofs for its key." : "");
  startWorker();
  $("example").hidden = !site.example;
  $("example").onclick = () => fill(JSON.stringify(site.example, null, 1));
  $("form").onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    prove();
  };
  for (const event of ["input", "change", "click"])
    $("form").addEventListener(event, prepare);
  $("cancel").onclick = startWorker;
  $("check").onclick = check;
  $("done").onclick = keep;
  $("file").onchange = async (/** @type {any} */ { target }) => {
    try {
      const [file] = target.files;
      if (file) checkLength(file.size, LIMITS.input, file.name);
      if (file) fill(await file.text());
      complain("problem");
    } catch (error) {
      complain("problem", error);
    }
    target.value = "";
  };
  const [inputs, device] = await Promise.allSettled([ask("inputs"), ask("device")]);
  if (inputs.status === "fulfilled") {
    signals = inputs.value;
    (takesWitness(site) ? showFile : showFields)();
  } else complain("problem", inputs.reason);
  const there = /** @type {any} */ (navigator).deviceMemory;
  const memory = there ? `, on a device with about ${there} GB` : "";
  if (device.status === "fulfilled") {
    const { name, software } = device.value;
    $("device").textContent =
      `GPU: ${name}${software ? " (played by the processor, so slow)" : ""}. A proof takes ${mib(site.needs.memory)} of its memory${memory}; ` +
      `the key is ${mib(site.download)} to load, once.`;
  } else {
    $("device").className = "bad";
    complain("device", device.reason);
    $("device").append(" Proofs can still be verified here.");
  }
  $("prove").disabled = inputs.status !== "fulfilled" || device.status !== "fulfilled";
  if (globalThis.isSecureContext && navigator.serviceWorker) navigator.serviceWorker.register("offline.js").catch(() => {});
}

start().catch((error) => complain("device", error));
