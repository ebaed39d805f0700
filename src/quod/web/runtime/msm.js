/** The last step of an MSM: the sum of the partial sums that the GPU computes. */
import { integerOf } from "./curve.js";
import { InputError } from "./errors.js";
import { inverse } from "./field.js";

/** @typedef {import("./curve.js").Sum<any>} Sum */

/**
 * The shape of an MSM's partial sums, vectors of points. Point i of vector v weighs i * 2^shift, or (i + 1) * 2^shift
 * in the last vector; those of window w weigh 2^(windowBits * w) times as much.
 * @typedef {object} MsmShape
 * @property {number} windowBits
 * @property {number} windows
 * @property {{ bits: number, shift: number }[]} vectors The vectors of 2^bits points a window, largest shifts first.
 */
/**
 * Returns the result of an MSM over G1 or G2.
 * @param {import("./curve.js").Curve} curve
 * @param {1 | 2} degree
 * @param {MsmShape} shape
 * @param {Uint8Array} bytes The partial sums: vector by vector, window by window, points as four coordinates in Montgomery form.
 * @returns {any}
 */
export function addPartialSums(curve, degree, { windowBits, windows, vectors }, bytes) {
  const pointBytes = 4 * degree * curve.bytes;
  const count = vectors.reduce((sum, { bits }) => sum + windows * 2 ** bits, 0);
  if (bytes.length !== count * pointBytes) throw new InputError(`${count} points of G${degree} have ${count * pointBytes} bytes, not ${bytes.length}`);
  const radixInverse = inverse(curve.radix, curve.q);
  const coordinate = (/** @type {number} */ at) => (integerOf(bytes.subarray(at, at + curve.bytes)) * radixInverse) % curve.q;
  const { field, sums } = /** @type {import("./curve.js").Group<any>} */ (degree === 1 ? curve.g1 : curve.g2);
  const element = (/** @type {number} */ at) => (degree === 1 ? coordinate(at) : [coordinate(at), coordinate(at + curve.bytes)]);
  const load = (/** @type {number} */ index) => {
    const at = index * pointBytes;
    const [x, y, zz, zzz] = [0, 1, 2, 3].map((i) => element(at + (i * pointBytes) / 4));
    return field.isZero(zz) ? null : /** @type {Sum} */ ([x, y, zz, zzz]);
  };
  const { add, double, toAffine } = sums;
  const starts = vectors.map((_, v) => vectors.slice(0, v).reduce((sum, { bits }) => sum + windows * 2 ** bits, 0));
  /** @type {Sum} */
  let total = null;
  for (let window = windows; window--; ) {
    let above = windowBits;
    vectors.forEach(({ bits, shift }, v) => {
      for (; above > shift; above--) total = double(total);
      // A point is added to `weighted` once for each unit of its weight.
      /** @type {Sum[]} */
      let [running, weighted] = [null, null];
      const lowest = v === vectors.length - 1 ? 0 : 1;
      for (let i = 2 ** bits - 1; i >= lowest; i--) {
        running = add(running, load(starts[v] + window * 2 ** bits + i));
        weighted = add(weighted, running);
      }
      total = add(total, weighted);
    });
  }
  return toAffine(total);
}
