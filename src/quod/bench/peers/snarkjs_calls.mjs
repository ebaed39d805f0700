// snarkjs as a library, measured by Quod: functions that work on files.
//
//   node snarkjs_calls.mjs FOLDER_OF_SNARKJS
//
// Reads JSON lines from standard input: the name of a function, such as "zKey.newZKey", and
// its arguments. Answers with "done", or "failed: " and the reason. Prints "ready" first.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const snarkjs = createRequire(import.meta.url)(process.argv[2]);

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
    try {
        const [name, ...callArguments] = JSON.parse(line);
        const [group, method] = name.split(".");
        const result = await snarkjs[group][method](...callArguments);
        if (result === false || result === -1) throw new Error(`${name} refused`);
        console.log("done");
    } catch (error) {
        console.log("failed: " + String(error?.message ?? error).replaceAll("\n", " "));
    }
}
process.exit(0);
