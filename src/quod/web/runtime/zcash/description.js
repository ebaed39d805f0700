/**
 * Descriptions: the part of a Spend, an Output or a Convert that a proof is about, as JSON with bytes in hex, and the
 * proof in 192 bytes (Zcash protocol specification, 4.4, 4.5 and 5.4.10.2).
 */
import { curveOf, g1FromJson, g1ToJson, g2FromJson, g2ToJson } from "../curve.js";
import { InputError } from "../errors.js";
import { inverse, mod, power } from "../field.js";
import { hexOf } from "../files.js";
import { Fields } from "./fields.js";
import { bytesOf, encode, hasSmallOrder } from "./jubjub.js";

/** @typedef {import("../field.js").Fq2} Fq2 */

const curve = curveOf("bls12381");
const { q } = curve;
const SIZE = 48;
const [COMPRESSED, INFINITY, LARGER] = [0x80, 0x40, 0x20];
/** A Spend's public inputs have the first 254 bits of the nullifier and the last two. */
const PACKED_BITS = 254n;

/**
 * The fields of each statement, in order, and how its public inputs become its fields.
 * @type {Record<string, { fields: string[], publics: string[] }>}
 */
export const STATEMENTS = {
  spend: { fields: ["cv", "anchor", "nullifier", "rk"], publics: ["rk", "cv", "anchor", "nullifier"] },
  output: { fields: ["cv", "epk", "cmu"], publics: ["cv", "epk", "cmu"] },
  convert: { fields: ["cv", "anchor"], publics: ["cv", "anchor"] },
};
const NUMBERS = ["anchor", "cmu"];

/**
 * Returns the fields of a statement in hex. Throws InputError if a point has small order, which verifiers refuse.
 * @param {string} statement A key of `STATEMENTS`.
 * @param {string[]} publicSignals
 * @returns {Record<string, string>}
 */
export function encodeStatement(statement, publicSignals) {
  const { fields, publics } = STATEMENTS[statement];
  const numbers = publicSignals.map(BigInt);
  /** @type {Record<string, Uint8Array>} */
  const parts = {};
  for (const name of publics) {
    const first = /** @type {bigint} */ (numbers.shift());
    if (NUMBERS.includes(name)) parts[name] = bytesOf(first);
    else {
      const second = /** @type {bigint} */ (numbers.shift());
      parts[name] = name === "nullifier" ? bytesOf(first | (second << PACKED_BITS)) : encode(checked(name, [first, second]));
    }
  }
  return Object.fromEntries(fields.map((name) => [name, hexOf(parts[name])]));
}

/**
 * Returns the public signals and the proof, in snarkjs's form, of a description. It may have other fields. Throws
 * InputError, with its name, for a field that consensus rules reject.
 * @param {string} statement
 * @param {any} description
 */
export function parseDescription(statement, description) {
  const { fields: names, publics } = STATEMENTS[statement];
  const others = typeof description === "object" && description ? Object.keys(description) : [];
  const fields = new Fields(description, [...names, "proof"], others);
  const publicSignals = publics.flatMap((name) => {
    if (NUMBERS.includes(name)) return [fields.element(name)];
    if (name !== "nullifier") return checked(name, fields.point(name));
    const number = BigInt(`0x${hexOf(fields.bytes(name).reverse())}`);
    return [BigInt.asUintN(Number(PACKED_BITS), number), number >> PACKED_BITS];
  });
  const bytes = fields.bytes("proof", 4 * SIZE);
  const proof = fields.read("proof", () => ({
    pi_a: g1ToJson(decodeG1(bytes.subarray(0, SIZE))),
    pi_b: g2ToJson(decodeG2(bytes.subarray(SIZE, 3 * SIZE))),
    pi_c: g1ToJson(decodeG1(bytes.subarray(3 * SIZE))),
    protocol: "groth16",
    curve: curve.snarkjs,
  }));
  return { publicSignals: publicSignals.map(String), proof };
}

/**
 * @param {string} name
 * @param {import("./jubjub.js").Point} point
 */
function checked(name, point) {
  if (hasSmallOrder(point)) throw new InputError(`the point ${name} is of small order`);
  return point;
}

// --- points of BLS12-381

/**
 * Returns the 192 bytes of a proof: A, B and C, compressed.
 * @param {any} proof In snarkjs's form; its points are not infinity.
 */
export function proofBytes(proof) {
  const bytes = new Uint8Array(4 * SIZE);
  const g2 = /** @type {[Fq2, Fq2]} */ (g2FromJson(curve, proof.pi_b, "pi_b"));
  for (const [at, name] of /** @type {[number, string][]} */ ([[0, "pi_a"], [3 * SIZE, "pi_c"]])) {
    const [x, y] = /** @type {[bigint, bigint]} */ (g1FromJson(curve, proof[name], name));
    write(bytes, at, x);
    bytes[at] |= COMPRESSED | (2n * y > q ? LARGER : 0);
  }
  // The coefficient of u is first.
  write(bytes, SIZE, g2[0][1]);
  write(bytes, 2 * SIZE, g2[0][0]);
  bytes[SIZE] |= COMPRESSED | (isLarger(g2[1]) ? LARGER : 0);
  return bytes;
}

/** @param {Fq2} y */
const isLarger = ([c0, c1]) => 2n * (c1 || c0) > q;

/**
 * Writes a coordinate, most significant byte first.
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {bigint} number
 */
function write(bytes, at, number) {
  for (let i = at + SIZE; i-- > at; number >>= 8n) bytes[i] = Number(number & 255n);
}

/**
 * Returns the coordinates of a compressed point and whether y is the larger root.
 * @param {Uint8Array} bytes
 */
function parsePoint(bytes) {
  if ((bytes[0] & (COMPRESSED | INFINITY)) !== COMPRESSED) throw new InputError("a point is not compressed, or is at infinity");
  const numbers = [];
  for (let at = 0; at < bytes.length; at += SIZE) {
    const number = BigInt(`0x${hexOf(bytes.subarray(at, at + SIZE))}`);
    numbers.push(at ? number : BigInt.asUintN(8 * SIZE - 3, number));
  }
  if (numbers.some((number) => number >= q)) throw new InputError("a coordinate is not below the modulus of the field");
  return { numbers, larger: Boolean(bytes[0] & LARGER) };
}

const offCurve = () => new InputError("a point is not on the curve");

/** Returns a square root of a number, if it has one. @param {bigint} square */
const rootOf = (square) => power(curve.g1.field, square, (q + 1n) / 4n);

/** @param {Uint8Array} bytes @returns {[bigint, bigint]} */
function decodeG1(bytes) {
  const { numbers: [x], larger } = parsePoint(bytes);
  const y = rootOf(mod(x * x * x + curve.g1.b, q));
  if (!curve.g1.contains([x, y])) throw offCurve();
  return [x, 2n * y > q === larger ? y : mod(-y, q)];
}

/** @param {Uint8Array} bytes @returns {[Fq2, Fq2]} */
function decodeG2(bytes) {
  const { numbers: [x1, x0], larger } = parsePoint(bytes);
  const { field, b } = curve.g2;
  /** @type {Fq2} */
  const x = [x0, x1];
  const [c0, c1] = field.add(field.mul(x, field.mul(x, x)), b);
  // The real part of the root squared is half of c0 plus or minus the root of the norm.
  const norm = rootOf(mod(c0 * c0 + c1 * c1, q));
  for (const sign of [norm, q - norm]) {
    const real = rootOf(mod((c0 + sign) * inverse(2n, q), q));
    /** @type {Fq2} */
    const y = real ? [real, mod(c1 * inverse(2n * real, q), q)] : [0n, rootOf(mod(-c0, q))];
    if (curve.g2.contains([x, y])) return [x, isLarger(y) === larger ? y : field.neg(y)];
  }
  throw offCurve();
}
