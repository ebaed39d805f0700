/** The page: starts, pauses and restarts the training, and shows the loss curve and the model's current answers. */
import { findAdapter, isSoftware, mib, nameOf, openDevice } from "./device.js";
import { messageOf } from "./errors.js";
import { loadTraining, readTraining } from "./training.js";

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [640, 300, 44, 28];
const SECONDS_PER_DRAWING = 0.1;

/** @type {any} */
let plan;
/** @type {GPUDevice | undefined} */
let device;
/** @type {import("./training.js").Training | undefined} */
let training;
/** @type {number[]} */
let losses = [];
let running = false;

/** @param {unknown} [error] */
function showError(error) {
  const text = error ? messageOf(error) : "";
  $("problem").hidden = !text;
  $("problem").textContent = text && `${text[0].toUpperCase()}${text.slice(1)}.`;
}

// --- the curve

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {string} [text]
 */
function svgElement(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text) element.textContent = text;
  return element;
}

/**
 * Returns the distance between labelled steps of the axis: 1, 2 or 5 times a power of ten, for at most five labels.
 * @param {number} steps
 */
function labelDistance(steps) {
  const power = 10 ** Math.floor(Math.log10(steps / 5));
  return Math.max(1, /** @type {number} */ ([1, 2, 5, 10].find((factor) => 5 * factor * power >= steps)) * power);
}

function drawCurve() {
  const shownLosses = [...losses, ...plan.losses].filter((loss) => loss > 0 && Number.isFinite(loss));
  const [low, high] = [Math.floor(Math.log10(Math.min(...shownLosses, 1))), Math.ceil(Math.log10(Math.max(...shownLosses, 1)))];
  const steps = Math.max(losses.length, plan.losses.length, 2);
  const x = (/** @type {number} */ step) => LEFT + ((WIDTH - LEFT - 8) * (step - 1)) / (steps - 1);
  const y = (/** @type {number} */ loss) => 8 + ((HEIGHT - BOTTOM - 8) * (high - Math.log10(Math.max(loss, 1e-30)))) / (high - low);
  const line = (/** @type {number[]} */ values, /** @type {string} */ kind) =>
    svgElement("polyline", { class: kind, points: values.map((loss, i) => `${x(i + 1).toFixed(1)},${y(loss).toFixed(1)}`).join(" ") });
  const parts = [];
  for (let power = low; power <= high; power++) {
    const at = y(10 ** power);
    parts.push(svgElement("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: at, y2: at }));
    parts.push(svgElement("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, String(Number((10 ** power).toPrecision(1)))));
  }
  for (let step = 0; step <= steps; step += labelDistance(steps))
    parts.push(svgElement("text", { x: x(Math.max(step, 1)), y: HEIGHT - 8, "text-anchor": step > 0.97 * steps ? "end" : "middle" }, String(Math.max(step, 1))));
  $("curve").replaceChildren(svgElement("title", {}, "The loss by step"), ...parts, line(plan.losses, "before"), line(losses, "now"));
}

// --- the training

/** @param {number} symbol */
const letter = (symbol) => String.fromCharCode(97 + symbol);

/** @param {{ number: number, loss: number, right: number, given: number[], said: number[] }} answer */
function show({ number, loss, right, given, said: answer }, /** @type {number} */ seconds) {
  $("step").textContent = String(number);
  $("loss").textContent = loss.toPrecision(4);
  $("right").textContent = `${(100 * right).toFixed(1)} %`;
  $("speed").textContent = `${(1000 * seconds).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  $("given").textContent = given.map(letter).join(" ");
  const expected = given.toReversed();
  $("said").replaceChildren(...answer.flatMap((symbol, i) => {
    const isRight = symbol === expected[i];
    const node = document.createElement(isRight ? "span" : "s");
    node.textContent = symbol === plan.shape.symbols - 1 ? "|" : letter(symbol);
    return [node, " "];
  }));
  drawCurve();
}

function updateButtons() {
  $("run").textContent = running ? "Pause" : losses.length ? "Go on" : "Train";
  $("again").disabled = running || !losses.length;
}

function showProgress(/** @type {import("./graph.js").Progress} */ { step, done, total }) {
  if (step === "load" || step === "compile")
    $("device").textContent = step === "load" ? `Loading: ${mib(done)} of ${mib(total)}` : `Preparing the GPU: ${done} of ${total} kernels`;
}

async function run() {
  if (running) {
    running = false;
    return;
  }
  running = true;
  showError();
  updateButtons();
  try {
    if (!training) {
      device ??= await openDevice(plan.needs);
      training = await loadTraining(plan, device, showProgress);
      about();
    }
    let drawnAt = performance.now();
    let drawnStep = 0;
    while (running) {
      const answer = await training.step();
      losses.push(answer.loss);
      if (!Number.isFinite(answer.loss)) throw new Error(`the loss of step ${answer.number} is ${answer.loss}: the training has diverged; start it again`);
      const now = performance.now();
      if (now - drawnAt > 1000 * SECONDS_PER_DRAWING || !running || answer.number === 1) {
        show(answer, (now - drawnAt) / 1000 / Math.max(1, answer.number - drawnStep));
        [drawnAt, drawnStep] = [now, answer.number];
        // Yield to the event loop, so that the page reacts to clicks however fast the steps are.
        await new Promise((resolve) => setTimeout(resolve));
      }
    }
  } catch (error) {
    // After a failure the contents of GPU memory are unknown, and a lost GPU device cannot be used again.
    training?.destroy();
    training = undefined;
    device?.destroy();
    device = undefined;
    losses = [];
    about();
    showError(error);
  } finally {
    running = false;
    updateButtons();
  }
}

function again() {
  training?.destroy();
  training = undefined;
  losses = [];
  for (const id of ["step", "loss", "right", "speed", "given", "said"]) $(id).textContent = "–";
  drawCurve();
  run();
}

let name = "";

function about() {
  $("device").textContent = `GPU: ${name}. Training takes ${mib(plan.needs.memory)} of its memory.`;
}

async function start() {
  plan = await readTraining();
  const { layers, width, heads, batch, tokens } = plan.shape;
  $("model").textContent =
    `${plan.parameters.toLocaleString("en")} parameters, width ${width}, layers: ${layers}, heads: ${heads}; ` +
    `${batch} sequences of ${tokens} tokens, drawn anew for each step.`;
  drawCurve();
  const adapter = await findAdapter(plan.needs);
  name = nameOf(adapter.info) + (isSoftware(adapter.info) ? " (emulated by the CPU, so slow)" : "");
  about();
  $("run").onclick = run;
  $("again").onclick = again;
  $("run").disabled = false;
}

start().catch((error) => {
  $("device").hidden = true;
  showError(error);
});
