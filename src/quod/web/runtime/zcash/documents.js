/**
 * Reads the private information of a Spend, an Output or a Convert: the JSON of `quod zcash prove-spend`,
 * `prove-output` and `prove-convert` (`quod.zcash.files` in Python).
 *
 * Each function returns the inputs of the circuit, and by name the scalars that later steps of a transaction need.
 * Scalars that a document lacks are drawn. Errors name the field and never show a value.
 */
import { InputError, MismatchError } from "../errors.js";
import { blake2b, blake2s } from "./blake2.js";
import { integerOf } from "../curve.js";
import { Fields, bytesOfHex, elementOf, integerWithin } from "./fields.js";
import { ORDER, add, bitsOf, decode, encode, generator, groupHash, hasSmallOrder, inSubgroup, isNeutral, multiply, pedersen } from "./jubjub.js";

/** @typedef {import("./jubjub.js").Point} Point */
/** @typedef {{ inputs: Record<string, any>, secrets: Record<string, bigint> }} Information */
/**
 * The personalisations of a protocol's hashes; see `quod.zcash.protocol` in Python.
 * @typedef {object} Protocol
 * @property {string} name
 * @property {string} proof_generation
 * @property {string} pedersen
 * @property {string} diversifier
 * @property {string} incoming_key
 * @property {string} expansion
 * @property {boolean} has_assets
 */

const DEPTH = 32;
const NOTE_COMMITMENT = [1, 1, 1, 1, 1, 1];
/** The bytes that follow rseed in the hashes to rcm and esk. */
const [RCM, ESK] = [4, 5];
const NOTE_FIELDS = ["address", "value"];
const OPTIONAL_NOTE_FIELDS = ["rseed", "rcm", "asset"];

/** @param {Uint8Array} bytes */
const bitsOfBytes = (bytes) => [...bytes].flatMap((byte) => bitsOf(BigInt(byte), 8));

/**
 * @param {Protocol} protocol
 * @param {any} document
 * @returns {Information}
 */
export function readOutput(protocol, document) {
  const fields = new Fields(document, NOTE_FIELDS, [...OPTIONAL_NOTE_FIELDS, "esk", "rcv"]);
  const note = readNote(protocol, fields);
  const esk = fields.has("rseed") ? derivedScalar(protocol, fields, ESK) : fields.scalarOrDrawn("esk", 1n);
  if (fields.has("esk") && fields.scalar("esk") !== esk) throw new InputError("esk: is not the scalar that rseed determines");
  const rcv = fields.scalarOrDrawn("rcv");
  const [u, v] = note.transmissionKey;
  const inputs = { value: note.value, rcv, g_d: note.base, esk, pk_d_v: v, pk_d_u: u & 1n, rcm: note.rcm };
  if (note.asset) Object.assign(inputs, { asset_identifier: integerOf(note.identifier), asset_generator: note.asset });
  return { inputs, secrets: { esk, rcv } };
}

/**
 * @param {Protocol} protocol
 * @param {any} document
 * @returns {Information}
 */
export function readSpend(protocol, document) {
  const fields = new Fields(document, ["ak", "nsk", "note", "position", "path"], ["alpha", "rcv", "anchor"]);
  const note = readNote(protocol, new Fields(document.note, NOTE_FIELDS, OPTIONAL_NOTE_FIELDS, "note."));
  const ak = fields.point("ak");
  fields.read("ak", () => {
    if (!inSubgroup(ak)) throw new InputError("ak is not in the subgroup of prime order");
    if (isNeutral(ak)) throw new InputError("ak is the neutral element");
  });
  const nsk = fields.scalar("nsk");
  const nk = multiply(nsk, generator(protocol.proof_generation));
  const ivk = BigInt.asUintN(251, integerOf(blake2s(Uint8Array.of(...encode(ak), ...encode(nk)), protocol.incoming_key)));
  if (encode(multiply(ivk, note.base)).join() !== encode(note.transmissionKey).join())
    throw new InputError("note.address: is not an address of ak and nsk");
  const path = readPath(fields);
  const anchor = readAnchor(protocol, fields, path, commitment(protocol, note), note.value);
  const [alpha, rcv] = [fields.scalarOrDrawn("alpha"), fields.scalarOrDrawn("rcv")];
  const inputs = { ak, alpha, nsk, g_d: note.base, value: note.value, rcv, rcm: note.rcm, ...path.inputs, rt: anchor };
  if (note.asset) Object.assign(inputs, { asset_generator: note.asset });
  return { inputs, secrets: { alpha, rcv } };
}

/**
 * @param {Protocol} protocol
 * @param {any} document
 * @returns {Information}
 */
export function readConvert(protocol, document) {
  const fields = new Fields(document, ["weights", "value", "position", "path"], ["rcv", "anchor"]);
  const conversion = fields.read("weights", (weights) => {
    if (typeof weights !== "object" || weights === null || Array.isArray(weights))
      throw new InputError("must be an object: an amount for the identifier of each asset");
    const most = (1n << 64n) - 1n;
    const identifiers = Object.keys(weights).map((asset) => asset.toLowerCase());
    if (new Set(identifiers).size !== identifiers.length) throw new InputError("has an asset twice");
    const terms = Object.entries(weights).map(([asset, weight]) =>
      multiply(integerWithin(weight, "the weight of an asset", -most, most, "-(2**64 - 1) to 2**64 - 1"), assetGenerator(bytesOfHex(asset, 32))));
    const point = add(...terms);
    if (hasSmallOrder(point)) throw new InputError("the conversion's generator is of small order; change its weights");
    return point;
  });
  const value = fields.value();
  const path = readPath(fields);
  const [leaf] = pedersen(protocol.pedersen, [...NOTE_COMMITMENT, ...bitsOfBytes(encode(conversion))]);
  const anchor = readAnchor(protocol, fields, path, leaf, value);
  const rcv = fields.scalarOrDrawn("rcv");
  return { inputs: { asset_generator: conversion, value, rcv, ...path.inputs, rt: anchor }, secrets: { rcv } };
}

// --- notes

/**
 * Reads the fields `address`, `value`, `rseed` or `rcm`, and `asset`.
 * @param {Protocol} protocol
 * @param {Fields} fields
 */
function readNote(protocol, fields) {
  if (fields.has("rseed") === fields.has("rcm")) throw new InputError(`${fields.where}needs either rseed or rcm`);
  const identifier = fields.has("asset") ? fields.bytes("asset") : new Uint8Array(0);
  if (fields.has("asset") !== protocol.has_assets)
    throw new MismatchError(`the note has ${protocol.has_assets ? "no asset" : "an asset"}, and this page proves notes of ${protocol.name}`);
  const [base, transmissionKey] = fields.read("address", (text) => readAddress(protocol, bytesOfHex(text, 43)));
  const value = fields.value();
  const asset = fields.has("asset") ? fields.read("asset", () => assetGenerator(identifier)) : undefined;
  const rcm = fields.has("rcm") ? fields.scalar("rcm") : derivedScalar(protocol, fields, RCM);
  return { base, transmissionKey, value, rcm, asset, identifier };
}

/**
 * Returns the points g_d and pk_d of an address of 43 bytes.
 * @param {Protocol} protocol
 * @param {Uint8Array} address
 */
function readAddress(protocol, address) {
  const transmissionKey = decode(address.subarray(11));
  if (isNeutral(transmissionKey)) throw new InputError("pk_d is the neutral element");
  if (!inSubgroup(transmissionKey)) throw new InputError("pk_d is not in the subgroup of prime order");
  const base = groupHash(protocol.diversifier, address.subarray(0, 11));
  if (!base) throw new InputError("the diversifier does not hash to a point; use another one");
  return [base, transmissionKey];
}

/**
 * Returns the scalar that is derived from the field `rseed`.
 * @param {Protocol} protocol
 * @param {Fields} fields
 * @param {number} domain
 */
const derivedScalar = (protocol, fields, domain) =>
  integerOf(blake2b(Uint8Array.of(...fields.bytes("rseed"), domain), protocol.expansion)) % ORDER;

/**
 * Returns the generator of an asset of MASP: the point whose encoding is the hash of the identifier.
 * @param {Uint8Array} identifier
 */
function assetGenerator(identifier) {
  const point = decode(blake2s(identifier, "MASP__v_"));
  if (hasSmallOrder(point)) throw new InputError("the asset's generator is of small order");
  return point;
}

/**
 * Returns the leaf of a note in the tree: u of its commitment.
 * @param {Protocol} protocol
 * @param {ReturnType<typeof readNote>} note
 */
function commitment(protocol, { asset, value, base, transmissionKey, rcm }) {
  const points = [...encode(base), ...encode(transmissionKey)];
  const contents = [...(asset ? bitsOfBytes(encode(asset)) : []), ...bitsOf(value, 64), ...bitsOfBytes(Uint8Array.from(points))];
  const blinding = multiply(rcm, generator(protocol.pedersen, [..."r"].map((letter) => letter.charCodeAt(0))));
  return add(pedersen(protocol.pedersen, [...NOTE_COMMITMENT, ...contents]), blinding)[0];
}

// --- paths

/** @typedef {ReturnType<typeof readPath>} Path */

/**
 * Reads the fields `path` and `position`; returns them and the inputs of the circuit for them.
 * @param {Fields} fields
 */
function readPath(fields) {
  const siblings = fields.read("path", (list) => {
    if (!Array.isArray(list)) throw new InputError("must be a list of siblings, the leaf's first");
    if (list.length !== DEPTH) throw new InputError(`a path has ${DEPTH} siblings, not ${list.length}`);
    return list.map((text) => elementOf("a sibling", bytesOfHex(text, 32)));
  });
  const position = fields.read("position", (value) => integerWithin(value, "the position", 0n, (1n << 32n) - 1n, "0 to 2**32 - 1"));
  const bits = bitsOf(position, DEPTH);
  const inputs = Object.fromEntries(
    siblings.flatMap((sibling, level) => [[`path[${level}]/bit`, bits[level]], [`path[${level}]/sibling`, sibling]]));
  return { siblings, bits, inputs };
}

/**
 * Reads the field `anchor`, by default the root of the path. For the value 0 it may be another number.
 * @param {Protocol} protocol
 * @param {Fields} fields
 * @param {Path} path
 * @param {bigint} leaf
 * @param {bigint} value
 */
function readAnchor(protocol, fields, { siblings, bits }, leaf, value) {
  const root = siblings.reduce((node, sibling, level) => {
    const [left, right] = bits[level] ? [sibling, node] : [node, sibling];
    return pedersen(protocol.pedersen, [...bitsOf(BigInt(level), 6), ...bitsOf(left, 255), ...bitsOf(right, 255)])[0];
  }, leaf);
  if (!fields.has("anchor")) return root;
  const anchor = fields.element("anchor");
  if (anchor !== root && value !== 0n) throw new InputError("anchor: is not the root of the path: check path, position and note");
  return anchor;
}
