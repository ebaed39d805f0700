// Compiles WGSL with Tint, the compiler of Dawn and so of Chromium, on Dawn's backend that has no
// driver and whose limits are the specification's defaults. A line of standard input is a request
// {id, code}; the line that answers it is {id, errors}, one text each.

import { createInterface } from "node:readline";
import { create, globals } from "../../build/node/node_modules/webgpu/index.js";

Object.assign(globalThis, globals);
// Kept for as long as the process: Dawn's objects need theirs.
globalThis.gpu = create(["backend=null"]);
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice({ requiredFeatures: ["subgroups"] });
device.addEventListener("uncapturederror", (event) => event.preventDefault());

async function errorsOf(code) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code });
  const { messages } = await module.getCompilationInfo();
  const errors = messages
    .filter(({ type }) => type === "error")
    .map(({ lineNum, message }) => `line ${lineNum}: ${message}`);
  if (errors.length === 0) {
    // Limits are of the entry point, which a pipeline checks.
    device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main" } });
  }
  const error = await device.popErrorScope();
  return errors.length || !error ? errors : [error.message];
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, code } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ id, errors: await errorsOf(code) })}\n`);
}
process.exit(0); // Dawn's threads would keep the process
