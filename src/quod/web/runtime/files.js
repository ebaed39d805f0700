/** Fetches the files of a site with progress reports, and checks them against the listed sizes and hashes. */
import { InputError } from "./errors.js";

/** @typedef {Record<string, { bytes: number, sha256: string }>} FileTable */
/** @typedef {(name: string, onBytes?: (count: number) => void, afresh?: boolean) => Promise<Uint8Array<ArrayBuffer>>} Read `afresh` bypasses the browser's caches. */

/** The limits of untrusted JSON texts, in characters and JSON values, as in Quod's Python. */
export const LIMITS = {
  proof: { length: 1 << 16, values: 1 << 12 },
  publicSignals: { length: 16 << 20, values: 1 << 18 },
  key: { length: 32 << 20, values: 1 << 19 },
  input: { length: 32 << 20, values: 1 << 19 },
};

/**
 * Throws InputError if a text, or a file before it is read, exceeds its length limit.
 * @param {number} length
 * @param {{ length: number }} limit
 * @param {string} what The name of the text in messages.
 */
export function checkLength(length, limit, what) {
  if (length > limit.length) throw new InputError(`${what} has ${length} characters, and at most ${limit.length} are allowed: check that it is the right file`);
}

/** The maximal length of a string within a text; longer strings exhaust the stack of regular expressions. */
const LONGEST_STRING = 1 << 16;

const [QUOTE, BACKSLASH, COMMA] = ['"', "\\", ","].map((character) => character.charCodeAt(0));
const [OPENING, CLOSING] = ["[{", "]}"].map((pair) => [...pair].map((character) => character.charCodeAt(0)));

/**
 * Throws InputError if a JSON text exceeds its limit of length, depth or values. Call this before JSON.parse, which
 * recurses and allocates memory for each value.
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
 * Throws InputError for an object with a duplicate key; JSON.parse would silently keep the last value.
 * @param {string} text A text that JSON.parse accepts.
 * @param {string} what The name of the text in messages.
 */
export function checkKeys(text, what) {
  /** @type {(Set<string> | null)[]} The keys of the enclosing objects, outermost first; null for a list. */
  const enclosing = [];
  for (const [, string, colon, bracket] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*(:?)|([[\]{}])/gs)) {
    if (bracket === "{") enclosing.push(new Set());
    else if (bracket === "[") enclosing.push(null);
    else if (bracket) enclosing.pop();
    else if (colon) {
      const key = JSON.parse(string);
      const keys = enclosing[enclosing.length - 1];
      if (keys?.has(key)) throw new InputError(`${what} has the key ${string.slice(0, 60)} twice`);
      keys?.add(key);
    }
  }
}

/**
 * Returns a function that fetches a file of a folder. It throws InputError for a missing or truncated file.
 * @param {string | URL} folder
 * @returns {Read}
 */
export const reader = (folder) => async (name, onBytes, afresh) => {
  const url = new URL(name, new URL(folder, globalThis.location?.href));
  let response;
  try {
    response = await fetch(url, { cache: afresh ? "reload" : "default" });
  } catch {
    throw new InputError(`${name} could not be fetched: the server does not answer, or there is no connection`);
  }
  if (!response.ok) throw new InputError(`${name} could not be fetched: the server answered with status ${response.status}`);
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
    throw new InputError(`the download of ${name} stopped after ${total} bytes; load the page again`);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
};

/**
 * Returns the bytes in hexadecimal digits.
 * @param {Uint8Array} bytes
 */
export const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Parses the JSON of a file.
 * @param {Uint8Array} bytes
 * @returns {any}
 */
export const jsonOf = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

/**
 * Returns what is wrong with a file, or "" if it has the listed size and SHA-256.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {{ bytes: number, sha256: string }} entry
 */
export async function faultOf(bytes, entry) {
  if (bytes.length !== entry.bytes) return `has ${bytes.length} bytes instead of ${entry.bytes}: it is truncated or another file`;
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return hexOf(hash) === entry.sha256 ? "" : "is damaged: its SHA-256 differs from the one that the site lists";
}

/** The remedy for a file of the site that is missing or damaged. */
export const RELOAD = "load the page again, or upload the site again";

/**
 * Returns the error of a file with a fault.
 * @param {string} name
 * @param {string} fault
 */
export const damaged = (name, fault) => new InputError(`${name} ${fault}; ${RELOAD}`);

/**
 * Returns the row of a file in the table. Throws InputError if there is none.
 * @param {FileTable} table
 * @param {string} name
 */
export function entryOf(table, name) {
  if (!table[name]) throw new InputError(`the site lists no file ${name}`);
  return table[name];
}

/**
 * Reads a file of the table. Throws InputError unless it has the listed size and SHA-256.
 * @param {Read} read
 * @param {FileTable} table
 * @param {string} name
 */
export async function checkedFile(read, table, name) {
  const entry = entryOf(table, name);
  const bytes = await read(name);
  const fault = await faultOf(bytes, entry);
  if (fault) {
    // A damaged file must not stay in this site's cache (offline.js). Other sites of the origin keep their caches.
    const cachePrefix = `quod ${new URL("./", import.meta.url).href} `;
    for (const key of (await globalThis.caches?.keys()) ?? []) if (key.startsWith(cachePrefix)) await caches.delete(key);
    throw damaged(name, fault);
  }
  return bytes;
}

/**
 * Parses a JSON file. Throws InputError unless it has the given schema.
 * @param {Uint8Array} bytes
 * @param {string} name
 * @param {string} schema
 * @returns {any}
 */
export function parseDocument(bytes, name, schema) {
  let document;
  try {
    document = jsonOf(bytes);
  } catch {
    throw new InputError(`${name} is not JSON: the server sends another file, or a truncated one`);
  }
  if (document?.schema !== schema)
    throw new InputError(`${name} has the schema ${document?.schema}, but this runtime reads ${schema}; export the site again`);
  return document;
}
