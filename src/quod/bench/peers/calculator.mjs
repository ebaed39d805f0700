// A witness calculator in WebAssembly under V8, measured by Quod: the code that pages run.
//
//   node calculator.mjs RUNTIME WASM PRIME INPUT
//
// RUNTIME is a folder with Quod's scripts for pages as modules, INPUT a JSON object of inputs.
// Prints "ready" after one witness, computes a witness for each line of standard input, and
// answers with "done". Prints "failed: " and the reason, and ends, if that fails.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [runtime, wasm, prime, inputFile] = process.argv.slice(2);

try {
    const { WitnessCalculator } = await import(pathToFileURL(`${runtime}/witness.js`));
    const calculator = await WitnessCalculator.load(await readFile(wasm), BigInt(prime));
    const input = JSON.parse(await readFile(inputFile, "utf8"));
    await calculator.witness(input);
    console.log("ready");
    for await (const _ of createInterface({ input: process.stdin })) {
        await calculator.witness(input);
        console.log("done");
    }
} catch (error) {
    console.log("failed: " + String(error?.message ?? error).replaceAll("\n", " "));
}
process.exit(0);
