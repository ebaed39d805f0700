/** The files of a site: fetched with progress, and accepted only with the listed size and hash. */
import { InputError } from "./errors.js";

/** @typedef {Record<string, { bytes: number, sha256: string }>} FileTable */
/** @typedef {(name: string, onBytes?: (count: number) => void) => Promise<Uint8Array<ArrayBuffer>>} Read */

/** The most bytes and values of a text from outside, as in Quod's Python. */
export const LIMITS = {
  proof: { length: 1 << 16, values: 1 << 12 },
  publicSignals: { length: 16 << 20, values: 1 << 18 },
  key: { length: 32 << 20, values: 1 << 19 },
  input: { length: 32 << 20, values: 1 << 19 },
};

/**
 * InputError for a text, or a file that is not read yet, that exceeds the limit of its kind.
 * @param {number} length
 * @param {{ length: number }} limit
 * @param {string} what
 */
export function checkLength(length, limit, what) {
  if (length > limit.length) throw new InputError(`${what} has ${length} characters, and such may have ${limit.length}: check that it is the right file`);
}

/** The longest string within a text; longer ones exhaust the stack of regular expressions. */
const LONGEST_STRING = 1 << 16;

const [QUOTE, BACKSLASH, COMMA] = ['"', "\\", ","].map((character) => character.charCodeAt(0));
const [OPENING, CLOSING] = ["[{", "]}"].map((pair) => [...pair].map((character) => character.charCodeAt(0)));

/**
 * InputError for JSON that exceeds its kind's limits of length, depth or values: before the parser, which
 * recurses and takes memory for each value.
 * @param {string} text
 * @param {{ length: number, values: number }} limit
 * @param {string} what
 */
export function checkText(text, limit, what) {
  checkLength(text.length, limit, what);
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const begin = at;
      while (++at < text.length && text.charCodeAt(at) !== QUOTE) if (text.charCodeAt(at) === BACKSLASH) at++;
      if (at - begin > LONGEST_STRING) throw new InputError(`${what} has a string of more than ${LONGEST_STRING} characters`);
    } else if (code === COMMA) {
      if (++values > limit.values) throw new InputError(`${what} has more than ${limit.values} values`);
    } else if (OPENING.includes(code)) {
      if (++depth > 32) throw new InputError(`${what} is nested too deeply`);
    } else if (CLOSING.includes(code)) depth--;
  }
}

/**
 * InputError for an object with a duplicate key, of which JSON.parse would keep the last.
 * @param {string} text What JSON.parse takes.
 * @param {string} what
 */
export function checkKeys(text, what) {
  /** @type {(Set<string> | null)[]} The keys of the objects around; null for a list. */
  const around = [];
  for (const [, string, colon, bracket] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*(:?)|([[\]{}])/gs)) {
    if (bracket === "{") around.push(new Set());
    else if (bracket === "[") around.push(null);
    else if (bracket) around.pop();
    else if (colon) {
      const key = JSON.parse(string);
      const keys = around[around.length - 1];
      if (keys?.has(key)) throw new InputError(`${what} has the key ${string.slice(0, 60)} twice`);
      keys?.add(key);
    }
  }
}

/**
 * Reads files of a folder. InputError for one that is missing or not as long as the server says.
 * @param {string | URL} folder
 * @returns {Read}
 */
export const reader = (folder) => async (name, onBytes) => {
  const url = new URL(name, new URL(folder, globalThis.location?.href));
  let response;
  try {
    response = await fetch(url);
  } catch {
    throw new InputError(`${name} could not be fetched: the server does not answer, or there is no connection`);
  }
  if (!response.ok) throw new InputError(`${name} could not be fetched: the server says ${response.status}`);
  const chunks = [];
  let total = 0;
  try {
    for (const stream = response.body?.getReader(); stream; ) {
      const { done, value } = await stream.read();
      if (done) break;
      chunks.push(value);
      total += value.length;
      onBytes?.(value.length);
    }
  } catch {
    throw new InputError(`${name} broke off after ${total} bytes; load the page again`);
  }
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
};

/**
 * A file of the table; InputError unless it has the listed size and SHA-256.
 * @param {Read} read
 * @param {FileTable} table
 * @param {string} name
 * @param {(count: number) => void} [onBytes]
 */
export async function checkedFile(read, table, name, onBytes) {
  const entry = table[name];
  if (!entry) throw new InputError(`the site lists no file ${name}`);
  const bytes = await read(name, onBytes);
  let problem;
  if (bytes.length !== entry.bytes) problem = `has ${bytes.length} bytes in place of ${entry.bytes}: it is truncated or another file`;
  else {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hex = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    if (hex !== entry.sha256) problem = "is damaged: its SHA-256 is not the listed one";
  }
  if (problem) {
    // A damaged file must not stay in the cache of offline.js; other sites of the origin keep theirs.
    const own = `quod ${new URL("./", import.meta.url).href} `;
    for (const key of (await globalThis.caches?.keys()) ?? []) if (key.startsWith(own)) await caches.delete(key);
    throw new InputError(`${name} ${problem}; load the page again, or upload the site again`);
  }
  return bytes;
}

/**
 * A JSON file with a known schema.
 * @param {Uint8Array} bytes
 * @param {string} name
 * @param {string} schema
 * @returns {any}
 */
export function parseDocument(bytes, name, schema) {
  let document;
  try {
    document = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new InputError(`${name} is not JSON: the server gives another file, or a truncated one`);
  }
  if (document?.schema !== schema)
    throw new InputError(`${name} has schema ${document?.schema}, and this runtime reads ${schema}; export the site again`);
  return document;
}
