/** The last steps of multi-scalar products: from the lines that the GPU computes to points. */
import { integerOf } from "./curve.js";
import { InputError } from "./errors.js";
import { inverse } from "./field.js";

/**
 * The shape of the lines of a product, vectors of points. Point i of vector v weighs i * 2^place, or (i + 1) * 2^place
 * in the last vector; those of window w weigh 2^(windowBits * w) times as much.
 * @typedef {object} LineShape
 * @property {number} windowBits
 * @property {number} windows
 * @property {{ bits: number, place: number }[]} vectors The vectors of 2^bits points a window, highest places first.
 */
/**
 * A point (x / zz, y / zzz) with zz^3 = zzz^2; null is the point at infinity.
 * @template T
 * @typedef {[T, T, T, T] | null} Sum
 */

/**
 * Returns the result of a product over G1 or G2.
 * @param {import("./curve.js").Curve} curve
 * @param {1 | 2} degree
 * @param {LineShape} shape
 * @param {Uint8Array} bytes The lines: vector by vector, window by window, points as four coordinates in Montgomery form.
 * @returns {any}
 */
export function addLines(curve, degree, { windowBits, windows, vectors }, bytes) {
  const pointBytes = 4 * degree * curve.bytes;
  const count = vectors.reduce((sum, { bits }) => sum + windows * 2 ** bits, 0);
  if (bytes.length !== count * pointBytes) throw new InputError(`${count} points of G${degree} have ${count * pointBytes} bytes, not ${bytes.length}`);
  const radixInverse = inverse(curve.radix, curve.q);
  const coordinate = (/** @type {number} */ at) => (integerOf(bytes.subarray(at, at + curve.bytes)) * radixInverse) % curve.q;
  const field = /** @type {import("./field.js").Field<any>} */ (degree === 1 ? curve.g1.field : curve.g2.field);
  const element = (/** @type {number} */ at) => (degree === 1 ? coordinate(at) : [coordinate(at), coordinate(at + curve.bytes)]);
  const load = (/** @type {number} */ index) => {
    const at = index * pointBytes;
    const [x, y, zz, zzz] = [0, 1, 2, 3].map((i) => element(at + (i * pointBytes) / 4));
    return field.isZero(zz) ? null : /** @type {Sum<any>} */ ([x, y, zz, zzz]);
  };
  const { add, double, toAffine } = sumsOver(field);
  const starts = vectors.map((_, v) => vectors.slice(0, v).reduce((sum, { bits }) => sum + windows * 2 ** bits, 0));
  /** @type {Sum<any>} */
  let total = null;
  for (let window = windows; window--; ) {
    let above = windowBits;
    vectors.forEach(({ bits, place }, v) => {
      for (; above > place; above--) total = double(total);
      // A point is added to `weighted` once for each unit of its weight.
      /** @type {Sum<any>[]} */
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

/**
 * Returns the arithmetic of sums on y^2 = x^3 + b (Bernstein and Lange, EFD: add-2008-s, dbl-2008-s-1 of XYZZ).
 * @template T
 * @param {import("./field.js").Field<T>} field
 */
function sumsOver({ add: plus, sub, mul, inv, isZero }) {
  /** @param {Sum<T>} p @returns {Sum<T>} */
  const double = (p) => {
    // A point with y = 0 would have order two, and neither group has one.
    if (p === null) return null;
    const [x, y, zz, zzz] = p;
    const u = plus(y, y);
    const v = mul(u, u);
    const w = mul(u, v);
    const s = mul(x, v);
    const xx = mul(x, x);
    const m = plus(plus(xx, xx), xx);
    const x3 = sub(mul(m, m), plus(s, s));
    return [x3, sub(mul(m, sub(s, x3)), mul(w, y)), mul(v, zz), mul(w, zzz)];
  };
  /** @param {Sum<T>} p @param {Sum<T>} q @returns {Sum<T>} */
  const add = (p, q) => {
    if (p === null || q === null) return p ?? q;
    const [x1, y1, zz1, zzz1] = p;
    const [x2, y2, zz2, zzz2] = q;
    const x = mul(x1, zz2);
    const y = mul(y1, zzz2);
    const dx = sub(mul(x2, zz1), x);
    const dy = sub(mul(y2, zzz1), y);
    if (isZero(dx)) return isZero(dy) ? double(p) : null;
    const square = mul(dx, dx);
    const cube = mul(dx, square);
    const scaled = mul(x, square);
    const x3 = sub(sub(mul(dy, dy), cube), plus(scaled, scaled));
    return [x3, sub(mul(dy, sub(scaled, x3)), mul(y, cube)), mul(mul(zz1, zz2), square), mul(mul(zzz1, zzz2), cube)];
  };
  /** @param {Sum<T>} p @returns {[T, T] | null} */
  const toAffine = (p) => {
    if (p === null) return null;
    const i = inv(mul(p[2], p[3]));
    return [mul(p[0], mul(i, p[3])), mul(p[1], mul(i, p[2]))];
  };
  return { add, double, toAffine };
}
