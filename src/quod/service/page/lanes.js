/** Lanes of a worker: its stages over the last minute, and the idle times of its device. */

/** @typedef {{ worker: string, job: string, partition: number, stage: string, begin: number, end: number }} Stage */

/** The stages in the order of a proof, with a lane each. */
export const KINDS = ["witness", "key", "upload", "prove", "check"];
/** Seconds. */
export const WINDOW = 60;

const TALL = 13;
const LANE = TALL + 3;

/** @type {Record<string, string>} */
const colours = {};

/** Read the colours of the style sheet, which follow the reader's colour scheme. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [...KINDS, "idle", "track", "soft"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

/**
 * Draw the minute before `end`. Red marks time since `started` in which the device did not prove.
 * @param {HTMLCanvasElement} canvas @param {Stage[]} stages @param {number} started @param {number} end
 */
export function draw(canvas, stages, started, end) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const begin = end - WINDOW;
  /** @param {number} time */
  const x = (time) => ((time - begin) / WINDOW) * width;
  /** @param {number} from @param {number} to @param {number} y */
  const block = (from, to, y) => pen.fillRect(x(from), y, Math.max(x(to) - x(from), 0.75), TALL);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  KINDS.forEach((kind, lane) => {
    const y = lane * LANE;
    pen.fillStyle = colours.track;
    pen.fillRect(0, y, width, TALL);
    const own = stages.filter((one) => one.stage === kind && one.end > begin && one.begin < end);
    own.sort((a, b) => a.begin - b.begin);
    if (kind === "prove") {
      pen.fillStyle = colours.idle;
      let at = Math.max(begin, started);
      for (const one of own) {
        if (one.begin > at) block(at, one.begin, y);
        at = Math.max(at, one.end);
      }
      if (at < end) block(at, end, y);
    }
    pen.fillStyle = colours[kind];
    let drawn = -1;
    for (const one of own) {
      const [from, to] = [Math.max(one.begin, begin), Math.min(one.end, end)];
      // With thousands of stages a second, most fall on a pixel that is drawn already.
      if (x(to) <= drawn) continue;
      block(from, to, y);
      drawn = Math.max(x(to), x(from) + 0.75);
    }
  });
  pen.fillStyle = colours.soft;
  pen.font = "10px system-ui, sans-serif";
  for (let seconds = 0; seconds <= WINDOW; seconds += 15) {
    pen.textAlign = seconds === 0 ? "right" : seconds === WINDOW ? "left" : "center";
    pen.fillText(seconds ? `−${seconds} s` : "now", ((WINDOW - seconds) / WINDOW) * width, height - 2);
  }
}

/**
 * The stage at a point of a canvas, to a pixel.
 * @param {HTMLCanvasElement} canvas @param {Stage[]} stages @param {number} x @param {number} y @param {number} end
 * @returns {Stage | undefined}
 */
export function stageAt(canvas, stages, x, y, end) {
  const kind = KINDS[Math.floor(y / LANE)];
  const near = WINDOW / canvas.clientWidth;
  const time = end - WINDOW + x * near;
  return stages.find((one) => one.stage === kind && one.begin - near <= time && time <= one.end + near);
}
