/**
 * Loads the data files of a graph, such as a proving key, in pieces: each is checked by its SHA-256, fetched again if
 * it is damaged, and kept in the browser's storage (the origin private file system) for later visits.
 */
import { DeviceError, InputError, messageOf } from "./errors.js";
import { damaged, entryOf, faultOf } from "./files.js";

/** @typedef {import("./files.js").Read} Read */
/** @typedef {{ buffer: number, offset: number, bytes: number, deflated?: number, rows?: number }} DataRange */

/** How often a damaged piece is fetched. */
const ATTEMPTS = 3;

/** The pieces of a site in the browser's storage; a file is named by the SHA-256 of its content. */
export class PieceStore {
  /** @param {FileSystemDirectoryHandle} folder */
  constructor(folder) {
    this.folder = folder;
  }

  /**
   * Opens the storage of a site. Rejects if the browser refuses it.
   * @param {URL} site
   */
  static async open(site) {
    if (!globalThis.navigator?.storage?.getDirectory) throw new Error("this browser has none for pages");
    const root = await navigator.storage.getDirectory();
    const keys = await root.getDirectoryHandle("quod-keys", { create: true });
    return new PieceStore(await keys.getDirectoryHandle(encodeURIComponent(site.href), { create: true }));
  }

  /**
   * Returns a piece, or undefined if there is none, or only the empty file of a write that did not end.
   * @param {string} name
   */
  async read(name) {
    try {
      const file = await (await this.folder.getFileHandle(name)).getFile();
      return file.size ? new Uint8Array(await file.arrayBuffer()) : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Writes a piece; until it appears as a whole, its file is empty.
   * @param {string} name
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  async write(name, bytes) {
    const handle = await this.folder.getFileHandle(name, { create: true });
    try {
      const stream = await handle.createWritable();
      await stream.write(bytes);
      await stream.close();
    } catch (error) {
      await this.remove(name);
      throw error;
    }
  }

  /** @param {string} name */
  async remove(name) {
    await this.folder.removeEntry(name).catch(() => {});
  }

  /**
   * Removes all pieces but those that are named.
   * @param {string[]} names
   */
  async keepOnly(names) {
    for await (const name of /** @type {any} */ (this.folder).keys()) if (!names.includes(name)) await this.remove(name);
  }
}

/** Reads the pieces of a site one after another. */
export class PieceReader {
  /**
   * @param {Read} read
   * @param {import("./files.js").FileTable} table
   * @param {object} options
   * @param {URL} [options.site] The site whose storage is used; without it, nothing is stored.
   * @param {(bytes: number) => void} options.onBytes Called with the bytes that have arrived, negative if they are discarded.
   * @param {(message: string) => void} options.onNotice Called with what a user should know.
   */
  constructor(read, table, { site, onBytes, onNotice }) {
    this.readFile = read;
    this.table = table;
    this.onBytes = onBytes;
    this.onNotice = onNotice;
    /** @type {Promise<PieceStore | undefined>} */
    this.store = site ? PieceStore.open(site).catch((error) => this.useMemory(error)) : Promise.resolve(undefined);
  }

  /**
   * Reports that pieces are not stored.
   * @param {any} error
   */
  useMemory(error) {
    this.store = Promise.resolve(undefined);
    const reason = error?.name === "QuotaExceededError" ? "'s storage is full" : ` refuses its storage (${messageOf(error)})`;
    this.onNotice(`The browser${reason}, so the key stays in memory and is loaded again on the next visit.`);
    return undefined;
  }

  /**
   * Returns a piece from the storage, or else from the site. Throws InputError if it is still damaged after some
   * attempts.
   * @param {string} name
   */
  async piece(name) {
    const entry = entryOf(this.table, name);
    const stored = await (await this.store)?.read(entry.sha256);
    if (stored && !(await faultOf(stored, entry))) {
      this.onBytes(stored.length);
      return stored;
    }
    if (stored) this.onNotice(`The stored copy of ${name} is damaged, so it is fetched again.`);
    const bytes = await this.fetched(name);
    try {
      await (await this.store)?.write(entry.sha256, bytes);
    } catch (error) {
      this.useMemory(error);
    }
    return bytes;
  }

  /**
   * Fetches a piece, again if it is damaged or the download stops.
   * @param {string} name
   */
  async fetched(name) {
    const entry = entryOf(this.table, name);
    for (let attempt = 1; ; attempt++) {
      let count = 0;
      try {
        const bytes = await this.readFile(name, (size) => {
          count += size;
          this.onBytes(size);
        }, attempt > 1);
        const fault = await faultOf(bytes, entry);
        if (!fault) return bytes;
        throw damaged(name, fault);
      } catch (error) {
        if (attempt === ATTEMPTS || !(error instanceof InputError)) throw error;
        this.onBytes(-count);
        this.onNotice(`${name} ${count ? "arrived damaged or in part" : "did not arrive"}, so it is fetched again.`);
      }
    }
  }
}

/**
 * Loads all constants of a graph into its buffers.
 * @param {PieceReader} reader
 * @param {{ parts: string[], ranges: DataRange[] }} data
 * @param {(range: DataRange, offset: number, bytes: Uint8Array<ArrayBuffer>) => void} write Writes bytes at an offset of a range.
 */
export async function loadConstants(reader, { parts, ranges }, write) {
  let index = 0;
  let done = 0;
  /** The chunks of a deflated range. @type {Uint8Array<ArrayBuffer>[]} */
  let chunks = [];
  for (const part of parts) {
    const bytes = await reader.piece(part);
    for (let at = 0; at < bytes.length; ) {
      const range = ranges[index];
      const length = range.deflated ? Math.ceil(range.deflated / 4) * 4 : range.bytes;
      const chunk = bytes.subarray(at, at + Math.min(bytes.length - at, length - done));
      if (range.deflated) chunks.push(chunk);
      else write(range, done, chunk);
      at += chunk.length;
      done += chunk.length;
      if (done < length) continue;
      if (range.deflated) write(range, 0, await inflated(new Blob(chunks).slice(0, range.deflated), range));
      chunks = [];
      done = 0;
      index++;
    }
  }
  if (index !== ranges.length) throw new InputError("the graph's data is shorter than its buffers");
  await (await reader.store)?.keepOnly(parts.map((part) => reader.table[part].sha256));
}

/** The number of words of a row of a constant that is stored by its distinct rows. */
const ROW_WORDS = 8;

/**
 * Returns a constant that is stored deflated: as the differences of its words, or as its distinct rows and an index
 * for each row. Differences and indices are stored byte by byte (`quod.web.data_files` in Python).
 * @param {Blob} blob
 * @param {DataRange} range
 */
async function inflated(blob, { bytes: size, rows = 0 }) {
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const start = 4 * ROW_WORDS * rows;
  const count = size / (rows ? 4 * ROW_WORDS : 4);
  if (bytes.length !== start + 4 * count) throw new DeviceError("the browser has not decompressed the key");
  const table = new Uint32Array(bytes.buffer, 0, start / 4);
  const words = new Uint32Array(size / 4);
  for (let i = 0, at = start, word = 0; i < count; i++, at++) {
    const number = bytes[at] | (bytes[at + count] << 8) | (bytes[at + 2 * count] << 16) | (bytes[at + 3 * count] << 24);
    if (rows) words.set(table.subarray(ROW_WORDS * number, ROW_WORDS * (number + 1)), ROW_WORDS * i);
    else words[i] = word += number;
  }
  return new Uint8Array(words.buffer);
}
