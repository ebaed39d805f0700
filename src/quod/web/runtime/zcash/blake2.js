/** BLAKE2s-256 and BLAKE2b-512 without a key, with a personalisation (RFC 7693), on BigInt. */
import { integerOf } from "../curve.js";

/** The fractions of the square roots of the first eight primes, 64 bits each. BLAKE2s takes their first 32. */
const ROOTS = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
/** The order of the message words in each round, in hexadecimal digits. The rounds 10 and 11 repeat the first two. */
const ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
];
/** The indices of the state that a round mixes: the columns, then the diagonals. */
const MIXED = ["048c", "159d", "26ae", "37bf", "05af", "16bc", "278d", "349e"];

/** @param {string} digits */
const indices = (digits) => [...digits].map((digit) => parseInt(digit, 16));

/**
 * Returns a hash function with words of the given number of bits.
 * @param {number} bits
 * @param {number} rounds
 * @param {bigint[]} rotations
 */
function blake2(bits, rounds, rotations) {
  const size = bits / 8;
  const block = 16 * size;
  const initial = ROOTS.map((root) => root >> BigInt(64 - bits));
  /** @param {bigint} word */
  const wrap = (word) => BigInt.asUintN(bits, word);
  /**
   * @param {bigint} word
   * @param {bigint} by
   */
  const rotated = (word, by) => wrap((word >> by) | (word << (BigInt(bits) - by)));

  /**
   * @param {Uint8Array} message
   * @param {string} personalisation 8 characters for BLAKE2s, 16 for BLAKE2b.
   * @returns {Uint8Array} 32 or 64 bytes.
   */
  return (message, personalisation) => {
    const words = (/** @type {Uint8Array} */ bytes) =>
      Array.from({ length: bytes.length / size }, (_, i) => integerOf(bytes.subarray(i * size, (i + 1) * size)));
    // The parameter block: the length of the digest, fanout 1 and depth 1; its last quarter is the personalisation.
    const parameters = new Uint8Array(block / 2);
    parameters.set([block / 2, 0, 1, 1]);
    parameters.set(new TextEncoder().encode(personalisation), block / 2 - 2 * size);
    const state = words(parameters).map((word, i) => word ^ initial[i]);
    const count = Math.max(1, Math.ceil(message.length / block));
    const padded = new Uint8Array(count * block);
    padded.set(message);
    for (let i = 1; i <= count; i++) {
      const m = words(padded.subarray((i - 1) * block, i * block));
      const v = [...state, ...initial];
      v[12] ^= BigInt(Math.min(i * block, message.length));
      if (i === count) v[14] = wrap(~v[14]);
      for (let round = 0; round < rounds; round++) {
        const order = indices(ORDERS[round % 10]);
        MIXED.forEach((digits, g) => {
          const [a, b, c, d] = indices(digits);
          for (const half of [0, 1]) {
            v[a] = wrap(v[a] + v[b] + m[order[2 * g + half]]);
            v[d] = rotated(v[d] ^ v[a], rotations[2 * half]);
            v[c] = wrap(v[c] + v[d]);
            v[b] = rotated(v[b] ^ v[c], rotations[2 * half + 1]);
          }
        });
      }
      state.forEach((word, j) => (state[j] = word ^ v[j] ^ v[j + 8]));
    }
    return Uint8Array.from({ length: block / 2 }, (_, i) => Number((state[Math.floor(i / size)] >> BigInt(8 * (i % size))) & 255n));
  };
}

export const blake2s = blake2(32, 10, [16n, 12n, 8n, 7n]);
export const blake2b = blake2(64, 12, [32n, 24n, 16n, 63n]);
