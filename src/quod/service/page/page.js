/**
 * The operator's page: the document of `GET /status` once a second, and finished stages
 * (`GET /status/stages`). The token is kept in this tab alone.
 */

import { draw, KINDS, readColours, stageAt, WINDOW } from "./lanes.js";

/** @typedef {import("./lanes.js").Stage} Stage */

/** The maximum delay of stages after their end, by which the lanes lag. */
const DELAY = 1.25;
const POLL = 1000;
const FRAME = 100;
const MOST_BARS = 200;

const state = {
  /** The server's clock less ours, in seconds. */
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
const by = (id) => document.getElementById(id);

/** @param {string} tag @param {string} [name] @param {string} [text] */
function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}

/** @param {Element} node @param {string} text */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// --- figures

/** @param {number | null | undefined} seconds */
function span(seconds) {
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
function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return `${unit === "B" ? count : count.toPrecision(3)} ${unit}`;
    count /= 1000;
  }
  return `${count.toPrecision(3)} TB`;
}

/** @param {number} count */
const whole = (count) => count.toLocaleString("en");
/** @param {number} rate */
const perSecond = (rate) => (rate >= 100 ? rate.toFixed(0) : rate.toFixed(rate >= 10 ? 1 : 2));
/** @param {string} id */
const short = (id) => (id.length > 14 ? `${id.slice(0, 12)}…` : id);
const now = () => Date.now() / 1000 + state.offset;

// --- the server

class Refused extends Error {}

/** @param {string} path @param {AbortSignal} [signal] */
async function request(path, signal) {
  const token = sessionStorage.getItem("token");
  /** @type {Record<string, string>} */
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store", signal });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const message = told.error?.message ?? `the server answers ${answer.status}`;
  if (answer.status === 401 || answer.status === 403) throw new Refused(message);
  throw new Error(message);
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** End the wait for a token; `entered` is true if one arrived while the last was tried. */
let wake = () => {};
let entered = false;

async function poll() {
  for (;;) {
    entered = false;
    try {
      const found = await (await request("status", AbortSignal.timeout(10_000))).json();
      take(found);
      trouble("");
    } catch (error) {
      const refused = error instanceof Refused;
      state.refused = refused;
      by("access").hidden = !refused;
      const text = error instanceof Error ? error.message : String(error);
      // A missing token is no error: the form asks for one.
      const asks = refused && !sessionStorage.getItem("token");
      trouble(asks ? "" : refused ? text : `The server cannot be reached (${text}); trying again.`);
      if (asks) pill(by("state"), "token needed");
    }
    if (state.refused && !entered) await new Promise((resolve) => (wake = () => resolve(undefined)));
    else if (!state.refused) await pause(document.hidden ? 5 * POLL : POLL);
  }
}

/** @param {string} text */
function trouble(text) {
  by("problem").hidden = !text;
  say(by("problem"), text);
  document.body.classList.toggle("stale", Boolean(text));
  if (text) pill(by("state"), state.refused ? "no access" : "unreachable");
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
  const answer = await request(`status/stages?after=${state.after}`);
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const fields = new Map(part.split("\n").map((line) => /** @type {[string, string]} */ (line.split(/: ?(.*)/s, 2))));
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
      for (const one of JSON.parse(data).stages) add(one);
    }
  }
}

/** @param {Stage} one */
function add(one) {
  for (const [map, key] of /** @type {[Map<string, Stage[]>, string][]} */ ([[state.byWorker, one.worker], [state.byJob, one.job]])) {
    const list = map.get(key);
    if (list) list.push(one);
    else map.set(key, [one]);
  }
  state.seen.delete(`${one.worker} ${one.job} ${one.stage}`);
}

/** Delete stages that are no longer shown. */
function forget() {
  const before = now() - WINDOW - DELAY;
  for (const [worker, list] of state.byWorker) {
    const first = list.findIndex((one) => one.end >= before);
    if (first < 0) state.byWorker.delete(worker);
    else if (first > 0) list.splice(0, first);
  }
  const shown = new Set(state.document.jobs.map((/** @type {any} */ job) => job.id));
  for (const [job, list] of state.byJob)
    if (!shown.has(job) && list[list.length - 1].end < before) state.byJob.delete(job);
}

/** @param {any} found */
function take(found) {
  state.refused = false;
  by("access").hidden = true;
  by("main").hidden = false;
  state.document = found;
  state.offset = found.server.now - Date.now() / 1000;
  if (state.started !== found.server.started) {
    state.started = found.server.started;
    state.seen.clear();
  }
  const running = new Set();
  for (const worker of found.workers)
    for (const one of worker.jobs) {
      const name = `${worker.name} ${one.job} ${one.stage}`;
      running.add(name);
      if (!state.seen.has(name)) state.seen.set(name, found.server.now);
    }
  for (const name of state.seen.keys()) if (!running.has(name)) state.seen.delete(name);
  forget();
  showBanner(found);
  showWorkers(found.workers);
  showQueue(found.queue);
  showKeys(found.keys);
  showJobs(found.jobs);
  if (by("job").open && state.selected) void showJob();
}

// --- display

const MOODS = new Map(Object.entries({
  ready: "good", busy: "good", succeeded: "good", draining: "warn", starting: "warn", cancelled: "warn",
  expired: "warn", quarantined: "bad", dead: "bad", failed: "bad", lost: "bad", unreachable: "bad",
}));

/** @param {Element} node @param {string} word */
function pill(node, word) {
  say(node, word);
  node.className = `pill ${MOODS.get(word) ?? ""}`;
}

/**
 * Update the rows of a table by key, in order, reusing existing rows.
 * @param {Element} body @param {any[]} items @param {(item: any) => string} key
 * @param {() => Element} make @param {(row: any, item: any) => void} fill
 */
function sync(body, items, key, make, fill) {
  const old = new Map([...body.children].map((row) => [/** @type {HTMLElement} */ (row).dataset.key, row]));
  let place = body.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let row = old.get(name);
    if (row) old.delete(name);
    else {
      row = make();
      /** @type {HTMLElement} */ (row).dataset.key = name;
    }
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
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

/** @param {any} found */
function showBanner(found) {
  pill(by("state"), found.queue.storage_full ? "disk full" : found.server.state);
  if (found.queue.storage_full) by("state").classList.add("bad");
  const oldest = found.queue.oldest === null ? null : found.server.now - found.queue.oldest;
  const figures = [
    ["Proofs a second", perSecond(found.rate.proofs_per_second)],
    ["Wait, median", span(found.rate.wait_p50)],
    ["Wait, 95 %", span(found.rate.wait_p95)],
    ["Waiting", whole(found.queue.waiting)],
    ["Running", whole(found.queue.running)],
    ["Held", whole(found.queue.held)],
    ["Oldest", span(oldest)],
    ["Up", span(found.server.now - found.server.started)],
    ["Version", found.server.version],
  ];
  sync(by("figures"), figures, (one) => one[0], () => {
    const box = element("div");
    box.append(element("dt"), element("dd"));
    return box;
  }, (box, [name, value]) => {
    say(box.children[0], name);
    say(box.children[1], value);
  });
}

const PURPOSES = ["keys", "workspace", "free"];

/** @param {any[]} workers */
function showWorkers(workers) {
  sync(by("workers"), workers, (one) => one.name, () => {
    const box = element("div", "worker");
    const about = element("div");
    const title = element("h3");
    title.append(element("span"), element("span", "pill"));
    about.append(title, element("p"), element("div", "bar"), element("p"), element("p", "bad"));
    box.append(about, element("canvas"));
    return box;
  }, (box, worker) => {
    const [title, counts, bar, memory, problem] = box.firstElementChild.children;
    say(title.children[0], worker.name);
    pill(title.children[1], worker.state);
    const restarts = worker.restarts ? `, restarts: ${worker.restarts}` : "";
    const replications = worker.replications ? `, ${whole(worker.replications)} keys of others` : "";
    const failures = worker.failures ? `, ${whole(worker.failures)} failed` : "";
    say(counts, `${worker.device} · ${(100 * worker.busy).toFixed(0)} % busy · ${whole(worker.proofs)} proofs${failures}${restarts}${replications}`);
    const parts = Object.entries(worker.memory);
    const total = parts.reduce((sum, [, size]) => sum + Number(size), 0);
    parts.sort(([a], [b]) => (PURPOSES.indexOf(a) + 9) % 9 - (PURPOSES.indexOf(b) + 9) % 9);
    bar.hidden = total === 0;
    fillBar(bar, parts.filter(([name]) => name !== "free").map(([name, size]) => [PURPOSES.includes(name) ? name : "other", 0, Number(size) / total]));
    say(memory, parts.map(([name, size]) => `${name} ${bytes(Number(size))}`).join(" · "));
    say(problem, worker.problem);
    problem.hidden = !worker.problem;
  });
  if (!workers.length) say(by("workers"), "There are no workers.");
}

/** @param {any} bar @param {[string, number, number][]} parts Class, begin and length as shares of the bar. */
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
  const most = Math.max(1, ...queue.priorities.map((/** @type {any} */ one) => one.waiting));
  if (!queue.priorities.length) emptyRow(by("priorities"), 3, "Nothing waits.");
  else
    sync(by("priorities"), queue.priorities, (one) => String(one.priority), () => {
      const row = cells(["", "number", ""])();
      row.children[2].append(element("div", "bar"));
      return row;
    }, (row, one) => {
      say(row.children[0], String(one.priority));
      say(row.children[1], whole(one.waiting));
      fillBar(row.children[2].firstElementChild, [["upload", 0, one.waiting / most]]);
    });
  if (!queue.clients.length) emptyRow(by("clients"), 3, "No client has a job.");
  else
    sync(by("clients"), queue.clients, (one) => one.client, cells(["", "number", "number"]), (row, one) => {
      say(row.children[0], one.client);
      row.children[0].title = one.client;
      say(row.children[1], whole(one.jobs));
      say(row.children[2], bytes(one.bytes));
    });
}

/** @param {any} key */
const called = (key) => key.names[0]?.replace(/:latest$/, "") ?? short(key.key);

/** @param {any[]} keys */
function showKeys(keys) {
  const rows = keys.flatMap((key) => key.workers.map((/** @type {any} */ use) => ({ key, use })));
  if (!rows.length) return emptyRow(by("keys"), 9, "No key was asked for.");
  sync(by("keys"), rows, ({ key, use }) => `${key.key} ${use.worker}`, cells(["", "", "", ...Array(6).fill("number")]), (row, { key, use }) => {
    const texts = [
      key.copies > 1 ? `${called(key)} (${key.copies} copies)` : called(key), use.worker, use.loading ? `${use.tier}, loading` : use.tier, bytes(use.device_bytes), bytes(use.host_bytes),
      whole(use.leases), whole(use.hits), whole(use.misses), use.loads ? span(use.load_seconds) : "–",
    ];
    texts.forEach((text, index) => say(row.children[index], text));
    row.children[0].title = [key.key, ...key.names].join("\n");
    row.children[8].classList.toggle("bad", use.failures > 0);
  });
}

/** @param {any} job */
function showBars(job) {
  const list = (state.byJob.get(job.id) ?? []).slice(-MOST_BARS);
  const begin = Math.min(job.started ?? Infinity, ...list.map((one) => one.begin));
  const end = Math.max(job.ended ?? 0, ...list.map((one) => one.end));
  const length = Math.max(end - begin, 1e-9);
  return list.map((one) => /** @type {[string, number, number]} */ ([one.stage, (one.begin - begin) / length, (one.end - one.begin) / length]));
}

/** @param {any[]} jobs */
function showJobs(jobs) {
  const names = new Map(state.document.keys.map((/** @type {any} */ key) => [key.key, called(key)]));
  if (!jobs.length) return emptyRow(by("jobs"), 8, "There were no jobs yet.");
  sync(by("jobs"), jobs, (job) => job.id, () => {
    const row = cells(["", "", "", "", "number", "number", "number", "stages"])();
    const button = element("button");
    button.addEventListener("click", () => openJob(button.dataset.job ?? ""));
    row.children[0].append(button);
    row.children[7].append(element("div", "bar at"));
    return row;
  }, (row, job) => {
    const [id, mood, client, key, priority, waited, ran, bar] = row.children;
    say(id.firstChild, short(job.id));
    id.firstChild.dataset.job = job.id;
    say(mood, job.state);
    mood.className = MOODS.get(job.state) ?? "";
    mood.title = job.message;
    say(client, job.client);
    say(key, String(names.get(job.key) ?? short(job.key)));
    say(priority, String(job.priority));
    const end = job.ended ?? state.document.server.now;
    say(waited, span((job.started ?? end) - job.created));
    say(ran, job.started === null ? "–" : span(end - job.started));
    fillBar(bar.firstChild, showBars(job));
  });
}

/** @param {string} id */
function openJob(id) {
  state.selected = id;
  say(by("h-job"), id);
  by("job-body").replaceChildren(element("p", "soft", "Loading …"));
  by("job").showModal();
  void showJob();
}

async function showJob() {
  const id = state.selected;
  const body = by("job-body");
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
    ["Partitions", `${job.partitions - job.remaining} of ${job.partitions}`], ["Payload", bytes(job.bytes)],
    ["Waited", span((job.started ?? ended) - job.created)], ["Ran", job.started === null ? "–" : span(ended - job.started)],
    ["Submitted", `${span(now() - job.created)} ago`],
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
  const attempts = (job.attempts ?? []).map((/** @type {any} */ one) => [
    String(one.partition), one.worker, one.outcome ?? "running", span((one.ended ?? now()) - one.started), one.code ? `${one.code}: ${one.message}` : "",
  ]);
  const events = (job.events ?? []).map((/** @type {any} */ one) => [
    String(one.number), `+${span(one.at - job.created)}`, one.kind,
    Object.entries(one.data).map(([name, value]) => `${name} ${value}`).join(", "),
  ]);
  if (attempts.length) parts.push(element("h3", "", "Attempts"), table(["Partition", "Worker", "Outcome", "Took", ""], attempts));
  if (events.length) parts.push(element("h3", "", "Events"), table(["", "At", "Event", ""], events));
  return parts;
}

/** @param {string[]} heads @param {string[][]} rows */
function table(heads, rows) {
  const made = element("table");
  const lines = [heads, ...rows].map((texts, line) => {
    const row = element("tr");
    for (const text of texts) row.append(element(line ? "td" : "th", "", text));
    return row;
  });
  made.append(...lines);
  return made;
}

function drawLanes() {
  if (!state.document) return;
  for (const box of by("workers").querySelectorAll(".worker")) {
    const worker = state.document.workers.find((/** @type {any} */ one) => one.name === box.dataset.key);
    if (!worker) continue;
    const end = now() - DELAY;
    const running = worker.jobs.map((/** @type {any} */ one) => ({
      worker: worker.name, job: one.job, partition: 0, stage: one.stage, end,
      begin: state.seen.get(`${worker.name} ${one.job} ${one.stage}`) ?? end,
    }));
    const stages = [...(state.byWorker.get(worker.name) ?? []), ...running];
    draw(box.querySelector("canvas"), stages, worker.started, end);
  }
}

/** The stage under the pointer. @param {MouseEvent} event */
function pointed(event) {
  const canvas = event.target;
  if (!(canvas instanceof HTMLCanvasElement)) return undefined;
  const worker = /** @type {HTMLElement} */ (canvas.parentElement).dataset.key ?? "";
  return stageAt(canvas, state.byWorker.get(worker) ?? [], event.offsetX, event.offsetY, now() - DELAY);
}

by("workers").addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
  const one = pointed(event);
  const text = one ? `${one.stage} · ${span(one.end - one.begin)} · job ${one.job}` : "";
  if (event.target instanceof HTMLCanvasElement && event.target.title !== text) event.target.title = text;
});
by("workers").addEventListener("click", (/** @type {MouseEvent} */ event) => {
  const one = pointed(event);
  if (one) openJob(one.job);
});
by("job").addEventListener("close", () => (state.selected = ""));
by("access").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value.trim());
  by("token").value = "";
  entered = true;
  wake();
});
for (const kind of [...KINDS, "idle"]) {
  const row = element("li");
  row.append(element("i", kind), kind === "idle" ? "device idle" : kind);
  by("legend").append(row);
}
readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
setInterval(() => document.hidden || requestAnimationFrame(drawLanes), FRAME);
void poll();
void follow();
