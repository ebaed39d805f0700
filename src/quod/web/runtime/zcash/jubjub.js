/**
 * Jubjub, the curve -u^2 + v^2 = 1 + d*u^2*v^2 over the scalar field of BLS12-381, and Sapling's hashes into it (Zcash
 * protocol specification, 5.4.1.7, 5.4.9.3 and 5.4.9.5).
 *
 * The addition law is complete. Nothing is constant-time.
 */
import { integerOf } from "../curve.js";
import { sources } from "../curves.js";
import { InputError } from "../errors.js";
import { inverse, mod, power, primeField } from "../field.js";
import { blake2s } from "./blake2.js";

/** @typedef {[bigint, bigint]} Point The coordinates u and v. */
/** @typedef {[bigint, bigint, bigint, bigint]} Extended X, Y, Z, T with u = X/Z, v = Y/Z and T = XY/Z. */

export const P = sources.bls12_381.r;
/** The order of the subgroup, whose cofactor is 8. */
export const ORDER = 0xe7db4ea6533afa906673b0101343b00a6682093ccc81082d0970e5ed6f72cb7n;
const FIELD = primeField(P);
const D = mod(-10240n * inverse(10241n, P), P);
/** @type {Extended} */
const NEUTRAL = [0n, 1n, 1n, 0n];

/** @param {Point} point @returns {Extended} */
const extended = ([u, v]) => [u, v, 1n, (u * v) % P];

/**
 * Returns the sum of two points (Hisil, Wong, Carter, Dawson, ASIACRYPT 2008, section 3.1).
 * @param {Extended} left
 * @param {Extended} right
 * @returns {Extended}
 */
function sum([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const a = (x1 * x2) % P;
  const b = (y1 * y2) % P;
  const c = ((((D * t1) % P) * t2) % P);
  const d = (z1 * z2) % P;
  const e = x1 * y2 + y1 * x2;
  const [f, g, h] = [d - c, d + c, a + b];
  return [mod(e * f, P), mod(g * h, P), mod(f * g, P), mod(e * h, P)];
}

/** @param {Extended} point @returns {Point} */
function affine([x, y, z]) {
  const i = inverse(z, P);
  return [(x * i) % P, (y * i) % P];
}

/**
 * Returns the sum of points.
 * @param {Point[]} points
 */
export const add = (...points) => affine(points.map(extended).reduce(sum, NEUTRAL));

/**
 * Returns scalar * point.
 * @param {bigint} scalar May be negative.
 * @param {Point} point
 */
export function multiply(scalar, [u, v]) {
  const base = extended([scalar < 0n ? mod(-u, P) : u, v]);
  let result = NEUTRAL;
  for (const bit of (scalar < 0n ? -scalar : scalar).toString(2)) {
    result = sum(result, result);
    if (bit === "1") result = sum(result, base);
  }
  return affine(result);
}

/** @param {Point} point */
export const isNeutral = ([u, v]) => u === 0n && v === 1n;
/** @param {Point} point */
export const hasSmallOrder = (point) => isNeutral(multiply(8n, point));
/** @param {Point} point */
export const inSubgroup = (point) => isNeutral(multiply(ORDER, point));

/**
 * Encodes a number in 32 bytes, little-endian.
 * @param {bigint} number
 */
export const bytesOf = (number) => Uint8Array.from({ length: 32 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));

/**
 * Encodes a point: v, and the lowest bit of u in the top bit.
 * @param {Point} point
 */
export const encode = ([u, v]) => bytesOf(v | ((u & 1n) << 255n));

/**
 * Decodes a point; accepts exactly the bytes that `encode` returns. Throws InputError for others.
 * @param {Uint8Array} bytes
 * @returns {Point}
 */
export function decode(bytes) {
  const number = integerOf(bytes);
  const sign = number >> 255n;
  const v = BigInt.asUintN(255, number);
  if (v >= P) throw new InputError("v is not below the modulus");
  const square = (v * v) % P;
  const u = squareRoot((mod(square - 1n, P) * inverse(1n + D * square, P)) % P);
  if (u === undefined) throw new InputError("no point of the curve has this v");
  if (u === 0n && sign) throw new InputError("u is 0, which has no sign");
  return [(u & 1n) === sign ? u : P - u, v];
}

/** The field's order minus 1 is ODD * 2^32; 7 generates its multiplicative group. */
const ODD = (P - 1n) >> 32n;
const NON_RESIDUE_POWER = power(FIELD, 7n, ODD);

/**
 * Returns a square root, or undefined for a non-square (Tonelli and Shanks).
 * @param {bigint} square
 */
function squareRoot(square) {
  if (square === 0n) return 0n;
  let root = power(FIELD, square, (ODD + 1n) / 2n);
  let error = power(FIELD, square, ODD);
  let generator = NON_RESIDUE_POWER;
  for (let log2Order = 32; error !== 1n; ) {
    let log2Error = 0;
    for (let e = error; e !== 1n; e = (e * e) % P) log2Error++;
    if (log2Error >= log2Order) return undefined;
    for (let i = log2Error + 1; i < log2Order; i++) generator = (generator * generator) % P;
    log2Order = log2Error;
    root = (root * generator) % P;
    generator = (generator * generator) % P;
    error = (error * generator) % P;
  }
  return root;
}

// --- hashes into the curve

/** Hashed as text: the hash of a block of Bitcoin that was chosen in advance. */
const UNIFORM_RANDOM_STRING = new TextEncoder().encode("096b36a5804bfacef1691e173c366a47ff5ba84a44f26ddd7e8d9f79d5b42df0");

/**
 * Returns a point of the subgroup, or undefined for a tag that has none.
 * @param {string} personalisation
 * @param {Uint8Array | number[]} tag
 */
export function groupHash(personalisation, tag) {
  const digest = blake2s(Uint8Array.of(...UNIFORM_RANDOM_STRING, ...tag), personalisation);
  let point;
  try {
    point = multiply(8n, decode(digest));
  } catch (error) {
    if (error instanceof InputError) return undefined;
    throw error;
  }
  return isNeutral(point) ? undefined : point;
}

/**
 * Returns the group hash of a tag and the smallest byte for which there is a point.
 * @param {string} personalisation
 * @param {number[]} [tag]
 * @returns {Point}
 */
export function generator(personalisation, tag = []) {
  for (let counter = 0; ; counter++) {
    const point = groupHash(personalisation, [...tag, counter]);
    if (point) return point;
  }
}

/** The windows per generator of the Pedersen hash, of three bits each. */
const WINDOWS = 63;
/** The multiples 1 to 4 of the bases of all windows of a segment. @type {Map<string, Extended[][]>} */
const segments = new Map();

/**
 * Returns the bases of the windows of a segment, with their multiples.
 * @param {string} personalisation
 * @param {number} segment
 */
function windowsOf(personalisation, segment) {
  const key = `${personalisation} ${segment}`;
  let rows = segments.get(key);
  if (rows) return rows;
  rows = [];
  let base = extended(generator(personalisation, [segment, 0, 0, 0]));
  for (let i = 0; i < WINDOWS; i++) {
    const twice = sum(base, base);
    const four = sum(twice, twice);
    rows.push([base, twice, sum(twice, base), four]);
    const eight = sum(four, four);
    base = sum(eight, eight);
  }
  segments.set(key, rows);
  return rows;
}

/**
 * Returns the Pedersen hash of bits, a point.
 * @param {string} personalisation The personalisation of the generators.
 * @param {number[]} bits The six bits that separate uses of the hash, then the message.
 */
export function pedersen(personalisation, bits) {
  let result = NEUTRAL;
  for (let i = 0; i < bits.length; i += 3) {
    const [low, high = 0, negative = 0] = bits.slice(i, i + 3);
    const window = i / 3;
    const [x, y, z, t] = windowsOf(personalisation, Math.floor(window / WINDOWS))[window % WINDOWS][low + 2 * high];
    result = sum(result, negative ? [P - x, y, z, P - t] : [x, y, z, t]);
  }
  return affine(result);
}

/**
 * Returns the lowest bits of a number, least significant first.
 * @param {bigint} number
 * @param {number} count
 */
export const bitsOf = (number, count) => Array.from({ length: count }, (_, i) => Number((number >> BigInt(i)) & 1n));
