/** Draws the lanes of a worker: its stages over the last minute, and the idle times of its device. */

/** @typedef {{ worker: string, job: string, partition: number, stage: string, begin: number, end: number }} Stage */

/** The stages in the order of a proof; each has a lane. */
export const KINDS = ["witness", "key", "upload", "prove", "check"];
/** The lanes of the stages of a text. @type {Record<string, string>} */
const LANES = { prompt: "upload", generate: "prove" };
/** The time that a lane shows, in seconds. */
export const WINDOW = 60;

const BAR_HEIGHT = 13;
const LANE_HEIGHT = BAR_HEIGHT + 3;

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
  const block = (from, to, y) => pen.fillRect(x(from), y, Math.max(x(to) - x(from), 0.75), BAR_HEIGHT);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  KINDS.forEach((kind, lane) => {
    const y = lane * LANE_HEIGHT;
    pen.fillStyle = colours.track;
    pen.fillRect(0, y, width, BAR_HEIGHT);
    const visible = stages.filter((stage) => (LANES[stage.stage] ?? stage.stage) === kind && stage.end > begin && stage.begin < end);
    visible.sort((a, b) => a.begin - b.begin);
    if (kind === "prove") {
      pen.fillStyle = colours.idle;
      let at = Math.max(begin, started);
      for (const stage of visible) {
        if (stage.begin > at) block(at, stage.begin, y);
        at = Math.max(at, stage.end);
      }
      if (at < end) block(at, end, y);
    }
    pen.fillStyle = colours[kind];
    let drawnEnd = -1;
    for (const stage of visible) {
      const [from, to] = [Math.max(stage.begin, begin), Math.min(stage.end, end)];
      // With thousands of stages per second, most fall on a pixel that is already drawn.
      if (x(to) <= drawnEnd) continue;
      block(from, to, y);
      drawnEnd = Math.max(x(to), x(from) + 0.75);
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
 * Return the stage at a point of a canvas, with a tolerance of one pixel.
 * @param {HTMLCanvasElement} canvas @param {Stage[]} stages @param {number} x @param {number} y @param {number} end
 * @returns {Stage | undefined}
 */
export function stageAt(canvas, stages, x, y, end) {
  const kind = KINDS[Math.floor(y / LANE_HEIGHT)];
  const pixelSeconds = WINDOW / canvas.clientWidth;
  const time = end - WINDOW + x * pixelSeconds;
  return stages.find((stage) => (LANES[stage.stage] ?? stage.stage) === kind && stage.begin - pixelSeconds <= time && time <= stage.end + pixelSeconds);
}
