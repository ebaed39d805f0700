/** The user interface of a site: a form of the circuit's signals, progress, the proof, and verification. */
import { mib } from "./device.js";
import { $, make } from "./elements.js";
import { DeviceError, InputError, errorFromData, messageOf } from "./errors.js";
import { checkLength, LIMITS, RELOAD, reader } from "./files.js";
import { readSite, takesWitness } from "./site.js";
import { parseInput } from "./witness.js";

const formatSeconds = (/** @type {number} */ s) => (s < 1 ? `${Math.round(1000 * s)} ms` : `${s.toFixed(s < 10 ? 2 : 1)} s`);

// --- the worker

/** @type {Worker} */
let worker;
/** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void, onProgress?: (p: any) => void }>} */
const pending = new Map();
let lastId = 0;

/** Fails all requests. */
function rejectAll(/** @type {string} */ message) {
  for (const { reject } of pending.values()) reject(new Error(message));
  pending.clear();
}

/** Starts a new worker; stops a running one, whose requests then fail. */
function startWorker() {
  worker?.terminate();
  rejectAll("cancelled");
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data: { id, progress, result, error } }) => {
    const request = pending.get(id);
    if (progress) return request?.onProgress?.(progress);
    pending.delete(id);
    if (error) request?.reject(errorFromData(error));
    else request?.resolve(result);
  };
  worker.onerror = ({ message }) =>
    rejectAll(`the prover has stopped: ${message ?? `worker.js or a module of it could not be loaded; ${RELOAD}`}`);
}

/**
 * Sends a request to the worker; returns its result.
 * @param {string} task
 * @param {object} [message]
 * @param {(progress: any) => void} [onProgress]
 * @returns {Promise<any>}
 */
const request = (task, message, onProgress) =>
  new Promise((resolve, reject) => {
    pending.set(++lastId, { resolve, reject, onProgress });
    worker.postMessage({ id: lastId, task, ...message });
  });

// --- the form

/** @typedef {{ name: string, size: number, dims?: number[], public?: boolean, kind?: string }} Signal */
/** @type {Signal[]} */
let signals = [];

/** Returns true for a signal whose field has a single word: a number, bits or bytes. */
const isSingle = (/** @type {Signal} */ { size, kind }) => (kind ? ["field", "bits", "bytes"].includes(kind) : size === 1);

/** Returns a description of the form of a signal's value; empty for a number. */
function formOf(/** @type {Signal} */ { size, kind }) {
  if (kind === "bits") return `a number of ${size} bit${size > 1 ? "s" : ""}`;
  if (kind === "bytes") return `${size / 8} bytes, as ${size / 4} hexadecimal digits`;
  if (kind === "point") return "a point: two coordinates, with a space or comma between them";
  return size > 1 ? `${size} numbers, with spaces or commas between them` : "";
}

/** Shows a field for a witness file, on a site without a calculator. */
function showWitnessField() {
  const about = make("small", {}, " .wtns; stays secret");
  const file = make("input", { id: "witness", type: "file", accept: ".wtns" });
  $("fields").replaceChildren(make("label", { htmlFor: "witness" }, "Witness", about), file);
  $("as-json").hidden = true;
}

/** Returns the bytes of the witness file. A value has at most 128 bytes, and the headers at most 1024. */
async function witnessBytes() {
  const [file] = $("witness").files;
  if (!file) throw new InputError("choose a witness file");
  checkLength(file.size, { length: 128 * site.variables + 1024 }, file.name);
  return new Uint8Array(await file.arrayBuffer());
}

/** Shows a field for each input signal, or opens the JSON field if the signals are unknown. */
function showSignalFields() {
  $("fields").replaceChildren(...signals.flatMap((signal) => {
    const { name, size, public: isPublic } = signal;
    const id = `in-${name}`;
    const hint = [formOf(signal), isPublic === undefined ? "" : isPublic ? "public" : "stays secret"];
    const label = make("label", { htmlFor: id }, name, make("small", {}, " ", hint.filter(Boolean).join("; ")));
    const isOneWord = isSingle(signal);
    const field = make(isOneWord ? "input" : "textarea", { id, ...(isOneWord ? {} : { rows: Math.min(4, size) }) });
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
function nest(list, [size, ...innerDims]) {
  if (!innerDims.length) return list;
  const step = list.length / size;
  return Array.from({ length: size }, (_, i) => nest(list.slice(i * step, (i + 1) * step), innerDims));
}

/** Returns the input as JSON: the text of the JSON field if it is open, else the values of the other fields. */
function inputText() {
  if ($("as-json").open || !signals.length) return $("json").value;
  /** @type {Record<string, any>} */
  const input = {};
  for (const signal of signals) {
    const { name, size, dims, kind } = signal;
    const words = $(`in-${name}`).value.split(/[\s,;"'[\]]+/).filter(Boolean);
    const count = isSingle(signal) ? 1 : size;
    if (words.length !== count)
      throw new InputError(kind === "bytes" ? `${name} takes ${formOf(signal)}` : `${name} takes ${count} number${count > 1 ? "s" : ""}, not ${words.length}`);
    input[name] = kind ? (count > 1 || kind === "list" ? words : words[0]) : size === 1 && !dims?.length ? words[0] : nest(words, dims ?? [size]);
  }
  return JSON.stringify(input);
}

/** @param {unknown[]} list */
const formatValues = (list) => list.join(list.some((value) => String(value).length > 8) ? "\n" : " ");

/**
 * Fills in the form from an input file; leaves the JSON field open unless the file has all signals.
 * @param {string} text
 */
function fillForm(text) {
  $("json").value = text;
  if (site.action) return;
  let isComplete = signals.length > 0;
  const input = parseInput(text);
  for (const { name } of signals) {
    if (input[name] === undefined) isComplete = false;
    else $(`in-${name}`).value = formatValues([input[name]].flat(Infinity));
  }
  $("as-json").open = !isComplete;
}

/**
 * Shows the message of an error as a sentence in an element; hides the element if there is no error.
 * @param {string} id
 * @param {unknown} [error]
 */
function showError(id, error) {
  $(id).hidden = !error;
  const text = error ? messageOf(error) : "";
  // The name of a file or an input at the beginning of a sentence is not capitalised.
  const [word] = /^[a-z]+(?=[ ,]|$)/.exec(text) ?? [];
  const isName = signals.some(({ name }) => name === word);
  $(id).textContent = text && (word && !isName ? text[0].toUpperCase() + text.slice(1) : text) + ".";
}

/**
 * Runs a task of the form, and shows its error.
 * @param {() => Promise<void>} task
 */
async function shown(task) {
  showError("problem");
  await task().catch((error) => showError("problem", error));
}

// --- proving

/** @param {boolean} isBusy */
function setBusy(isBusy) {
  $("prove").disabled = $("check").disabled = isBusy;
  $("cancel").hidden = !isBusy;
  $("form").setAttribute("aria-busy", isBusy);
}

const stepTitles = { load: "Loading the key", setup: "Unpacking the key", compile: "Preparing the GPU", witness: "Computing the witness", "self-check": "Checking the proof" };

/** The completed fraction of each phase: load, compile, setup and prove. @type {Record<string, number>} */
let fractions = {};

/** @param {{ step: string, done: number, total: number, notice?: string }} progress */
function showProgress({ step, done, total, notice }) {
  if (notice) {
    $("notice").hidden = false;
    if (!$("notice").textContent.includes(notice)) $("notice").append(make("span", {}, notice, " "));
    return;
  }
  // Loading and compiling take the first half of the bar if they happen, the proof takes the second half.
  const phase = ["load", "compile", "setup"].includes(step) ? step : "prove";
  fractions[phase] = done / total;
  const { load = 1, compile = 1, prove = 0 } = fractions;
  $("bar").value = 0.25 * load + 0.25 * compile + 0.5 * prove;
  const count = step === "load" ? `${mib(done)} of ${mib(total)}` : `${done} of ${total}`;
  $("step").textContent = `${stepTitles[/** @type {keyof typeof stepTitles} */ (step)] ?? `Done: ${step}`} (${count})`;
}

/** The events that show that a user uses the form. */
const FORM_EVENTS = ["input", "change", "click"];

/** Loads the key when the user first uses the form. */
function prepare() {
  for (const event of FORM_EVENTS) $("form").removeEventListener(event, prepare);
  request("prepare").catch(() => {});
}

/** Computes the witness of the input, on a device without a GPU. */
async function computeWitness() {
  $("computed").hidden = true;
  const text = inputText();
  setBusy(true);
  const { file, secrets } = await request("witness", { text });
  $("save").onclick = () => download("witness.wtns", file);
  $("save-secrets").hidden = $("about-secrets").hidden = !secrets;
  $("save-secrets").onclick = () => download("secrets.json", JSON.stringify(secrets, null, 1) + "\n");
  $("computed").hidden = false;
}

async function prove() {
  $("done").hidden = $("notice").hidden = true;
  $("notice").replaceChildren();
  fractions = {};
  const input = takesWitness(site) ? { witness: await witnessBytes() } : { text: inputText() };
  setBusy(true);
  $("work").hidden = false;
  $("bar").value = 0;
  $("step").textContent = "Starting …";
  const begin = performance.now();
  showResult(await request("prove", input, showProgress), (performance.now() - begin) / 1000);
}

/** Does what the form is for, and shows the error if it fails. */
async function submit() {
  await shown(hasDevice ? prove : computeWitness);
  setBusy(false);
  $("work").hidden = true;
}

/**
 * Shows a proof, its public signals and its timings; on a site of an action, its description and secrets.
 * @param {any} result
 * @param {number} totalSeconds The time with loading.
 */
function showResult(result, totalSeconds) {
  const { proof, publicSignals, timings } = result;
  clearVerdict();
  $("proof").textContent = JSON.stringify(proof, null, 1);
  $("public").textContent = JSON.stringify(publicSignals, null, 1);
  $("v-proof").value = $("proof").textContent;
  $("v-public").value = $("public").textContent;
  const proofSeconds = timings.reduce((/** @type {number} */ sum, /** @type {any} */ row) => sum + row.seconds, 0);
  if (result.description) actionForm.showDescription(result);
  $("summary").textContent = `Made and verified on this device in ${formatSeconds(proofSeconds)}` +
    (totalSeconds > 1.5 * proofSeconds ? `; with loading ${formatSeconds(totalSeconds)}.` : ".");
  $("signals")?.replaceChildren(...publicSignals.flatMap((/** @type {string} */ value, /** @type {number} */ i) =>
    [make("dt", {}, site.publics[i] ?? `public signal ${i + 1}`), make("dd", {}, value)]).slice(0, 40));
  $("times").replaceChildren(...timings.map((/** @type {any} */ row) =>
    make("tr", {}, make("td", {}, row.stage), make("td", {}, formatSeconds(row.seconds)))));
  $("done").hidden = false;
  $("h-done").focus();
}

/**
 * Saves a file on the user's device.
 * @param {string} name
 * @param {BlobPart} content
 */
function download(name, content) {
  const href = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

/**
 * Copies or downloads a document, depending on the button that was clicked.
 * @param {Event} event
 */
async function copyOrDownload({ target }) {
  const button = /** @type {HTMLButtonElement} */ (target);
  const name = /** @type {HTMLElement} */ (button.parentElement).dataset.of;
  if (!name || button.tagName !== "BUTTON") return;
  const text = $(name).textContent;
  if (button.textContent === "Download") {
    return download(`${name}.json`, text + "\n");
  }
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed here";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

/** Removes the verdict, which was about another text. */
function clearVerdict() {
  $("verdict").textContent = $("verdict").className = "";
}

async function verifyProof() {
  const verdict = $("verdict");
  clearVerdict();
  verdict.textContent = "Verifying …";
  const sent = {
    proof: $("v-proof").value, publicSignals: $("v-public").value, description: $("v-description")?.value,
  };
  let valid, problem;
  try {
    valid = await request("verify", sent);
  } catch (error) {
    problem = error;
  }
  // A text that has changed meanwhile has no verdict yet.
  if ($("v-proof").value !== sent.proof || $("v-public").value !== sent.publicSignals || $("v-description")?.value !== sent.description)
    return clearVerdict();
  verdict.className = valid ? "good" : "bad";
  if (problem) return showError("verdict", problem);
  const what = site.action ? "this description" : "these public signals";
  verdict.textContent = valid ? `The proof is valid for ${what}.` : `The proof is not valid for ${what}. Do not accept it.`;
}

// --- start

/** @type {any} */
let site;
/** Whether there is a GPU that can prove. */
let hasDevice = false;
/** The module of the parts of the page for an action; undefined on other sites. @type {any} */
let actionForm;

async function start() {
  site = await readSite(reader(new URL(".", import.meta.url)));
  document.title = `${site.name}: prove`;
  $("name").textContent = site.name;
  $("about").textContent = `Groth16 on ${site.curve}, ${site.constraints} constraints. Made with Quod ${site.quod}.`;
  $("insecure").hidden = !site.insecure;
  if (site.action) {
    $("verify").querySelector("summary").textContent = "Verify a description";
    actionForm = await import("./zcash/form.js");
    actionForm.showDocumentField(site.action);
  }
  startWorker();
  $("example").hidden = !site.example;
  $("example").onclick = () => fillForm(JSON.stringify(site.example, null, 1));
  $("form").onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    submit();
  };
  $("cancel").onclick = startWorker;
  $("check").onclick = verifyProof;
  $("verify").addEventListener("input", clearVerdict);
  $("done").onclick = copyOrDownload;
  $("file").onchange = async (/** @type {any} */ { target }) => {
    await shown(async () => {
      const [file] = target.files;
      if (file) checkLength(file.size, LIMITS.input, file.name);
      if (file) fillForm(await file.text());
    });
    target.value = "";
  };
  const [inputs, device] = await Promise.allSettled([request("inputs"), request("device")]);
  if (inputs.status === "fulfilled") {
    signals = inputs.value;
    if (!site.action) (takesWitness(site) ? showWitnessField : showSignalFields)();
  } else showError("problem", inputs.reason);
  const deviceMemory = /** @type {any} */ (navigator).deviceMemory;
  const memory = deviceMemory ? `, on a device with about ${deviceMemory} GB` : "";
  if (device.status === "fulfilled") {
    hasDevice = true;
    for (const event of FORM_EVENTS) $("form").addEventListener(event, prepare);
    request("compile").catch(() => {});
    const { name, software } = device.value;
    $("device").textContent =
      `GPU: ${name}${software ? " (emulated by the CPU, so slow)" : ""}. A proof takes ${mib(site.needs.memory)} of GPU memory${memory}; ` +
      `the key is a download of ${mib(site.download)}, once.`;
  } else {
    $("device").className = "bad";
    showError("device", device.reason);
    if (device.reason instanceof DeviceError)
      $("device").append(` Proofs can still be verified here${takesWitness(site) ? "" : ", and the witness of an input can be computed"}.`);
    $("prove").textContent = takesWitness(site) ? "Prove" : "Compute the witness";
  }
  $("prove").disabled = inputs.status !== "fulfilled" || (!hasDevice && takesWitness(site));
  if (globalThis.isSecureContext && navigator.serviceWorker) navigator.serviceWorker.register("offline.js").catch(() => {});
}

start().catch((error) => showError("device", error));
