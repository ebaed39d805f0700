/** Runs a graph of ours: its kernels are compiled once, when it is loaded. */

let graph;
let given;

/** Milliseconds from nothing to a graph that runs, its files read from this machine. */
export async function load() {
  const { loadGraph } = await import("./graph/quod.js");
  given = {};
  const begin = performance.now();
  graph = await loadGraph("./graph/");
  const total = performance.now() - begin;
  for (const name of Object.keys(graph.inputs)) given[name] = new Uint8Array(await (await fetch(`${name}.bin`)).arrayBuffer());
  return total;
}

/** One run: milliseconds, the bytes of the lines, the flag, and milliseconds by stage. */
export async function run() {
  const begin = performance.now();
  const { outputs, timings } = await graph.run(given);
  const total = performance.now() - begin;
  return {
    total,
    lines: [...outputs.lines],
    flag: [...outputs.flag.slice(0, 4)],
    stages: timings.map(({ stage, seconds }) => [stage, 1000 * seconds]),
  };
}
