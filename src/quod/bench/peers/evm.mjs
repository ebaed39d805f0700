// Contracts in Solidity, compiled, deployed and called in an Ethereum VM in this process.
//
// node evm.mjs PACKAGES < jobs.json > results.json, where PACKAGES is the folder whose node_modules
// has solc and @ethereumjs/evm. A job is {"source", "contract", "optimizer", "hardfork", "calls",
// "imports", "via_ir"}; the last two are optional: other sources by name, and the IR pipeline. A
// call is {"function", "data", "gas"}: a function's name or "", hexadecimal data, the gas limit.
// A result is {"warnings", "methods", "code_bytes", "deploy_gas", "calls"}, where a call is
// {"returned", "gas", "error"}: execution gas, as in a transaction without its base 21,000 and
// calldata, so that precompiles are warm.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const require = createRequire(join(process.argv[2], "package.json"));
// The ES modules of the package, which require.resolve would not choose.
const load = (name) => {
  const module = require.resolve(name).replace("/dist/cjs/", "/dist/esm/");
  return import(pathToFileURL(module).href);
};
const solc = require("solc");
const { createEVM, getActivePrecompiles } = await load("@ethereumjs/evm");
const fromRequire = createRequire(require.resolve("@ethereumjs/evm"));
const sibling = (name) =>
  import(pathToFileURL(fromRequire.resolve(name).replace("/dist/cjs/", "/dist/esm/")).href);
const { Common, Mainnet } = await sibling("@ethereumjs/common");
const { hexToBytes, bytesToHex, createAddressFromString } = await sibling("@ethereumjs/util");

const caller = createAddressFromString("0x" + "11".repeat(20));
const gasLimit = 30_000_000n;

function compile(job) {
  const imports = Object.fromEntries(
    Object.entries(job.imports ?? {}).map(([name, content]) => [name, { content }]),
  );
  const input = {
    language: "Solidity",
    sources: { "own.sol": { content: job.source }, ...imports },
    settings: {
      viaIR: job.via_ir ?? false,
      optimizer: { enabled: job.optimizer, runs: 200 },
      outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object", "evm.methodIdentifiers"] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  // The compiler lists warnings among its errors.
  const messages = output.errors ?? [];
  const errors = messages.filter((message) => message.severity === "error");
  if (errors.length) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
  return {
    evm: output.contracts["own.sol"][job.contract].evm,
    warnings: messages.map((message) => message.formattedMessage),
  };
}

async function run(job) {
  const { evm: code, warnings } = compile(job);
  const common = new Common({ chain: Mainnet, hardfork: job.hardfork });
  const evm = await createEVM({ common });
  const deployment = await evm.runCall({
    caller, gasLimit, data: hexToBytes("0x" + code.bytecode.object),
  });
  if (deployment.execResult.exceptionError) throw new Error(deployment.execResult.exceptionError.error);
  const selectors = Object.entries(code.methodIdentifiers);
  const selector = (name) =>
    name ? selectors.find(([signature]) => signature.startsWith(name + "("))[1] : "";
  const calls = [];
  for (const { function: name, data, gas } of job.calls) {
    evm.journal.cleanJournal();
    for (const address of getActivePrecompiles(common).keys()) {
      evm.journal.addAlwaysWarmAddress("0x" + address);
    }
    const { execResult } = await evm.runCall({
      caller, gasLimit: BigInt(gas), to: deployment.createdAddress, data: hexToBytes("0x" + selector(name) + data),
    });
    calls.push({
      returned: bytesToHex(execResult.returnValue),
      gas: Number(execResult.executionGasUsed),
      error: execResult.exceptionError?.error ?? null,
    });
  }
  return {
    warnings,
    methods: code.methodIdentifiers,
    code_bytes: code.deployedBytecode.object.length / 2,
    deploy_gas: Number(deployment.execResult.executionGasUsed),
    calls,
  };
}

const results = [];
for (const job of JSON.parse(readFileSync(0, "utf8"))) results.push(await run(job));
process.stdout.write(JSON.stringify(results));
