// Answers of circomlibjs to the questions of a JSON document on standard input, as JSON.
// Numbers are decimal text, bytes hexadecimal.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const { buildBabyjub, buildEddsa, buildMimc7, buildMimcSponge, buildPedersenHash, buildPoseidonReference } =
  require("circomlibjs");
const blake = require("blake-hash");
const questions = JSON.parse(readFileSync(0, "utf8"));
const [babyjub, eddsa, mimc7, sponge, pedersen, poseidon] = await Promise.all([
  buildBabyjub(), buildEddsa(), buildMimc7(), buildMimcSponge(), buildPedersenHash(), buildPoseidonReference(),
]);
const F = babyjub.F;
const number = (value) => F.toObject(value).toString();
const element = (text) => F.e(BigInt(text));
const pair = (point) => point.map(number);
const point = (coordinates) => coordinates.map(element);
const bytes = (text) => Buffer.from(text, "hex");
const hex = (data) => Buffer.from(data).toString("hex");
const answer = {
  poseidon: ({ inputs, initial, count }) =>
    [].concat(poseidon(inputs.map(element), element(initial), count)).flat().map(number),
  mimc7: ({ value, key }) => number(mimc7.hash(element(value), element(key))),
  mimc7_hash: ({ values, key }) => number(mimc7.multiHash(values.map(element), element(key))),
  mimc_sponge: ({ values, key, outputs }) =>
    [].concat(sponge.multiHash(values.map(element), element(key), outputs)).map(number),
  pedersen: ({ data }) => hex(pedersen.hash(bytes(data))),
  blake: ({ data, name }) => blake(name).update(bytes(data)).digest("hex"),
  add: ({ left, right }) => pair(babyjub.addPoint(point(left), point(right))),
  multiply: ({ scalar, base }) => pair(babyjub.mulPointEscalar(point(base), BigInt(scalar))),
  pack: ({ coordinates }) => hex(babyjub.packPoint(point(coordinates))),
  in_subgroup: ({ coordinates }) => babyjub.inSubgroup(point(coordinates)),
  key: ({ private_key }) => pair(eddsa.prv2pub(bytes(private_key))),
  sign: ({ private_key, message }) => hex(eddsa.packSignature(eddsa.signPoseidon(bytes(private_key), element(message)))),
  verify: ({ key, message, signature }) =>
    eddsa.verifyPoseidon(element(message), eddsa.unpackSignature(bytes(signature)), point(key)),
};
console.log(JSON.stringify(questions.map(([name, inputs]) => answer[name](inputs))));
process.exit(0);
