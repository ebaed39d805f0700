/** The pairing curves, their groups G1 and G2, and the encoding of points in snarkjs's JSON. */
import { sources } from "./curves.js";
import { InputError } from "./errors.js";
import { hexOf } from "./files.js";
import { Tower, primeField } from "./field.js";

/** @typedef {import("./field.js").Fq2} Fq2 */
/**
 * @template T
 * @typedef {[T, T] | null} Point Affine; null is the point at infinity.
 */
/**
 * A point (x / zz, y / zzz) with zz^3 = zzz^2; null is the point at infinity.
 * @template T
 * @typedef {[T, T, T, T] | null} Sum
 */
/** @typedef {ReturnType<typeof makeCurve>} Curve */

/**
 * The group of the points of y^2 = x^3 + b over a field.
 * @template T
 */
export class Group {
  /**
   * @param {import("./field.js").Field<T>} field
   * @param {T} b
   */
  constructor(field, b) {
    this.field = field;
    this.b = b;
    this.sums = sumsOver(field);
  }

  /** @param {Point<T>} p */
  contains(p) {
    const { add, mul, eq } = this.field;
    return p === null || eq(mul(p[1], p[1]), add(mul(p[0], mul(p[0], p[0])), this.b));
  }

  /**
   * @param {Point<T>} p
   * @param {Point<T>} q
   */
  equal(p, q) {
    return p === null || q === null ? p === q : this.field.eq(p[0], q[0]) && this.field.eq(p[1], q[1]);
  }

  /**
   * @param {Point<T>} p
   * @returns {Point<T>}
   */
  neg(p) {
    return p && [p[0], this.field.neg(p[1])];
  }

  /**
   * Returns the slope of the line through two points, or of the tangent if they are equal.
   * @param {[T, T]} p
   * @param {[T, T]} q Not -p.
   */
  slope([x1, y1], [x2, y2]) {
    const { add, sub, mul, inv, eq } = this.field;
    if (!eq(x1, x2)) return mul(sub(y2, y1), inv(sub(x2, x1)));
    const square = mul(x1, x1);
    return mul(add(square, add(square, square)), inv(add(y1, y1)));
  }

  /**
   * Returns the sum of two points, whose line has the given slope.
   * @param {[T, T]} p
   * @param {[T, T]} q
   * @param {T} slope
   * @returns {[T, T]}
   */
  addAlong([x1, y1], [x2], slope) {
    const { sub, mul } = this.field;
    const x = sub(sub(mul(slope, slope), x1), x2);
    return [x, sub(mul(slope, sub(x1, x)), y1)];
  }

  /**
   * @param {Point<T>} p
   * @param {Point<T>} q
   * @returns {Point<T>}
   */
  add(p, q) {
    const { add, eq, isZero } = this.field;
    if (p === null || q === null) return p ?? q;
    if (eq(p[0], q[0]) && isZero(add(p[1], q[1]))) return null;
    return this.addAlong(p, q, this.slope(p, q));
  }

  /**
   * Returns scalar * p.
   * @param {bigint} scalar Not negative.
   * @param {Point<T>} p
   * @returns {Point<T>}
   */
  mul(scalar, p) {
    const { add, double, toAffine } = this.sums;
    const { one } = this.field;
    /** @type {Sum<T>} */
    let total = null;
    for (const bit of scalar.toString(2)) {
      total = double(total);
      if (bit === "1") total = add(total, p && [...p, one, one]);
    }
    return toAffine(total);
  }
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

/**
 * @param {object} parameters
 * @param {string} parameters.snarkjs The curve's name in snarkjs's proofs and keys.
 * @param {"bn" | "bls12"} parameters.family
 * @param {bigint} parameters.q
 * @param {bigint} parameters.r
 * @param {bigint} parameters.x The parameter of the curve family.
 * @param {Fq2} parameters.xi The non-residue of Fq6 = Fq2[v]/(v^3 - xi).
 * @param {bigint} parameters.b
 * @param {bigint} parameters.generator1 The x coordinate of the generator of G1.
 * @param {[Fq2, Fq2]} parameters.generator2
 * @param {number} parameters.bytes The size of a coordinate.
 */
function makeCurve({ snarkjs, family, q, r, x, xi, b, generator1, generator2, bytes }) {
  const tower = new Tower(q, xi);
  const { mul, inv } = tower.fq2;
  const bn = family === "bn";
  const g1 = new Group(primeField(q), b);
  // BN254 has a twist of type D (b / xi), BLS12-381 one of type M (b * xi).
  const g2 = new Group(tower.fq2, mul([b, 0n], bn ? inv(xi) : xi));
  const psi = [tower.frobenius1[2], tower.frobenius1[3]].map((c) => (bn ? c : inv(c)));
  return {
    snarkjs, bn, q, r, x, tower, g1, g2, generator1, generator2, bytes,
    radix: 1n << BigInt(8 * bytes),
    /**
     * The endomorphism untwist, Frobenius, twist; it multiplies points of G2 by q.
     * @param {[Fq2, Fq2]} p
     * @returns {[Fq2, Fq2]}
     */
    psi: (p) => [mul([p[0][0], (q - p[0][1]) % q], psi[0]), mul([p[1][0], (q - p[1][1]) % q], psi[1])],
  };
}

/** @type {Map<string, Curve>} */
const curves = new Map();

/**
 * Returns the curve with a name of Quod, snarkjs or another tool (`quod.formats.curves` in Python). Throws
 * InputError for an unknown name.
 * @param {string} name
 */
export function curveOf(name) {
  // Case and punctuation do not count.
  const plain = typeof name === "string" ? name.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase() : "";
  const entry = Object.entries(sources).find(
    ([, { snarkjs, aliases }]) => plain === snarkjs || aliases.includes(plain),
  );
  if (!entry) throw new InputError(`curve ${JSON.stringify(name)} is neither bn128 nor bls12381`);
  const [key, source] = entry;
  if (!curves.has(key)) curves.set(key, makeCurve(source));
  return /** @type {Curve} */ (curves.get(key));
}

// --- encodings of points

/** @param {Point<bigint>} p */
export const g1ToJson = (p) => (p ? [...p.map(String), "1"] : ["0", "1", "0"]);

/** @param {Point<Fq2>} p */
export const g2ToJson = (p) =>
  p ? [...p.map((c) => c.map(String)), ["1", "0"]] : [["0", "0"], ["1", "0"], ["0", "0"]];

/**
 * Parses a canonical decimal number below a modulus: a string without sign or leading zeros.
 * @param {unknown} value
 * @param {bigint} modulus
 * @param {string} what The name of the value in messages.
 */
export function parseBelow(value, modulus, what) {
  if (typeof value !== "string" || !/^(0|[1-9]\d{0,159})$/.test(value))
    throw new InputError(`${what} is not a decimal number in quotes`);
  const number = BigInt(value);
  if (number >= modulus) throw new InputError(`${what} is not below the modulus of the field`);
  return number;
}

/**
 * Parses a point of the curve in snarkjs's form: affine with a third coordinate of 1, or (0, 1, 0) for infinity.
 * @param {Curve} curve
 * @param {unknown} value
 * @param {string} what
 * @returns {Point<bigint>}
 */
export function g1FromJson(curve, value, what) {
  if (!Array.isArray(value) || value.length !== 3) throw new InputError(`${what} is not a list of three coordinates`);
  const [x, y, z] = value.map((v, i) => parseBelow(v, curve.q, `${what}[${i}]`));
  return checkPoint(curve.g1, z === 1n ? [x, y] : z === 0n && x === 0n && y === 1n ? null : undefined, what);
}

/**
 * @param {Curve} curve
 * @param {unknown} value
 * @param {string} what
 * @returns {Point<Fq2>}
 */
export function g2FromJson(curve, value, what) {
  if (!Array.isArray(value) || value.length !== 3 || !value.every((c) => Array.isArray(c) && c.length === 2))
    throw new InputError(`${what} is not a list of three coordinates of two numbers each`);
  const [x, y, z] = value.map((c, i) =>
    c.map((/** @type {unknown} */ v, /** @type {number} */ j) => parseBelow(v, curve.q, `${what}[${i}][${j}]`)));
  const text = [x, y, z].join();
  return checkPoint(curve.g2, z.join() === "1,0" ? [x, y] : text === "0,0,1,0,0,0" ? null : undefined, what);
}

/**
 * Returns a point that is on the curve; throws InputError otherwise.
 * @template T
 * @param {Group<T>} group
 * @param {Point<T> | undefined} point Undefined if its third coordinate is invalid.
 * @param {string} what
 * @returns {Point<T>}
 */
function checkPoint(group, point, what) {
  if (point === undefined) throw new InputError(`${what} is not affine: its third coordinate must be 1, or 0 in (0, 1, 0)`);
  if (!group.contains(point)) throw new InputError(`${what} is not on the curve`);
  return point;
}

/**
 * Decodes a little-endian integer.
 * @param {Uint8Array} bytes
 */
export function integerOf(bytes) {
  return BigInt(`0x${hexOf(bytes.slice().reverse())}`);
}
