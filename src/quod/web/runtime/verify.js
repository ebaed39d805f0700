/** Groth16 verification on BigInt, over BN254 and BLS12-381: a product of Miller loops and one final exponentiation. */
import { curveOf, g1FromJson, g2FromJson, parseBelow } from "./curve.js";
import { InputError, InsecureKeyError, MismatchError, messageOf } from "./errors.js";
import { checkKeys, checkText, LIMITS } from "./files.js";

/** @typedef {import("./curve.js").Curve} Curve */
/** @typedef {import("./field.js").Fq2} Fq2 */
/** @typedef {import("./field.js").Fq12} Fq12 */

// snarkjs before 0.3 wrote "groth".
const PROTOCOLS = ["groth16", "groth"];

/** The fault of a point of a curve that is not in its group. */
const OUTSIDE = "is not in the group of order r";

/**
 * Returns true if the product of e(p, q) over all pairs is 1, where e is the optimal ate pairing (Vercauteren, IEEE
 * Trans. Inf. Theory 56, 2010). Points must be on the curve and of order r; a pair with infinity contributes 1.
 * @param {Curve} curve
 * @param {[import("./curve.js").Point<bigint>, import("./curve.js").Point<Fq2>][]} pairs
 */
export function pairingProductIsOne(curve, pairs) {
  const { tower } = curve;
  const value = finalExponentiation(curve, millerLoop(curve, pairs));
  return tower.isOne(value);
}

/**
 * Returns the product of the Miller loops of all pairs.
 * @param {Curve} curve
 * @param {[import("./curve.js").Point<bigint>, import("./curve.js").Point<Fq2>][]} pairs
 */
function millerLoop(curve, pairs) {
  const { tower, g2, q, bn, x } = curve;
  const { mul, sub } = tower.fq2;
  // `multiple` is the current multiple of q in the loop over the bits.
  const states = pairs.flatMap(([p, point]) => (p && point ? [{ p, q: point, multiple: point }] : []));
  let value = tower.one;
  /**
   * Multiplies the value by the line through a pair's multiple and another point, evaluated at p; then adds that
   * point to the multiple.
   * @param {typeof states[number]} state
   * @param {[Fq2, Fq2]} other
   */
  const step = (state, other) => {
    const slope = g2.slope(state.multiple, other);
    const constant = sub(mul(slope, state.multiple[0]), state.multiple[1]);
    const xTerm = mul(slope, [q - state.p[0], 0n]);
    /** @type {Fq2} */
    const yTerm = [state.p[1], 0n];
    value = tower.mul(value, bn ? [yTerm, xTerm, undefined, constant] : [constant, undefined, xTerm, yTerm]);
    state.multiple = g2.addAlong(state.multiple, other, slope);
  };
  const loop = bn ? 6n * x + 2n : x;
  for (const bit of (loop < 0n ? -loop : loop).toString(2).slice(1)) {
    value = tower.mul(value, value);
    for (const state of states) {
      step(state, state.multiple);
      if (bit === "1") step(state, state.q);
    }
  }
  if (loop < 0n) value = tower.conjugate(value);
  if (bn)
    for (const state of states) {
      const q1 = curve.psi(state.q);
      const q2 = curve.psi(q1);
      step(state, q1);
      step(state, [q2[0], tower.fq2.neg(q2[1])]);
    }
  return value;
}

/**
 * Returns value^((q^12 - 1)/r). The hard part follows Scott et al. (PAIRING 2009) for BN curves, and
 * Hayashida, Hayasaka, Teruya (eprint 2020/875) for BLS12.
 * @param {Curve} curve
 * @param {Fq12} value
 */
function finalExponentiation({ tower, bn, x }, value) {
  const conjugate = tower.conjugate.bind(tower);
  const frobenius = tower.frobenius.bind(tower);
  /** @param {Fq12[]} factors */
  const product = (...factors) => factors.reduce(tower.mul);
  /** @param {Fq12} a */
  const square = (a) => tower.mul(a, a);
  const easy = product(conjugate(value), tower.inv(value));
  const m = product(frobenius(easy, 2), easy);
  /** @param {Fq12} a */
  const powerX = (a) => tower.cyclotomicPower(a, x);
  if (!bn) {
    let a = tower.cyclotomicPower(m, (x - 1n) / 3n);
    a = product(powerX(a), conjugate(a));
    a = product(powerX(a), frobenius(a));
    return product(powerX(powerX(a)), frobenius(a, 2), conjugate(a), m);
  }
  const mx = powerX(m);
  const mx2 = powerX(mx);
  const mx3 = powerX(mx2);
  const y6 = conjugate(product(mx3, frobenius(mx3)));
  const y4 = conjugate(product(mx, frobenius(mx2)));
  const y5 = conjugate(mx2);
  const t0 = product(square(y6), y4, y5);
  const t1 = product(conjugate(frobenius(mx)), y5, t0);
  const t2 = square(product(square(t1), t0, frobenius(mx2, 2)));
  const t3 = product(t2, conjugate(m));
  const y0 = product(frobenius(m), frobenius(m, 2), frobenius(m, 3));
  return product(square(t3), t2, y0);
}

/**
 * Returns true if a point of the curve is in G1: it has order r or is infinity. All points of BN254 are in G1.
 * @param {Curve} curve
 * @param {import("./curve.js").Point<bigint>} p
 */
const inG1 = (curve, p) => curve.bn || curve.g1.mul(curve.r, p) === null;

/**
 * Returns true if a point of the twist is in G2, that is, psi(p) = q * p. Modulo r, q equals t - 1, which is 6x^2 for
 * BN254 and x for BLS12-381.
 * @param {Curve} curve
 * @param {[Fq2, Fq2]} p
 */
export function inG2(curve, p) {
  const { g2, x, bn } = curve;
  const scalar = bn ? 6n * x * x : x;
  const multiple = g2.mul(scalar < 0n ? -scalar : scalar, p);
  return g2.equal(scalar < 0n ? g2.neg(multiple) : multiple, curve.psi(p));
}

/** The gamma of Quod's own test keys, "QUODTEST" in ASCII. */
const TEST_GAMMA = 0x51554f4454455354n;

/**
 * Returns the reason why anyone can forge proofs for a key, or "" if its points show none. See
 * `quod.groth16.soundness` in Python.
 * @param {Curve} curve
 * @param {[bigint, bigint]} alpha
 * @param {[Fq2, Fq2][]} others beta, gamma and delta.
 */
function weakness(curve, alpha, others) {
  // Points are compared by x, which is the same for a point and its negative.
  const [beta, gamma, delta] = others.map(([x]) => x.join());
  const generator = curve.generator2[0].join();
  if (gamma === curve.g2.mul(TEST_GAMMA, curve.generator2)?.[0].join()) return "it is a test key of quod groth16 test-key";
  if (gamma === delta || delta === generator) return "it had no contribution to phase 2 (quod zkey contribute)";
  if (alpha[0] === curve.generator1 || beta === generator)
    return "it had no contribution to phase 1 (quod powersoftau contribute)";
  return beta === gamma || beta === delta ? "beta is gamma or delta up to sign" : "";
}

/**
 * Parses JSON of integers and strings. Throws InputError for a duplicate key, a fraction, a long number without
 * quotes or deep nesting.
 * @param {string} text
 * @param {string} what The name of the text in messages.
 * @param {{ length: number, values: number }} [limit] One of `LIMITS`.
 * @returns {any}
 */
export function parseStrict(text, what, limit = LIMITS.key) {
  const fail = (/** @type {string} */ problem) => {
    throw new InputError(`${what} ${problem}`);
  };
  checkText(text, limit, what);
  // Lone surrogates can occur as characters, and below in strings as escapes.
  const checkSurrogates = (/** @type {string} */ string) =>
    /\p{Surrogate}/u.test(string) && fail("has a lone surrogate, which is not a character");
  checkSurrogates(text);
  let document;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return fail(`is not JSON: ${messageOf(error)}`);
  }
  for (const [, string, number] of text.matchAll(/("(?:[^"\\]|\\.)*")|([-\d][^\s,\]}]*)/gs)) {
    if (number && !/^(?=.{1,20}$)-?\d+$/.test(number)) fail("has a number that is not an integer of at most 20 characters: write it in quotes");
    else if (string?.includes("\\u")) checkSurrogates(JSON.parse(string));
  }
  checkKeys(text, what);
  return document;
}

/**
 * Returns true if a proof is valid for public signals under a verifying key, all in snarkjs's form.
 *
 * Throws InputError for values that are malformed, off the curve or outside the groups; MismatchError for a different
 * number of public signals or a different curve; InsecureKeyError for a key for which anyone can forge proofs, unless
 * `allowInsecure` is true.
 * @param {any} key
 * @param {unknown} publicSignals
 * @param {any} proof
 * @param {{ allowInsecure?: boolean }} [options]
 * @returns {boolean}
 */
export function verify(key, publicSignals, proof, { allowInsecure = false } = {}) {
  for (const [document, name] of [[key, "key"], [proof, "proof"]])
    if (typeof document !== "object" || document === null || Array.isArray(document))
      throw new InputError(`the ${name} is not an object`);
  key = currentForm(key);
  // rapidsnark omits the curve of a proof, and some versions the protocol.
  if (!PROTOCOLS.includes(key.protocol) || (proof.protocol !== undefined && !PROTOCOLS.includes(proof.protocol)))
    throw new InputError("the key or the proof is not for Groth16: its protocol is not groth16");
  const curve = curveOf(key.curve);
  if (proof.curve !== undefined && curveOf(proof.curve) !== curve)
    throw new MismatchError(`the proof is on the curve ${proof.curve}, and the key on ${key.curve}`);
  if (!Array.isArray(publicSignals)) throw new InputError("the public signals are not a list");
  if (!Array.isArray(key.IC)) throw new InputError("the key has no list IC");
  if (!Number.isSafeInteger(key.nPublic) || key.nPublic < 0 || key.IC.length !== key.nPublic + 1)
    throw new InputError("the key's nPublic is not one less than its number of IC points");
  const pairing = key.vk_alphabeta_12;
  if (pairing !== undefined && pairing !== null) checkShape(pairing, [2, 3, 2], curve.q, "vk_alphabeta_12");
  if (publicSignals.length !== key.IC.length - 1)
    throw new MismatchError(`the key has ${key.IC.length - 1} public signals, not ${publicSignals.length}`);
  const inputs = publicSignals.map((value, i) => parseBelow(value, curve.r, `public signal ${i}`));

  /**
   * Returns a point of a group's subgroup of order r, and not at infinity; throws InputError otherwise.
   * @template T
   * @param {(curve: Curve, value: unknown, what: string) => import("./curve.js").Point<T>} decode
   * @param {(curve: Curve, point: [T, T]) => boolean} isInGroup
   */
  const pointOf = (decode, isInGroup) => (/** @type {any} */ document, /** @type {string} */ name) => {
    const point = decode(curve, document[name], name);
    if (!point) throw new InputError(`${name} is the point at infinity, which no honest file contains`);
    if (!isInGroup(curve, point)) throw new InputError(`${name} ${OUTSIDE}`);
    return point;
  };
  const [g1Point, g2Point] = /** @type {const} */ ([pointOf(g1FromJson, inG1), pointOf(g2FromJson, inG2)]);
  const [a, b, c] = [g1Point(proof, "pi_a"), g2Point(proof, "pi_b"), g1Point(proof, "pi_c")];
  const alpha = g1Point(key, "vk_alpha_1");
  const [beta, gamma, delta] = ["vk_beta_2", "vk_gamma_2", "vk_delta_2"].map((name) => g2Point(key, name));

  /** @type {import("./curve.js").Point<bigint>} */
  let sum = null;
  [1n, ...inputs].forEach((input, i) => {
    const point = g1FromJson(curve, key.IC[i], `IC[${i}]`);
    if (!inG1(curve, point)) throw new InputError(`IC[${i}] ${OUTSIDE}`);
    sum = curve.g1.add(sum, curve.g1.mul(input, point));
  });
  const reason = allowInsecure ? "" : weakness(curve, alpha, [beta, gamma, delta]);
  if (reason) throw new InsecureKeyError(`anyone can forge proofs for this key: ${reason}; create a key in a ceremony`);
  return pairingProductIsOne(curve, [[curve.g1.neg(a), b], [alpha, beta], [sum, gamma], [c, delta]]);
}

/**
 * Converts a verifying key to the form of current snarkjs versions. snarkjs before 0.3 called the protocol groth, did
 * not name the curve (always bn128), and spelt alpha as alfa.
 * @param {any} key
 * @returns {any}
 */
function currentForm(key) {
  const current = { ...(key.protocol === "groth" ? { curve: "bn128" } : {}), ...key };
  for (const [old, name] of [["vk_alfa_1", "vk_alpha_1"], ["vk_alfabeta_12", "vk_alphabeta_12"]]) {
    if (!(old in key)) continue;
    if (name in key) throw new InputError(`${old} occurs together with ${name}, its new name; keep one`);
    current[name] = key[old];
  }
  return current;
}

/**
 * Throws InputError unless a value is a nested list of numbers below the modulus.
 * @param {unknown} value
 * @param {number[]} lengths The length of the lists at each depth, outermost first.
 * @param {bigint} modulus
 * @param {string} what
 */
function checkShape(value, [length, ...rest], modulus, what) {
  if (length === undefined) return void parseBelow(value, modulus, what);
  if (!Array.isArray(value) || value.length !== length) throw new InputError(`${what} is not a list of ${length} elements`);
  value.forEach((item, i) => checkShape(item, rest, modulus, `${what}[${i}]`));
}
