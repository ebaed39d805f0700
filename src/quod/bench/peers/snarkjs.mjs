// snarkjs as a library, measured by Quod: one process with the key and the witness in memory.
//
//   node snarkjs.mjs FOLDER_OF_SNARKJS ZKEY WTNS VKEY PUBLIC PROOF
//
// Reads lines "prove" or "verify" from standard input and answers each with a line:
// "done", or "failed: " and the reason. The first line of output is "ready".

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, ...files] = process.argv.slice(2);
const snarkjs = createRequire(import.meta.url)(folder);
const [zkey, witness] = files.slice(0, 2).map((name) => new Uint8Array(readFileSync(name)));
const [vkey, inputs, proof] = files.slice(2).map((name) => JSON.parse(readFileSync(name, "utf8")));

const functions = {
    prove: () => snarkjs.groth16.prove({ type: "mem", data: zkey }, { type: "mem", data: witness }),
    verify: async () => {
        if (!(await snarkjs.groth16.verify(vkey, inputs, proof))) throw new Error("invalid proof");
    },
};

await functions.prove();  // compiles everything
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
    try {
        await functions[line]();
        console.log("done");
    } catch (error) {
        console.log("failed: " + String(error?.message ?? error).replaceAll("\n", " "));
    }
}
process.exit(0);
