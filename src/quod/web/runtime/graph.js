/**
 * Runs recorded GPU work on WebGPU: buffers, kernels and dispatches from the files that `quod.web.graph` writes.
 *
 * Buffers, pipelines and bind groups are created once, when the graph is loaded. A run writes the inputs, submits
 * the stages in order, and reads the outputs back at the end. It waits between stages only for kernels that are not
 * compiled yet.
 */
import { guarded, isSoftware, mib, openDevice, scoped } from "./device.js";
import { DeviceError, InputError, messageOf } from "./errors.js";
import { checkedFile, jsonOf, parseDocument, reader } from "./files.js";
import { PieceReader, loadConstants } from "./keys.js";

/** @typedef {{ buffer: number, offset: number, bytes: number }} BufferRange `offset` is in bytes. */
/** @typedef {{ stage: string, seconds: number }} Timing */
/** @typedef {{ step: string, done: number, total: number }} Progress In bytes for the step "load", else a count. */
/** @typedef {{ kernel: number, group: GPUBindGroup, uniform: number, x: number, y: number }} Dispatch */
/** @typedef {Dispatch | { copy: [GPUBuffer, number, GPUBuffer, number, number] } | { clear: [GPUBuffer, number, number] }} Command */

/** Drivers abort a submission that runs for seconds, so a stage is split into submissions of this many dispatches. */
const DISPATCHES_PER_SUBMISSION = 64;

/**
 * Starts to compile the kernels of a graph, in the order in which a run needs them, and returns the graph before its
 * memory is allocated. Throws InputError for malformed files and DeviceError if the GPU fails.
 * @param {string | URL} folder The URL of the folder with graph.json, the kernels and the data.
 * @param {GPUDevice} [device] A GPU with the limits that the graph needs; default: the high-performance adapter.
 * @param {object} [options]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {import("./files.js").Read} [options.read] Reads a file; default: fetches it from the folder.
 * @param {number} [options.watchdog] Seconds without progress after which a GPU counts as hung.
 * @param {Uint8Array} [options.document] The bytes of graph.json, if the caller has read them.
 * @returns {Promise<Graph>}
 */
export async function compileGraph(folder, device, { onProgress = () => {}, read = reader(folder), watchdog, document } = {}) {
  const description = parseDocument(document ?? (await read("graph.json")), "graph.json", "quod-graph-2");
  const texts = jsonOf(await checkedFile(read, description.files, "kernels.json"));
  const gpu = device ?? (await openDevice(description));
  return new Graph(description, gpu, watchdog ?? (isSoftware(gpu.adapterInfo) ? 900 : 60), texts, onProgress);
}

/**
 * Loads a graph, and starts to compile its kernels. Throws InputError for malformed files and DeviceError if the GPU
 * fails; the first run throws DeviceError for a kernel that does not compile.
 * @param {string | URL} folder The URL of the folder with graph.json, the kernels and the data.
 * @param {GPUDevice} [device] A GPU with the limits that the graph needs; default: the high-performance adapter.
 * @param {object} [options]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {(message: string) => void} [options.onNotice] Called with what a user should know of the loading.
 * @param {boolean} [options.store] Keep the data files in the browser's storage.
 * @param {import("./files.js").Read} [options.read] Reads a file; default: fetches it from the folder.
 * @param {number} [options.watchdog] Seconds without progress after which a GPU counts as hung.
 * @param {Uint8Array} [options.document] The bytes of graph.json, if the caller has read them.
 * @param {Graph} [options.graph] A graph that `compileGraph` has returned for the same folder.
 * @returns {Promise<Graph>}
 */
export async function loadGraph(folder, device, { onProgress = () => {}, onNotice = () => {}, read = reader(folder), store = true, watchdog, document, graph } = {}) {
  graph ??= await compileGraph(folder, device, { onProgress, read, watchdog, document });
  try {
    await graph.prepare(read, onProgress, {
      site: store ? new URL("./", new URL(folder, globalThis.location?.href)) : undefined, onNotice,
    });
  } catch (error) {
    graph.destroy();
    if (!device) graph.device.destroy();
    throw error;
  }
  return graph;
}

/**
 * Returns the value of a key in a map; the first call makes it.
 * @template K, V
 * @param {Map<K, V>} map
 * @param {K} key
 * @param {() => V} make
 * @returns {V}
 */
function memoised(map, key, make) {
  if (!map.has(key)) map.set(key, make());
  return /** @type {V} */ (map.get(key));
}

export class Graph {
  /**
   * @param {any} document
   * @param {GPUDevice} device
   * @param {number} watchdog
   * @param {string[]} texts The WGSL modules.
   * @param {(progress: Progress) => void} onProgress
   */
  constructor(document, device, watchdog, texts, onProgress) {
    this.document = document;
    this.device = device;
    this.watchdog = watchdog;
    /** @type {Record<string, BufferRange>} */
    this.inputs = document.inputs;
    /** @type {Record<string, BufferRange>} */
    this.outputs = document.outputs;
    // A run fills these outputs with ones to detect that a GPU did not compute them. Outputs that overlap inputs or
    // constants keep their contents.
    const initialised = [...Object.values(document.inputs), ...document.data.ranges];
    this.markedOutputs = Object.values(this.outputs).filter((output) => initialised.every((/** @type {BufferRange} */ range) =>
      output.buffer !== range.buffer || output.offset >= range.offset + range.bytes || range.offset >= output.offset + output.bytes));
    /** @type {string[]} */
    this.stages = document.stages.map((/** @type {any} */ stage) => stage.name);
    /** The steps of all stages. @type {any[]} */
    this.steps = document.stages.flatMap((/** @type {any} */ stage) => stage.steps);
    /** @type {GPUBuffer[]} */
    this.buffers = [];
    /** @type {Command[][]} */
    this.commands = [];
    /** @type {Map<string, GPUBindGroup>} */
    this.bindGroups = new Map();
    this.running = false;
    /** @type {Map<number, GPUBindGroupLayout>} */
    this.layouts = new Map();
    this.pipelines = this.compile(texts, onProgress);
  }

  /**
   * Creates the buffers, loads the constants and creates the commands.
   * @param {import("./files.js").Read} read
   * @param {(progress: Progress) => void} onProgress
   * @param {{ site?: URL, onNotice: (message: string) => void }} options
   */
  async prepare(read, onProgress, options) {
    const { device, document } = this;
    await scoped(device, `the GPU could not allocate ${mib(document.memory)}`, () => {
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.buffers = document.buffers.map((/** @type {number} */ size) => device.createBuffer({ size, usage }));
      const align = device.limits.minUniformBufferOffsetAlignment;
      const blocks = [...document.setup, ...this.steps].filter((step) => step.words);
      this.blockBytes = 4 * Math.max(4, ...blocks.map((step) => step.words.length));
      const stride = Math.ceil(this.blockBytes / align) * align;
      const words = new Uint32Array(Math.max(1, blocks.length) * stride / 4);
      blocks.forEach((step, i) => {
        step.uniform = i * stride;
        words.set(step.words, (i * stride) / 4);
      });
      this.uniforms = device.createBuffer({ size: words.byteLength, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
      device.queue.writeBuffer(this.uniforms, 0, words);
      // A run copies the canary after the outputs; reading its word back shows that the GPU has run the copies.
      this.outputBytes = Object.values(this.outputs).reduce((sum, { bytes }) => sum + bytes, 0);
      this.canary = device.createBuffer({ size: 4, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
      this.staging = device.createBuffer({ size: this.outputBytes + 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    });
    await this.loadConstants(read, onProgress, options);
    await this.runSetup(onProgress);
    this.commands = await scoped(device, "the steps of the graph could not be prepared", () =>
      document.stages.map((/** @type {any} */ stage) => this.commandsOf(stage.steps)));
  }

  /**
   * Loads the constants into their buffers, one data file at a time.
   * @param {import("./files.js").Read} read
   * @param {(progress: Progress) => void} onProgress
   * @param {{ site?: URL, onNotice: (message: string) => void }} options
   */
  async loadConstants(read, onProgress, { site, onNotice }) {
    const { data, files } = this.document;
    let done = 0;
    const onBytes = (/** @type {number} */ count) => {
      done += count;
      onProgress({ step: "load", done: Math.min(done, data.bytes), total: data.bytes });
    };
    await loadConstants(new PieceReader(read, files, { site, onBytes, onNotice }), data, ({ buffer, offset }, start, bytes) =>
      this.device.queue.writeBuffer(this.buffers[buffer], offset + start, bytes));
  }

  /**
   * Runs the setup, which computes buffers from the constants; then frees the buffers that only the setup uses.
   * @param {(progress: Progress) => void} onProgress
   */
  async runSetup(onProgress) {
    const { device, document } = this;
    const steps = document.setup;
    await scoped(device, "the GPU rejects the setup", async () => {
      const commands = this.commandsOf(steps);
      const pipelines = await this.pipelinesOf(commands);
      for (let i = 0; i < commands.length; i++) {
        this.submit([commands[i]], pipelines, {});
        await guarded(device, device.queue.onSubmittedWorkDone(), this.watchdog, "the setup");
        onProgress({ step: "setup", done: i + 1, total: commands.length });
      }
    });
    const usedBy = (/** @type {any[]} */ list) => new Set(list.flatMap((step) =>
      [step.source?.buffer, step.target?.buffer, ...(step.bind ?? []).map((/** @type {number[]} */ binding) => binding[0])]));
    const ends = [...Object.values(this.inputs), ...Object.values(this.outputs)].map((target) => ({ target }));
    const kept = usedBy([...ends, ...this.steps]);
    for (const buffer of usedBy(steps)) if (buffer && !kept.has(buffer)) this.buffers[buffer].destroy();
  }

  /**
   * Starts to compile all kernels; returns their pipelines in the order of the document.
   * @param {string[]} texts The WGSL modules.
   * @param {(progress: Progress) => void} onProgress
   */
  compile(texts, onProgress) {
    const { kernels, setup } = this.document;
    // Compilations take much memory, so at most one per core runs at a time (two on a single core).
    const count = Math.max(2, globalThis.navigator?.hardwareConcurrency ?? 4);
    let done = 0;
    /** @type {Promise<GPUComputePipeline>[]} */
    const pipelines = [];
    /** @type {Promise<GPUComputePipeline>[]} */
    const started = [];
    // The kernels of the setup are needed first.
    for (const index of new Set([...setup, ...this.steps].filter((step) => step.op === "launch").map((step) => step.kernel))) {
      const turn = started[started.length - count] ?? Promise.resolve();
      const pipeline = turn.then(() => this.createPipeline(kernels[index], texts));
      pipelines[index] = pipeline;
      started.push(pipeline);
      // A run that needs the kernel reports its error.
      pipeline.then(() => onProgress({ step: "compile", done: ++done, total: kernels.length }), () => {});
    }
    return pipelines;
  }

  /**
   * Compiles a kernel. Throws DeviceError with the compiler's first error message.
   * @param {any} kernel
   * @param {string[]} texts
   */
  async createPipeline({ name, text, entry, storage }, texts) {
    const { device } = this;
    // The scope keeps errors of the text, which are thrown below, out of the scope of a run.
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label: name, code: texts[text] });
    device.popErrorScope();
    try {
      return await guarded(device, device.createComputePipelineAsync({
        label: name,
        layout: device.createPipelineLayout({ bindGroupLayouts: [this.layoutOf(storage)] }),
        compute: { module, entryPoint: entry },
      }), 2 * this.watchdog, `the compilation of ${name}`);
    } catch (error) {
      if (error instanceof DeviceError) throw error;
      const { messages } = await module.getCompilationInfo();
      const why = messages.find(({ type }) => type === "error")?.message ?? messageOf(error);
      throw new DeviceError(`this browser does not compile kernel ${name}: ${why.slice(0, 300)}`);
    }
  }

  /**
   * Returns the bind group layout of a kernel: the parameter block at binding 0, then the storage buffers.
   * @param {number} storage The number of storage buffers.
   */
  layoutOf(storage) {
    return memoised(this.layouts, storage, () => this.device.createBindGroupLayout({
      entries: Array.from({ length: storage + 1 }, (_, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: binding ? { type: "storage" } : { type: "uniform", hasDynamicOffset: true },
      })),
    }));
  }

  /**
   * Creates the commands of steps, with their bind groups.
   * @param {any[]} steps
   * @returns {Command[]}
   */
  commandsOf(steps) {
    const bind = (/** @type {number[][]} */ ranges) =>
      memoised(this.bindGroups, ranges.join(";"), () => this.device.createBindGroup({
        layout: this.layoutOf(ranges.length),
        entries: [
          { binding: 0, resource: { buffer: /** @type {GPUBuffer} */ (this.uniforms), size: this.blockBytes } },
          ...ranges.map(([buffer, offset, size], i) => ({ binding: i + 1, resource: { buffer: this.buffers[buffer], offset, size } })),
        ],
      }));
    return steps.map((step) => {
      if (step.op === "launch") {
        const [x, y] = step.groups;
        return { kernel: step.kernel, group: bind(step.bind), uniform: step.uniform, x, y };
      }
      if (step.op === "copy") {
        const { source, target } = step;
        return { copy: [this.buffers[source.buffer], source.offset, this.buffers[target.buffer], target.offset, target.bytes] };
      }
      if (step.op === "clear") return { clear: [this.buffers[step.target.buffer], step.target.offset, step.target.bytes] };
      throw new InputError(`graph.json has a step ${step.op}, which this runtime does not support; export the site again`);
    });
  }

  /**
   * Runs the graph once. Returns the outputs by name and the time of each stage on the GPU.
   *
   * Throws InputError for an input of the wrong name or size, DeviceError if the GPU fails or a run is in progress.
   * @param {Record<string, Uint8Array | Uint32Array>} inputs
   * @param {{ onProgress?: (progress: Progress) => void }} [options]
   * @returns {Promise<{ outputs: Record<string, Uint8Array>, timings: Timing[] }>}
   */
  async run(inputs, { onProgress = () => {} } = {}) {
    for (const name of new Set([...Object.keys(this.inputs), ...Object.keys(inputs)])) {
      const expected = this.inputs[name]?.bytes;
      const length = inputs[name]?.byteLength;
      if (expected !== length) throw new InputError(`input ${name} of the graph has ${expected ?? "no"} bytes, not ${length ?? "none"}`);
    }
    if (this.running) throw new DeviceError("the graph is running already; wait for that result");
    this.running = true;
    try {
      return await this.replay(inputs, onProgress);
    } finally {
      this.running = false;
    }
  }

  /**
   * Runs the graph as `run` does, while no other run is in progress.
   * @param {Record<string, Uint8Array | Uint32Array>} inputs
   * @param {(progress: Progress) => void} onProgress
   */
  async replay(inputs, onProgress) {
    const { device, stages } = this;
    const staging = /** @type {GPUBuffer} */ (this.staging);
    const canary = /** @type {GPUBuffer} */ (this.canary);
    const word = 1 + Math.floor(Math.random() * 0xfffffffe);
    const clock = new Clock(device, this.commands);
    let restartWatchdog = () => {};
    /** @type {{ stage: string, at: number }[]} */
    const ends = [];
    const begin = performance.now();
    const outcome = scoped(device, "the GPU rejects the graph", async () => {
      // Outputs are filled with ones first, so that a GPU that computes nothing leaves no plausible result.
      for (const { buffer, offset, bytes } of this.markedOutputs)
        device.queue.writeBuffer(this.buffers[buffer], offset, new Uint8Array(bytes).fill(0xff));
      for (const [name, range] of Object.entries(this.inputs)) {
        const { buffer, byteOffset, byteLength } = inputs[name];
        device.queue.writeBuffer(this.buffers[range.buffer], range.offset, buffer, byteOffset, byteLength);
      }
      device.queue.writeBuffer(canary, 0, new Uint32Array([word]));
      for (const [i, stage] of stages.entries()) {
        const pipelines = await this.pipelinesOf(this.commands[i]);
        restartWatchdog();
        this.submit(this.commands[i], pipelines, clock.timestampWrites(i));
        device.queue.onSubmittedWorkDone().then(() => {
          ends.push({ stage, at: performance.now() });
          onProgress({ step: stage, done: i + 1, total: stages.length });
          restartWatchdog();
        }, () => {});
      }
      const encoder = device.createCommandEncoder();
      let at = 0;
      for (const { buffer, offset, bytes } of Object.values(this.outputs)) {
        encoder.copyBufferToBuffer(this.buffers[buffer], offset, staging, at, bytes);
        at += bytes;
      }
      encoder.copyBufferToBuffer(canary, 0, staging, at, 4);
      clock.resolve(encoder);
      device.queue.submit([encoder.finish()]);
    });
    const finished = outcome.then(() => staging.mapAsync(GPUMapMode.READ)).then(() => true);
    // The watchdog restarts whenever a stage ends.
    for (let done = false; !done; )
      done = await guarded(
        device,
        Promise.race([finished, new Promise((resolve) => (restartWatchdog = () => resolve(false)))]),
        this.watchdog, `the stage ${stages[ends.length] ?? "that reads the outputs back"}`);
    const bytes = new Uint8Array(staging.getMappedRange().slice(0));
    staging.unmap();
    if (new DataView(bytes.buffer).getUint32(bytes.length - 4, true) !== word)
      throw new DeviceError("the GPU returned no data although it reported success: its driver has failed; load the page again");
    /** @type {Record<string, Uint8Array>} */
    const outputs = {};
    let at = 0;
    for (const [name, range] of Object.entries(this.outputs)) {
      outputs[name] = bytes.slice(at, at + range.bytes);
      if (this.markedOutputs.includes(range) && outputs[name].every((byte) => byte === 0xff))
        throw new DeviceError(`the GPU reported success but has not computed ${name}: its driver may be faulty`);
      at += range.bytes;
    }
    const measured = await clock.read();
    const timings = stages.map((stage, i) => ({
      stage,
      seconds: measured?.[i] ?? ((ends[i]?.at ?? performance.now()) - (ends[i - 1]?.at ?? begin)) / 1000,
    }));
    return { outputs, timings };
  }

  /**
   * Waits for the kernels of a stage; returns their pipelines by number.
   * @param {Command[]} commands
   */
  async pipelinesOf(commands) {
    const kernels = [...new Set(commands.flatMap((command) => ("kernel" in command ? [command.kernel] : [])))];
    return new Map(await Promise.all(kernels.map(async (kernel) => /** @type {const} */ ([kernel, await this.pipelines[kernel]]))));
  }

  /**
   * Submits the commands of a stage, in several submissions if it has many dispatches.
   * @param {Command[]} commands
   * @param {Map<number, GPUComputePipeline>} pipelines
   * @param {{ begin?: any, end?: any }} timestamps The timestamp writes of the first and the last compute pass.
   */
  submit(commands, pipelines, timestamps) {
    const { device } = this;
    /** @type {GPUComputePassEncoder | null} */
    let pass = null;
    let encoder = device.createCommandEncoder();
    let dispatches = 0;
    const end = () => {
      pass?.end();
      pass = null;
    };
    const lastDispatch = commands.findLastIndex((command) => "kernel" in command);
    let isFirstPass = true;
    /** @type {number | null} */
    let currentKernel = null;
    commands.forEach((command, i) => {
      if ("kernel" in command) {
        // The last dispatch has its own pass, for the timestamp at its end.
        if (i === lastDispatch && timestamps.end) end();
        if (!pass) {
          const timestampWrites = { ...(isFirstPass && timestamps.begin), ...(i === lastDispatch && timestamps.end) };
          pass = encoder.beginComputePass("querySet" in timestampWrites ? { timestampWrites } : {});
          isFirstPass = false;
          currentKernel = null;
        }
        if (currentKernel !== command.kernel) {
          currentKernel = command.kernel;
          pass.setPipeline(/** @type {GPUComputePipeline} */ (pipelines.get(currentKernel)));
        }
        pass.setBindGroup(0, command.group, [command.uniform]);
        pass.dispatchWorkgroups(command.x, command.y);
        if (++dispatches % DISPATCHES_PER_SUBMISSION === 0) {
          end();
          device.queue.submit([encoder.finish()]);
          encoder = device.createCommandEncoder();
        }
        return;
      }
      end();
      if ("copy" in command) encoder.copyBufferToBuffer(...command.copy);
      else encoder.clearBuffer(...command.clear);
    });
    end();
    device.queue.submit([encoder.finish()]);
  }

  /** Frees the GPU memory; the graph cannot be used afterwards. */
  destroy() {
    for (const buffer of [...this.buffers, this.uniforms, this.canary, this.staging]) buffer?.destroy();
  }
}

/** Measures the stages of a run by timestamps of the GPU, if the GPU supports them. */
class Clock {
  /**
   * @param {GPUDevice} device
   * @param {Command[][]} stages
   */
  constructor(device, stages) {
    this.stages = stages;
    if (!device.features.has("timestamp-query")) return;
    const count = 2 * stages.length;
    this.querySet = device.createQuerySet({ type: "timestamp", count });
    this.resolveBuffer = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    this.readBuffer = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  /**
   * Returns the timestamp writes of a stage; none if the GPU does not support timestamps.
   * @param {number} stage
   */
  timestampWrites(stage) {
    if (!this.querySet) return {};
    const querySet = this.querySet;
    return {
      begin: { querySet, beginningOfPassWriteIndex: 2 * stage },
      end: { querySet, endOfPassWriteIndex: 2 * stage + 1 },
    };
  }

  /**
   * Encodes the copy of the timestamps to the buffer that `read` maps.
   * @param {GPUCommandEncoder} encoder
   */
  resolve(encoder) {
    if (!this.querySet || !this.resolveBuffer || !this.readBuffer) return;
    encoder.resolveQuerySet(this.querySet, 0, this.querySet.count, this.resolveBuffer, 0);
    encoder.copyBufferToBuffer(this.resolveBuffer, 0, this.readBuffer, 0, this.readBuffer.size);
  }

  /** Returns the seconds of each stage, undefined for a stage without valid timestamps; then frees the buffers. */
  async read() {
    if (!this.readBuffer) return undefined;
    await this.readBuffer.mapAsync(GPUMapMode.READ);
    const times = new BigInt64Array(this.readBuffer.getMappedRange().slice(0));
    for (const object of [this.readBuffer, this.resolveBuffer, this.querySet]) object?.destroy();
    return this.stages.map((_, i) => {
      const seconds = Number(times[2 * i + 1] - times[2 * i]) / 1e9;
      return times[2 * i] && seconds >= 0 ? seconds : undefined;
    });
  }
}
