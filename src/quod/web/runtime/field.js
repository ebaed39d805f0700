/**
 * Fields on BigInt: Fq, Fq2 = Fq[u]/(u^2 + 1), Fq12 = Fq2[w]/(w^6 - xi).
 *
 * The operations are not constant-time: timing this page can reveal its secret values.
 */

/** @typedef {[bigint, bigint]} Fq2 */
/** @typedef {Fq2[]} Fq12 The six coefficients of w^0 to w^5. */

/**
 * The operations of a coordinate field that a curve needs.
 * @template T
 * @typedef {object} Field
 * @property {T} zero
 * @property {T} one
 * @property {(a: T, b: T) => T} add
 * @property {(a: T, b: T) => T} sub
 * @property {(a: T, b: T) => T} mul
 * @property {(a: T) => T} neg
 * @property {(a: T) => T} inv Throws RangeError for zero.
 * @property {(a: T, b: T) => boolean} eq
 * @property {(a: T) => boolean} isZero
 */

/**
 * Returns a modulo p, in the range from 0 to p - 1.
 * @param {bigint} a
 * @param {bigint} p
 */
export function mod(a, p) {
  const r = a % p;
  return r < 0n ? r + p : r;
}

/**
 * Returns the inverse of a modulo the prime p, by the extended Euclidean algorithm.
 * @param {bigint} a
 * @param {bigint} p
 */
export function inverse(a, p) {
  let [r0, r1, s0, s1] = [p, mod(a, p), 0n, 1n];
  if (r1 === 0n) throw new RangeError("zero has no inverse");
  while (r1 !== 0n) {
    const quotient = r0 / r1;
    [r0, r1] = [r1, r0 - quotient * r1];
    [s0, s1] = [s1, s0 - quotient * s1];
  }
  return mod(s0, p);
}

/**
 * @param {bigint} p
 * @returns {Field<bigint>}
 */
export const primeField = (p) => ({
  zero: 0n,
  one: 1n,
  add: (a, b) => mod(a + b, p),
  sub: (a, b) => mod(a - b, p),
  mul: (a, b) => (a * b) % p,
  neg: (a) => mod(-a, p),
  inv: (a) => inverse(a, p),
  eq: (a, b) => a === b,
  isZero: (a) => a === 0n,
});

/**
 * @param {bigint} p
 * @returns {Field<Fq2>}
 */
export const quadraticField = (p) => ({
  zero: [0n, 0n],
  one: [1n, 0n],
  add: (a, b) => [mod(a[0] + b[0], p), mod(a[1] + b[1], p)],
  sub: (a, b) => [mod(a[0] - b[0], p), mod(a[1] - b[1], p)],
  mul: ([a, b], [c, d]) => [mod(a * c - b * d, p), (a * d + b * c) % p],
  neg: (a) => [mod(-a[0], p), mod(-a[1], p)],
  inv: ([a, b]) => {
    const norm = inverse(a * a + b * b, p);
    return [(a * norm) % p, mod(-b * norm, p)];
  },
  eq: (a, b) => a[0] === b[0] && a[1] === b[1],
  isZero: (a) => a[0] === 0n && a[1] === 0n,
});

/**
 * Returns base^exponent.
 * @template T
 * @param {{ one: T, mul: (a: T, b: T) => T }} field
 * @param {T} base
 * @param {bigint} exponent Not negative.
 */
export function power(field, base, exponent) {
  let result = field.one;
  for (const bit of exponent.toString(2)) {
    result = field.mul(result, result);
    if (bit === "1") result = field.mul(result, base);
  }
  return result;
}

/** The extension field Fq12 of a curve. */
export class Tower {
  /**
   * @param {bigint} p
   * @param {Fq2} xi
   */
  constructor(p, xi) {
    this.p = p;
    this.xi = xi;
    this.fq2 = quadraticField(p);
    /** @type {Fq12} */
    this.one = [1n, 0n, 0n, 0n, 0n, 0n].map((c) => [c, 0n]);
    const step = power(this.fq2, xi, (p - 1n) / 6n);
    /** xi^(i*(p - 1)/6): the factor of the coefficient of w^i in the Frobenius map. */
    this.frobenius1 = this.one.map((_, i) => power(this.fq2, step, BigInt(i)));
    this.mul = this.mul.bind(this);
  }

  /**
   * Returns a * b; undefined coefficients of b are zero and cost nothing.
   * @param {Fq12} a
   * @param {(Fq2 | undefined)[]} b
   * @returns {Fq12}
   */
  mul(a, b) {
    // Each sum of products is reduced only once, which is faster with BigInt.
    const real = Array(11).fill(0n);
    const imaginary = Array(11).fill(0n);
    b.forEach((factor, j) => {
      if (!factor) return;
      const [c, d] = factor;
      a.forEach(([x, y], i) => {
        const low = x * c;
        const high = y * d;
        real[i + j] += low - high;
        imaginary[i + j] += (x + y) * (c + d) - low - high;
      });
    });
    const [c, d] = this.xi;
    return this.one.map((_, i) => {
      const [x, y] = [real[i + 6] ?? 0n, imaginary[i + 6] ?? 0n];
      return [mod(real[i] + c * x - d * y, this.p), mod(imaginary[i] + c * y + d * x, this.p)];
    });
  }

  /**
   * Returns a^(p^6). For an element of norm 1 over Fq6, as after the first step of the final exponentiation, that
   * is its inverse.
   * @param {Fq12} a
   */
  conjugate(a) {
    return a.map((c, i) => (i % 2 ? this.fq2.neg(c) : c));
  }

  /**
   * Returns a^(p^times).
   * @param {Fq12} a
   * @param {number} times
   */
  frobenius(a, times = 1) {
    for (; times > 0; times--)
      a = a.map(([c, d], i) => this.fq2.mul([c, d && this.p - d], this.frobenius1[i]));
    return a;
  }

  /**
   * @param {Fq12} a
   * @returns {Fq12}
   */
  inv(a) {
    const { add, sub, mul, neg, inv } = this.fq2;
    const conjugate = this.conjugate(a);
    // The norm is in Fq6 = Fq2[v]/(v^3 - xi) with v = w^2: it has even powers of w only.
    const norm = this.mul(a, conjugate);
    const [x, y, z] = [norm[0], norm[2], norm[4]];
    const t0 = sub(mul(x, x), mul(this.xi, mul(y, z)));
    const t1 = sub(mul(this.xi, mul(z, z)), mul(x, y));
    const t2 = sub(mul(y, y), mul(x, z));
    const factor = inv(add(mul(x, t0), mul(this.xi, add(mul(z, t1), mul(y, t2)))));
    return this.mul(conjugate, [mul(t0, factor), undefined, mul(t1, factor), undefined, mul(t2, factor)]);
  }

  /**
   * Returns a^exponent for a in the cyclotomic subgroup, where conjugation inverts.
   * @param {Fq12} a
   * @param {bigint} exponent
   */
  cyclotomicPower(a, exponent) {
    return power(this, exponent < 0n ? this.conjugate(a) : a, exponent < 0n ? -exponent : exponent);
  }

  /** @param {Fq12} a */
  isOne(a) {
    return a.every((c, i) => this.fq2.eq(c, this.one[i]));
  }
}
