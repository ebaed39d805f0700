/**
 * The operator's page. It reads `GET /status` once a second and streams finished stages from
 * `GET /status/stages`. The token is stored in this tab only.
 */

import { draw, KINDS, readColours, stageAt, WINDOW } from "./lanes.js";

/** @typedef {import("./lanes.js").Stage} Stage */

/** The lanes show stages with this delay in seconds, the maximum between the end of a stage and its report. */
const DELAY = 1.25;
const POLL = 1000;
const FRAME = 100;
const MAX_BARS = 200;

const state = {
  /** The server's clock minus the browser's, in seconds. */
  offset: 0,
  /** @type {any} */
  document: null,
  started: 0,
  after: 0,
  /** @type {Map<string, Stage[]>} */
  byWorker: new Map(),
  /** @type {Map<string, Stage[]>} */
  byJob: new Map(),
  /** When a job was first seen at a stage, by worker, job and stage. @type {Map<string, number>} */
  seen: new Map(),
  selected: "",
  refused: false,
};

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/** @param {string} tag @param {string} [name] @param {string} [text] */
function element(tag, name = "", text = "") {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text) node.textContent = text;
  return node;
}

/** @param {Element} node @param {string} text */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// --- figures

/** @param {number | null | undefined} seconds */
function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0.001) return `${Math.max(seconds * 1e6, 0).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 60) return `${seconds.toPrecision(3)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(seconds / 3600);
  if (hours < 48) return `${hours} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** @param {number} count */
function formatBytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return `${unit === "B" ? count : count.toPrecision(3)} ${unit}`;
    count /= 1000;
  }
  return `${count.toPrecision(3)} TB`;
}

/** @param {number} count */
const formatCount = (count) => count.toLocaleString("en");
/** @param {number} rate */
const formatRate = (rate) => (rate >= 100 ? rate.toFixed(0) : rate.toFixed(rate >= 10 ? 1 : 2));
/** @param {string} id */
const shortId = (id) => (id.length > 14 ? `${id.slice(0, 12)}…` : id);
const now = () => Date.now() / 1000 + state.offset;

// --- the server

class AccessError extends Error {}

/** @param {string} path @param {AbortSignal} [signal] */
async function request(path, signal) {
  const token = sessionStorage.getItem("token");
  /** @type {Record<string, string>} */
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, cache: "no-store", signal });
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const message = body.error?.message ?? `the server answers ${response.status}`;
  if (response.status === 401 || response.status === 403) throw new AccessError(message);
  throw new Error(message);
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** End the wait for a token. `tokenEntered` is true if the user entered a token during the current request. */
let wake = () => {};
let tokenEntered = false;

async function poll() {
  for (;;) {
    tokenEntered = false;
    try {
      const status = await (await request("status", AbortSignal.timeout(10_000))).json();
      update(status);
      showProblem("");
    } catch (error) {
      const isRefused = error instanceof AccessError;
      state.refused = isRefused;
      byId("access").hidden = !isRefused;
      const text = error instanceof Error ? error.message : String(error);
      // A missing token is not shown as an error: the form asks for a token.
      const needsToken = isRefused && !sessionStorage.getItem("token");
      showProblem(needsToken ? "" : isRefused ? text : `The server cannot be reached (${text}); trying again.`);
      if (needsToken) setPill(byId("state"), "token needed");
    }
    if (state.refused && !tokenEntered) await new Promise((resolve) => (wake = () => resolve(undefined)));
    else if (!state.refused) await pause(document.hidden ? 5 * POLL : POLL);
  }
}

/** @param {string} text */
function showProblem(text) {
  byId("problem").hidden = !text;
  setText(byId("problem"), text);
  document.body.classList.toggle("stale", Boolean(text));
  if (text) setPill(byId("state"), state.refused ? "no access" : "unreachable");
}

async function follow() {
  for (;;) {
    try {
      if (state.document) await stream();
    } catch {
      // `poll` reports the error.
    }
    await pause(POLL);
  }
}

async function stream() {
  const response = await request(`status/stages?after=${state.after}`);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let incomplete = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const messages = (incomplete + value).split("\n\n");
    incomplete = messages.pop() ?? "";
    for (const message of messages) {
      const fields = new Map(message.split("\n").map((line) => /** @type {[string, string]} */ (line.split(/: ?(.*)/s, 2))));
      const data = fields.get("data");
      if (!data) continue;
      const number = Number(fields.get("id"));
      if (number < state.after) {
        // The server was restarted: its numbers start again.
        state.after = 0;
        await reader.cancel();
        return;
      }
      state.after = number;
      for (const stage of JSON.parse(data).stages) addStage(stage);
    }
  }
}

/** @param {Stage} stage */
function addStage(stage) {
  for (const [map, key] of /** @type {[Map<string, Stage[]>, string][]} */ ([[state.byWorker, stage.worker], [state.byJob, stage.job]])) {
    const list = map.get(key);
    if (list) list.push(stage);
    else map.set(key, [stage]);
  }
  state.seen.delete(`${stage.worker} ${stage.job} ${stage.stage}`);
}

/** Delete stages that are no longer shown. */
function deleteOldStages() {
  const before = now() - WINDOW - DELAY;
  for (const [worker, list] of state.byWorker) {
    const first = list.findIndex((stage) => stage.end >= before);
    if (first < 0) state.byWorker.delete(worker);
    else if (first > 0) list.splice(0, first);
  }
  const shown = new Set(state.document.jobs.map((/** @type {any} */ job) => job.id));
  for (const [job, list] of state.byJob)
    if (!shown.has(job) && list[list.length - 1].end < before) state.byJob.delete(job);
}

/** Show a new status document. @param {any} status */
function update(status) {
  state.refused = false;
  byId("access").hidden = true;
  byId("main").hidden = false;
  state.document = status;
  state.offset = status.server.now - Date.now() / 1000;
  if (state.started !== status.server.started) {
    state.started = status.server.started;
    state.seen.clear();
  }
  const running = new Set();
  for (const worker of status.workers)
    for (const job of worker.jobs) {
      const name = `${worker.name} ${job.job} ${job.stage}`;
      running.add(name);
      if (!state.seen.has(name)) state.seen.set(name, status.server.now);
    }
  for (const name of state.seen.keys()) if (!running.has(name)) state.seen.delete(name);
  deleteOldStages();
  showBanner(status);
  showWorkers(status.workers);
  showQueue(status.queue);
  showKeys(status.keys);
  showJobs(status.jobs);
  if (byId("job").open && state.selected) void showJob();
}

// --- display

const MOODS = new Map(Object.entries({
  ready: "good", busy: "good", succeeded: "good", draining: "warn", starting: "warn", cancelled: "warn",
  expired: "warn", quarantined: "bad", dead: "bad", failed: "bad", lost: "bad", unreachable: "bad",
}));

/** @param {Element} node @param {string} word */
function setPill(node, word) {
  setText(node, word);
  node.className = `pill ${MOODS.get(word) ?? ""}`;
}

/**
 * Update the rows of a table by key, in order, reusing existing rows.
 * @param {Element} body @param {any[]} items @param {(item: any) => string} key
 * @param {() => Element} make @param {(row: any, item: any) => void} fill
 */
function sync(body, items, key, make, fill) {
  const old = new Map([...body.children].map((row) => [/** @type {HTMLElement} */ (row).dataset.key, row]));
  let next = body.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let row = old.get(name);
    if (row) old.delete(name);
    else {
      row = make();
      /** @type {HTMLElement} */ (row).dataset.key = name;
    }
    if (row === next) next = next.nextElementSibling;
    else body.insertBefore(row, next);
    fill(row, item);
  }
  for (const row of old.values()) row.remove();
}

/** @param {string[]} classes */
const cells = (classes) => () => {
  const row = element("tr");
  for (const name of classes) row.append(element("td", name));
  return row;
};

/** @param {any} body @param {number} columns @param {string} text */
function emptyRow(body, columns, text) {
  if (body.querySelector("tr[data-key='']")) return;
  const cell = element("td", "none", text);
  cell.setAttribute("colspan", String(columns));
  const row = element("tr");
  row.dataset.key = "";
  row.append(cell);
  body.replaceChildren(row);
}

/** @param {any} status */
function showBanner(status) {
  setPill(byId("state"), status.queue.storage_full ? "disk full" : status.server.state);
  if (status.queue.storage_full) byId("state").classList.add("bad");
  const oldest = status.queue.oldest === null ? null : status.server.now - status.queue.oldest;
  const figures = [
    ["Proofs per second", formatRate(status.rate.proofs_per_second)],
    ["Wait, median", formatSeconds(status.rate.wait_p50)],
    ["Wait, 95 %", formatSeconds(status.rate.wait_p95)],
    ["Waiting", formatCount(status.queue.waiting)],
    ["Running", formatCount(status.queue.running)],
    ["Held", formatCount(status.queue.held)],
    ["Oldest", formatSeconds(oldest)],
    ["Up", formatSeconds(status.server.now - status.server.started)],
    ["Version", status.server.version],
  ];
  sync(byId("figures"), figures, (figure) => figure[0], () => {
    const box = element("div");
    box.append(element("dt"), element("dd"));
    return box;
  }, (box, [name, value]) => {
    setText(box.children[0], name);
    setText(box.children[1], value);
  });
}

const PURPOSES = ["keys", "workspace", "free"];

/** @param {any[]} workers */
function showWorkers(workers) {
  sync(byId("workers"), workers, (worker) => worker.name, () => {
    const box = element("div", "worker");
    const about = element("div");
    const title = element("h3");
    title.append(element("span"), element("span", "pill"));
    about.append(title, element("p"), element("div", "bar"), element("p"), element("p", "bad"));
    box.append(about, element("canvas"));
    return box;
  }, (box, worker) => {
    const [title, counts, bar, memory, problem] = box.firstElementChild.children;
    setText(title.children[0], worker.name);
    setPill(title.children[1], worker.state);
    const restarts = worker.restarts ? `, restarts: ${worker.restarts}` : "";
    const replications = worker.replications ? `, ${formatCount(worker.replications)} keys of others` : "";
    const failures = worker.failures ? `, ${formatCount(worker.failures)} failed` : "";
    setText(counts, `${worker.device} · ${(100 * worker.busy).toFixed(0)} % busy · ${formatCount(worker.proofs)} proofs${failures}${restarts}${replications}`);
    const parts = Object.entries(worker.memory);
    const total = parts.reduce((sum, [, size]) => sum + Number(size), 0);
    parts.sort(([a], [b]) => (PURPOSES.indexOf(a) + 9) % 9 - (PURPOSES.indexOf(b) + 9) % 9);
    bar.hidden = total === 0;
    fillBar(bar, parts.filter(([name]) => name !== "free").map(([name, size]) => [PURPOSES.includes(name) ? name : "other", 0, Number(size) / total]));
    setText(memory, parts.map(([name, size]) => `${name} ${formatBytes(Number(size))}`).join(" · "));
    setText(problem, worker.problem);
    problem.hidden = !worker.problem;
  });
  if (!workers.length) setText(byId("workers"), "There are no workers.");
}

/** @param {any} bar @param {[string, number, number][]} parts The class, begin and length of each part, as fractions of the bar. */
function fillBar(bar, parts) {
  while (bar.children.length > parts.length) bar.lastElementChild.remove();
  while (bar.children.length < parts.length) bar.append(element("span"));
  parts.forEach(([name, begin, length], index) => {
    const part = bar.children[index];
    const style = `${(100 * begin).toFixed(2)} ${(100 * length).toFixed(2)}`;
    if (part.dataset.at === style && part.className === name) return;
    part.dataset.at = style;
    part.className = name;
    part.style.left = `${(100 * begin).toFixed(2)}%`;
    part.style.width = `${(100 * length).toFixed(2)}%`;
  });
}

/** @param {any} queue */
function showQueue(queue) {
  const maxWaiting = Math.max(1, ...queue.priorities.map((/** @type {any} */ level) => level.waiting));
  if (!queue.priorities.length) emptyRow(byId("priorities"), 3, "Nothing waits.");
  else
    sync(byId("priorities"), queue.priorities, (level) => String(level.priority), () => {
      const row = cells(["", "number", ""])();
      row.children[2].append(element("div", "bar"));
      return row;
    }, (row, level) => {
      setText(row.children[0], String(level.priority));
      setText(row.children[1], formatCount(level.waiting));
      fillBar(row.children[2].firstElementChild, [["upload", 0, level.waiting / maxWaiting]]);
    });
  if (!queue.clients.length) emptyRow(byId("clients"), 3, "No client has a job.");
  else
    sync(byId("clients"), queue.clients, (usage) => usage.client, cells(["", "number", "number"]), (row, usage) => {
      setText(row.children[0], usage.client);
      row.children[0].title = usage.client;
      setText(row.children[1], formatCount(usage.jobs));
      setText(row.children[2], formatBytes(usage.bytes));
    });
}

/** @param {any} key */
const keyName = (key) => key.names[0]?.replace(/:latest$/, "") ?? shortId(key.key);

/** @param {any[]} keys */
function showKeys(keys) {
  const rows = keys.flatMap((key) => key.workers.map((/** @type {any} */ use) => ({ key, use })));
  if (!rows.length) return emptyRow(byId("keys"), 9, "No key was asked for.");
  sync(byId("keys"), rows, ({ key, use }) => `${key.key} ${use.worker}`, cells(["", "", "", ...Array(6).fill("number")]), (row, { key, use }) => {
    const texts = [
      key.copies > 1 ? `${keyName(key)} (${key.copies} copies)` : keyName(key), use.worker, use.loading ? `${use.tier}, loading` : use.tier, formatBytes(use.device_bytes), formatBytes(use.host_bytes),
      formatCount(use.leases), formatCount(use.hits), formatCount(use.misses), use.loads ? formatSeconds(use.load_seconds) : "–",
    ];
    texts.forEach((text, index) => setText(row.children[index], text));
    row.children[0].title = [key.key, ...key.names].join("\n");
    row.children[8].classList.toggle("bad", use.failures > 0);
  });
}

/** @param {any} job */
function showBars(job) {
  const list = (state.byJob.get(job.id) ?? []).slice(-MAX_BARS);
  const begin = Math.min(job.started ?? Infinity, ...list.map((stage) => stage.begin));
  const end = Math.max(job.ended ?? 0, ...list.map((stage) => stage.end));
  const length = Math.max(end - begin, 1e-9);
  return list.map((stage) => /** @type {[string, number, number]} */ ([stage.stage, (stage.begin - begin) / length, (stage.end - stage.begin) / length]));
}

/** @param {any[]} jobs */
function showJobs(jobs) {
  const names = new Map(state.document.keys.map((/** @type {any} */ key) => [key.key, keyName(key)]));
  if (!jobs.length) return emptyRow(byId("jobs"), 8, "There were no jobs yet.");
  sync(byId("jobs"), jobs, (job) => job.id, () => {
    const row = cells(["", "", "", "", "number", "number", "number", "stages"])();
    const button = element("button");
    button.addEventListener("click", () => openJob(button.dataset.job ?? ""));
    row.children[0].append(button);
    row.children[7].append(element("div", "bar at"));
    return row;
  }, (row, job) => {
    const [id, mood, client, key, priority, waited, ran, bar] = row.children;
    setText(id.firstChild, shortId(job.id));
    id.firstChild.dataset.job = job.id;
    setText(mood, job.state);
    mood.className = MOODS.get(job.state) ?? "";
    mood.title = job.message;
    setText(client, job.client);
    setText(key, String(names.get(job.key) ?? shortId(job.key)));
    setText(priority, String(job.priority));
    const end = job.ended ?? state.document.server.now;
    setText(waited, formatSeconds((job.started ?? end) - job.created));
    setText(ran, job.started === null ? "–" : formatSeconds(end - job.started));
    fillBar(bar.firstChild, showBars(job));
  });
}

/** @param {string} id */
function openJob(id) {
  state.selected = id;
  setText(byId("h-job"), id);
  byId("job-body").replaceChildren(element("p", "soft", "Loading …"));
  byId("job").showModal();
  void showJob();
}

async function showJob() {
  const id = state.selected;
  const body = byId("job-body");
  try {
    const job = await (await request(`status/jobs/${encodeURIComponent(id)}`)).json();
    if (state.selected === id) body.replaceChildren(...jobParts(job));
  } catch (error) {
    body.replaceChildren(element("p", "bad", error instanceof Error ? error.message : String(error)));
  }
}

/** @param {any} job */
function jobParts(job) {
  const facts = element("dl");
  const ended = job.ended ?? now();
  for (const [name, value] of [
    ["State", job.state], ["Client", job.client], ["Priority", String(job.priority)],
    ["Partitions", `${job.partitions - job.remaining} of ${job.partitions}`], ["Payload", formatBytes(job.bytes)],
    ["Waited", formatSeconds((job.started ?? ended) - job.created)], ["Ran", job.started === null ? "–" : formatSeconds(ended - job.started)],
    ["Submitted", `${formatSeconds(now() - job.created)} ago`],
  ]) {
    const box = element("div");
    box.append(element("dt", "", name), element("dd", "", value));
    facts.append(box);
  }
  const bar = element("div", "bar at");
  fillBar(bar, showBars(job));
  const key = element("p", "soft", `Key ${job.key}`);
  const parts = [facts, key, bar];
  if (job.code) parts.splice(1, 0, element("p", "bad", `${job.code}: ${job.message}`));
  const attempts = (job.attempts ?? []).map((/** @type {any} */ attempt) => [
    String(attempt.partition), attempt.worker, attempt.outcome ?? "running", formatSeconds((attempt.ended ?? now()) - attempt.started), attempt.code ? `${attempt.code}: ${attempt.message}` : "",
  ]);
  const events = (job.events ?? []).map((/** @type {any} */ entry) => [
    String(entry.number), `+${formatSeconds(entry.at - job.created)}`, entry.kind,
    Object.entries(entry.data).map(([name, value]) => `${name} ${value}`).join(", "),
  ]);
  if (attempts.length) parts.push(element("h3", "", "Attempts"), table(["Partition", "Worker", "Outcome", "Took", ""], attempts));
  if (events.length) parts.push(element("h3", "", "Events"), table(["", "At", "Event", ""], events));
  return parts;
}

/** @param {string[]} heads @param {string[][]} rows */
function table(heads, rows) {
  const node = element("table");
  const lines = [heads, ...rows].map((texts, line) => {
    const row = element("tr");
    for (const text of texts) row.append(element(line ? "td" : "th", "", text));
    return row;
  });
  node.append(...lines);
  return node;
}

function drawLanes() {
  if (!state.document) return;
  for (const box of byId("workers").querySelectorAll(".worker")) {
    const worker = state.document.workers.find((/** @type {any} */ candidate) => candidate.name === box.dataset.key);
    if (!worker) continue;
    const end = now() - DELAY;
    const running = worker.jobs.map((/** @type {any} */ job) => ({
      worker: worker.name, job: job.job, partition: 0, stage: job.stage, end,
      begin: state.seen.get(`${worker.name} ${job.job} ${job.stage}`) ?? end,
    }));
    const stages = [...(state.byWorker.get(worker.name) ?? []), ...running];
    draw(box.querySelector("canvas"), stages, worker.started, end);
  }
}

/** Return the stage under the pointer. @param {MouseEvent} event */
function stageUnderPointer(event) {
  const canvas = event.target;
  if (!(canvas instanceof HTMLCanvasElement)) return undefined;
  const worker = /** @type {HTMLElement} */ (canvas.parentElement).dataset.key ?? "";
  return stageAt(canvas, state.byWorker.get(worker) ?? [], event.offsetX, event.offsetY, now() - DELAY);
}

byId("workers").addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
  const stage = stageUnderPointer(event);
  const text = stage ? `${stage.stage} · ${formatSeconds(stage.end - stage.begin)} · job ${stage.job}` : "";
  if (event.target instanceof HTMLCanvasElement && event.target.title !== text) event.target.title = text;
});
byId("workers").addEventListener("click", (/** @type {MouseEvent} */ event) => {
  const stage = stageUnderPointer(event);
  if (stage) openJob(stage.job);
});
byId("job").addEventListener("close", () => (state.selected = ""));
byId("access").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value.trim());
  byId("token").value = "";
  tokenEntered = true;
  wake();
});
for (const kind of [...KINDS, "idle"]) {
  const row = element("li");
  row.append(element("i", kind), kind === "idle" ? "device idle" : kind);
  byId("legend").append(row);
}
readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
setInterval(() => document.hidden || requestAnimationFrame(drawLanes), FRAME);
void poll();
void follow();
