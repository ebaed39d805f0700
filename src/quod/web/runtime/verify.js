/** Groth16 verification on BigInt: pairings of BN254 and BLS12-381, one product, one exponent. */
import { below, curveOf, g1FromJson, g2FromJson } from "./curve.js";
import { InputError, InsecureKeyError, MismatchError, said } from "./errors.js";
import { checkKeys, checkText, LIMITS } from "./files.js";

/** @typedef {import("./curve.js").Curve} Curve */
/** @typedef {import("./field.js").Fq2} Fq2 */
/** @typedef {import("./field.js").Fq12} Fq12 */

// snarkjs before 0.3 wrote the second name.
const PROTOCOLS = ["groth16", "groth"];

/**
 * True if the product of e(p, q) over all pairs is 1, the optimal ate pairing (Vercauteren, IEEE
 * Trans. Inf. Theory 56, 2010). Points are on the curve and of order r; a pair with infinity is 1.
 * @param {Curve} curve
 * @param {[import("./curve.js").Point<bigint>, import("./curve.js").Point<Fq2>][]} pairs
 */
export function pairingProductIsOne(curve, pairs) {
  const { tower } = curve;
  const value = finalExponentiation(curve, millerLoop(curve, pairs));
  return tower.isOne(value);
}

/**
 * @param {Curve} curve
 * @param {[import("./curve.js").Point<bigint>, import("./curve.js").Point<Fq2>][]} pairs
 */
function millerLoop(curve, pairs) {
  const { tower, g2, q, bn, x } = curve;
  const { mul, sub } = tower.fq2;
  const running = pairs.flatMap(([p, of]) => (p && of ? [{ p, of, at: of }] : []));
  let value = tower.one;
  /**
   * Multiplies by the line through the running point and another, at P; then adds the other.
   * @param {typeof running[number]} pair
   * @param {[Fq2, Fq2]} other
   */
  const step = (pair, other) => {
    const slope = g2.slope(pair.at, other);
    const constant = sub(mul(slope, pair.at[0]), pair.at[1]);
    const inX = mul(slope, [q - pair.p[0], 0n]);
    /** @type {Fq2} */
    const inY = [pair.p[1], 0n];
    value = tower.mul(value, bn ? [inY, inX, undefined, constant] : [constant, undefined, inX, inY]);
    pair.at = g2.addAlong(pair.at, other, slope);
  };
  const loop = bn ? 6n * x + 2n : x;
  for (const bit of (loop < 0n ? -loop : loop).toString(2).slice(1)) {
    value = tower.mul(value, value);
    for (const pair of running) {
      step(pair, pair.at);
      if (bit === "1") step(pair, pair.of);
    }
  }
  if (loop < 0n) value = tower.conjugate(value);
  if (bn)
    for (const pair of running) {
      const first = curve.psi(pair.of);
      const second = curve.psi(first);
      step(pair, first);
      step(pair, [second[0], tower.fq2.neg(second[1])]);
    }
  return value;
}

/**
 * value^((q^12 - 1)/r). The hard part follows Scott et al. (PAIRING 2009) for BN curves, and
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
  const toX = (a) => tower.cyclotomicPower(a, x);
  if (!bn) {
    let a = tower.cyclotomicPower(m, (x - 1n) / 3n);
    a = product(toX(a), conjugate(a));
    a = product(toX(a), frobenius(a));
    return product(toX(toX(a)), frobenius(a, 2), conjugate(a), m);
  }
  const mx = toX(m);
  const mx2 = toX(mx);
  const mx3 = toX(mx2);
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
 * True if a point of the curve has order r, or is infinity. BN254 has no others.
 * @param {Curve} curve
 * @param {import("./curve.js").Point<bigint>} p
 */
const ofOrderR = (curve, p) => curve.bn || curve.g1.mul(curve.r, p) === null;

/**
 * True if a point of the twist has order r: q times it is its psi, and q is t - 1 modulo r.
 * @param {Curve} curve
 * @param {[Fq2, Fq2]} p
 */
export function inG2(curve, p) {
  const { g2, x, bn } = curve;
  const times = bn ? 6n * x * x : x;
  const multiple = g2.mul(times < 0n ? -times : times, p);
  return g2.equal(times < 0n ? g2.neg(multiple) : multiple, curve.psi(p));
}

/** The gamma of Quod's own test keys, "QUODTEST" in ASCII. */
const TEST_GAMMA = 0x51554f4454455354n;

/**
 * The reason why anyone can forge proofs for a key, if its points show it: `quod.groth16.soundness` in Python.
 * @param {Curve} curve
 * @param {[bigint, bigint]} alpha
 * @param {[Fq2, Fq2][]} others beta, gamma and delta.
 */
function weakness(curve, alpha, others) {
  // A point and its negative share x.
  const [beta, gamma, delta] = others.map(([x]) => x.join());
  const generator = curve.generator2[0].join();
  if (gamma === curve.g2.mul(TEST_GAMMA, curve.generator2)?.[0].join()) return "it is a test key of quod groth16 test-key";
  if (gamma === delta || delta === generator) return "it had no contribution to phase 2 (quod zkey contribute)";
  if (alpha[0] === curve.generator1 || beta === generator)
    return "it had no contribution to phase 1 (quod powersoftau contribute)";
  return beta === gamma || beta === delta ? "beta is gamma or delta up to sign" : "";
}

/**
 * Parses strict JSON of integers and strings: no duplicate key, no fraction, no deep nesting.
 * @param {string} text
 * @param {string} what For errors.
 * @param {{ length: number, values: number }} [limit] One of `LIMITS`.
 * @returns {any}
 */
export function parseStrict(text, what, limit = LIMITS.key) {
  const fail = (/** @type {string} */ why) => {
    throw new InputError(`${what} ${why}`);
  };
  checkText(text, limit, what);
  // A lone surrogate, here as a character and below as an escape.
  const halves = (/** @type {string} */ of) => /\p{Surrogate}/u.test(of) && fail("has a lone surrogate, which is no character");
  halves(text);
  let document;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return fail(`is not JSON: ${said(error)}`);
  }
  for (const [, string, number] of text.matchAll(/("(?:[^"\\]|\\.)*")|([-\d][^\s,\]}]*)/gs)) {
    if (number && !/^(?=.{1,20}$)-?\d+$/.test(number)) fail("has a number that is no short integer: write it in quotes");
    else if (string?.includes("\\u")) halves(JSON.parse(string));
  }
  checkKeys(text, what);
  return document;
}

/**
 * True if a proof is valid for public signals under a verifying key, all in snarkjs's form.
 *
 * InputError for values that are malformed, off the curve or outside the groups; MismatchError for another
 * number of public signals or another curve; InsecureKeyError for a key for which anyone can
 * forge proofs, unless it is allowed.
 * @param {any} key
 * @param {unknown} publicSignals
 * @param {any} proof
 * @param {{ allowInsecure?: boolean }} [options]
 * @returns {boolean}
 */
export function verify(key, publicSignals, proof, { allowInsecure = false } = {}) {
  for (const [of, name] of [[key, "key"], [proof, "proof"]])
    if (typeof of !== "object" || of === null || Array.isArray(of)) throw new InputError(`the ${name} is no object`);
  key = currentForm(key);
  // rapidsnark omits the curve of a proof, and some versions the protocol.
  if (!PROTOCOLS.includes(key.protocol) || (proof.protocol !== undefined && !PROTOCOLS.includes(proof.protocol)))
    throw new InputError("the key or the proof is not one of Groth16: its protocol is not groth16");
  const curve = curveOf(key.curve);
  if (proof.curve !== undefined && curveOf(proof.curve) !== curve)
    throw new MismatchError(`the proof is of ${proof.curve}, and the key of ${key.curve}`);
  if (!Array.isArray(publicSignals)) throw new InputError("the public signals are not a list");
  if (!Array.isArray(key.IC)) throw new InputError("the key has no list IC");
  if (!Number.isSafeInteger(key.nPublic) || key.nPublic < 0 || key.IC.length !== key.nPublic + 1)
    throw new InputError("the key's nPublic is not one less than the points of IC");
  const pairing = key.vk_alphabeta_12;
  if (pairing !== undefined && pairing !== null) checkShape(pairing, [2, 3, 2], curve.q, "vk_alphabeta_12");
  if (publicSignals.length !== key.IC.length - 1)
    throw new MismatchError(`the key has ${key.IC.length - 1} public signals, not ${publicSignals.length}`);
  const inputs = publicSignals.map((value, i) => below(value, curve.r, `public signal ${i}`));

  /**
   * @param {any} of
   * @param {string} name
   */
  const first = (of, name) => {
    const point = g1FromJson(curve, of[name], name);
    if (!point) throw new InputError(`${name} is the point at infinity; no honest file has it`);
    if (!ofOrderR(curve, point)) throw new InputError(`${name} is not in the group of order r`);
    return point;
  };
  /**
   * @param {any} of
   * @param {string} name
   */
  const second = (of, name) => {
    const point = g2FromJson(curve, of[name], name);
    if (!point) throw new InputError(`${name} is the point at infinity; no honest file has it`);
    if (!inG2(curve, point)) throw new InputError(`${name} is not in the group of order r`);
    return point;
  };
  const [a, b, c] = [first(proof, "pi_a"), second(proof, "pi_b"), first(proof, "pi_c")];
  const alpha = first(key, "vk_alpha_1");
  const [beta, gamma, delta] = ["vk_beta_2", "vk_gamma_2", "vk_delta_2"].map((name) => second(key, name));


  /** @type {import("./curve.js").Point<bigint>} */
  let sum = null;
  [1n, ...inputs].forEach((input, i) => {
    const point = g1FromJson(curve, key.IC[i], `IC[${i}]`);
    if (!ofOrderR(curve, point)) throw new InputError(`IC[${i}] is not in the group of order r`);
    sum = curve.g1.add(sum, curve.g1.mul(input, point));
  });
  const weak = allowInsecure ? "" : weakness(curve, alpha, [beta, gamma, delta]);
  if (weak) throw new InsecureKeyError(`anyone can forge proofs for this key: ${weak}; make a key by a ceremony`);
  return pairingProductIsOne(curve, [[curve.g1.neg(a), b], [alpha, beta], [sum, gamma], [c, delta]]);
}

/**
 * Converts a verifying key to the form of current versions of snarkjs. Before 0.3 it called the protocol groth,
 * did not name the curve (always bn128), and spelt alpha as alfa.
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
 * Checks lists of lists of numbers.
 * @param {unknown} value
 * @param {number[]} lengths
 * @param {bigint} modulus
 * @param {string} what
 */
function checkShape(value, [length, ...rest], modulus, what) {
  if (length === undefined) return void below(value, modulus, what);
  if (!Array.isArray(value) || value.length !== length) throw new InputError(`${what} has no ${length} elements`);
  value.forEach((item, i) => checkShape(item, rest, modulus, `${what}[${i}]`));
}
