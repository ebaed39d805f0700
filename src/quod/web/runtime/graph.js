/**
 * Runs recorded work on WebGPU: buffers, kernels and their dispatches from the files of `quod.web.graph`.
 *
 * Everything is created once, when the graph is loaded; a run writes the inputs, submits the stages one
 * after the other without waiting in between, and reads the outputs back at the end.
 */
import { guarded, isSoftware, mib, openDevice, scoped } from "./device.js";
import { DeviceError, InputError, said } from "./errors.js";
import { checkedFile, parseDocument, reader } from "./files.js";

/** @typedef {{ buffer: number, offset: number, bytes: number }} Place */
/** @typedef {{ stage: string, seconds: number }} Timing */
/** @typedef {{ step: string, done: number, total: number }} Progress In bytes for the step "load", else counted. */
/** @typedef {{ pipeline: GPUComputePipeline, group: GPUBindGroup, uniform: number, x: number, y: number }} Dispatch */
/** @typedef {Dispatch | { copy: [GPUBuffer, number, GPUBuffer, number, number] } | { clear: [GPUBuffer, number, number] }} Command */

/** Drivers abort work that runs for seconds, so a stage is submitted in pieces. */
const DISPATCHES_A_SUBMISSION = 64;

/**
 * @param {string | URL} folder With graph.json, its kernels and its data.
 * @param {GPUDevice} [device] One that has what the graph needs; the browser's best unless given.
 * @param {object} [options]
 * @param {(progress: Progress) => void} [options.onProgress]
 * @param {import("./files.js").Read} [options.read] Where files come from, if not from the folder.
 * @param {number} [options.watchdog] Seconds without an answer after which a GPU counts as hung.
 * @param {Uint8Array} [options.document] The bytes of graph.json, where they are known.
 * @returns {Promise<Graph>}
 */
export async function loadGraph(folder, device, { onProgress, read = reader(folder), watchdog, document } = {}) {
  const graph = parseDocument(document ?? (await read("graph.json")), "graph.json", "quod-graph-1");
  const gpu = device ?? (await openDevice(graph));
  const loaded = new Graph(graph, gpu, watchdog ?? (isSoftware(gpu.adapterInfo) ? 900 : 60));
  try {
    await loaded.prepare(read, onProgress ?? (() => {}));
  } catch (error) {
    loaded.destroy();
    if (!device) gpu.destroy();
    throw error;
  }
  return loaded;
}

export class Graph {
  /**
   * @param {any} document
   * @param {GPUDevice} device
   * @param {number} watchdog
   */
  constructor(document, device, watchdog) {
    this.document = document;
    this.device = device;
    this.watchdog = watchdog;
    /** @type {Record<string, Place>} */
    this.inputs = document.inputs;
    /** @type {Record<string, Place>} */
    this.outputs = document.outputs;
    // Outputs that are only inputs or constants stay unmarked.
    const kept = [...Object.values(document.inputs), ...document.data.ranges];
    this.marked = Object.values(this.outputs).filter((place) => kept.every((/** @type {Place} */ other) =>
      place.buffer !== other.buffer || place.offset >= other.offset + other.bytes || other.offset >= place.offset + place.bytes));
    /** @type {string[]} */
    this.stages = document.stages.map((/** @type {any} */ stage) => stage.name);
    /** @type {GPUBuffer[]} */
    this.buffers = [];
    /** @type {Command[][]} */
    this.commands = [];
    this.running = false;
  }

  /**
   * @param {import("./files.js").Read} read
   * @param {(progress: Progress) => void} onProgress
   */
  async prepare(read, onProgress) {
    const { device, document } = this;
    const texts = JSON.parse(new TextDecoder().decode(await checkedFile(read, document.files, "kernels.json")));
    await scoped(device, `no room for ${mib(document.memory)} on the GPU`, () => {
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.buffers = document.buffers.map((/** @type {number} */ size) => device.createBuffer({ size, usage }));
      const align = device.limits.minUniformBufferOffsetAlignment;
      const blocks = document.stages.flatMap((/** @type {any} */ stage) => stage.steps.filter((/** @type {any} */ s) => s.words));
      this.block = 4 * Math.max(4, ...blocks.map((/** @type {any} */ step) => step.words.length));
      const stride = Math.ceil(this.block / align) * align;
      const words = new Uint32Array(Math.max(1, blocks.length) * stride / 4);
      blocks.forEach((/** @type {any} */ step, /** @type {number} */ i) => {
        step.uniform = i * stride;
        words.set(step.words, (i * stride) / 4);
      });
      this.uniforms = device.createBuffer({ size: words.byteLength, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
      device.queue.writeBuffer(this.uniforms, 0, words);
      // The word after the outputs comes back only if the GPU has finished its work up to there.
      this.outputBytes = Object.values(this.outputs).reduce((sum, { bytes }) => sum + bytes, 0);
      this.canary = device.createBuffer({ size: 4, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
      this.staging = device.createBuffer({ size: this.outputBytes + 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    });
    // The GPU's compiler runs while the data arrives.
    const [pipelines] = await Promise.all([this.compile(texts, onProgress), this.fill(read, onProgress)]);
    await scoped(device, "the steps of the graph", () => this.encodeSteps(pipelines));
  }

  /**
   * Loads constants into their buffers, part by part.
   * @param {import("./files.js").Read} read
   * @param {(progress: Progress) => void} onProgress
   */
  async fill(read, onProgress) {
    const { parts, ranges, bytes: total } = this.document.data;
    let done = 0;
    let range = 0;
    let inRange = 0;
    for (const part of parts) {
      const bytes = await checkedFile(read, this.document.files, part, (count) => {
        done += count;
        onProgress({ step: "load", done: Math.min(done, total), total });
      });
      for (let at = 0; at < bytes.length; ) {
        const { buffer, offset, bytes: length } = ranges[range];
        const count = Math.min(bytes.length - at, length - inRange);
        this.device.queue.writeBuffer(this.buffers[buffer], offset + inRange, bytes, at, count);
        at += count;
        inRange += count;
        if (inRange === length) {
          range++;
          inRange = 0;
        }
      }
    }
    if (range !== ranges.length) throw new InputError("the graph's data is shorter than its buffers");
  }

  /**
   * @param {string[]} texts
   * @param {(progress: Progress) => void} onProgress
   */
  async compile(texts, onProgress) {
    const { device } = this;
    this.layouts = new Map();
    const { kernels } = this.document;
    /** @type {GPUComputePipeline[]} */
    const made = [];
    let next = 0;
    let done = 0;
    const work = async () => {
      while (next < kernels.length) {
        const number = next++;
        made[number] = await this.pipeline(kernels[number], texts);
        onProgress({ step: "compile", done: ++done, total: kernels.length });
      }
    };
    // Compilers take much memory, so at most one runs for each core.
    const count = Math.max(2, globalThis.navigator?.hardwareConcurrency ?? 4);
    await Promise.all(Array.from({ length: count }, work));
    return made;
  }

  /**
   * @param {any} kernel
   * @param {string[]} texts
   */
  async pipeline({ name, text, entry, storage }, texts) {
    const { device } = this;
    const module = device.createShaderModule({ label: name, code: texts[text] });
    try {
      return await guarded(device, device.createComputePipelineAsync({
        label: name,
        layout: device.createPipelineLayout({ bindGroupLayouts: [this.layoutOf(storage)] }),
        compute: { module, entryPoint: entry },
      }), 2 * this.watchdog, `the compilation of ${name}`);
    } catch (error) {
      if (error instanceof DeviceError) throw error;
      const { messages } = await module.getCompilationInfo();
      const why = messages.find(({ type }) => type === "error")?.message ?? said(error);
      throw new DeviceError(`this browser does not compile kernel ${name}: ${why.slice(0, 300)}`);
    }
  }

  /** @param {number} storage How many buffers a kernel has. */
  layoutOf(storage) {
    const layouts = /** @type {Map<number, GPUBindGroupLayout>} */ (this.layouts);
    const known = layouts.get(storage);
    if (known) return known;
    const made = this.device.createBindGroupLayout({
      entries: Array.from({ length: storage + 1 }, (_, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: binding ? { type: "storage" } : { type: "uniform", hasDynamicOffset: true },
      })),
    });
    layouts.set(storage, made);
    return made;
  }

  /** @param {GPUComputePipeline[]} pipelines */
  encodeSteps(pipelines) {
    /** @type {Map<string, GPUBindGroup>} */
    const groups = new Map();
    const bind = (/** @type {number[][]} */ places) => {
      const key = places.join(";");
      const known = groups.get(key);
      if (known) return known;
      const made = this.device.createBindGroup({
        layout: this.layoutOf(places.length),
        entries: [
          { binding: 0, resource: { buffer: /** @type {GPUBuffer} */ (this.uniforms), size: this.block } },
          ...places.map(([buffer, offset, size], i) => ({ binding: i + 1, resource: { buffer: this.buffers[buffer], offset, size } })),
        ],
      });
      groups.set(key, made);
      return made;
    };
    this.commands = this.document.stages.map((/** @type {any} */ stage) => stage.steps.map((/** @type {any} */ step) => {
      if (step.op === "launch") {
        const [x, y] = step.groups;
        return { pipeline: pipelines[step.kernel], group: bind(step.bind), uniform: step.uniform, x, y };
      }
      if (step.op === "copy") {
        const { source, target } = step;
        return { copy: [this.buffers[source.buffer], source.offset, this.buffers[target.buffer], target.offset, target.bytes] };
      }
      if (step.op === "clear") return { clear: [this.buffers[step.target.buffer], step.target.offset, step.target.bytes] };
      throw new InputError(`graph.json has a step ${step.op}, which this runtime does not know`);
    }));
  }

  /**
   * One run: inputs and outputs by name, and the time of each stage on the GPU.
   *
   * InputError for an input of the wrong name or size, DeviceError when the GPU fails.
   * @param {Record<string, Uint8Array | Uint32Array>} inputs
   * @param {{ onProgress?: (progress: Progress) => void }} [options]
   * @returns {Promise<{ outputs: Record<string, Uint8Array>, timings: Timing[] }>}
   */
  async run(inputs, { onProgress } = {}) {
    for (const name of new Set([...Object.keys(this.inputs), ...Object.keys(inputs)])) {
      const wanted = this.inputs[name]?.bytes;
      const given = inputs[name]?.byteLength;
      if (wanted !== given) throw new InputError(`input ${name} of the graph has ${wanted ?? "no"} bytes, not ${given ?? "none"}`);
    }
    if (this.running) throw new DeviceError("the graph is running already; wait for that result");
    this.running = true;
    try {
      return await this.replay(inputs, onProgress ?? (() => {}));
    } finally {
      this.running = false;
    }
  }

  /**
   * @param {Record<string, Uint8Array | Uint32Array>} inputs
   * @param {(progress: Progress) => void} onProgress
   */
  async replay(inputs, onProgress) {
    const { device, stages } = this;
    const staging = /** @type {GPUBuffer} */ (this.staging);
    const canary = /** @type {GPUBuffer} */ (this.canary);
    const word = 1 + Math.floor(Math.random() * 0xfffffffe);
    const clock = new Clock(device, this.commands);
    let moved = () => {};
    /** @type {{ stage: string, at: number }[]} */
    const ends = [];
    const begin = performance.now();
    const outcome = scoped(device, "the GPU refuses the graph", async () => {
      // Outputs are marked before, so that a GPU that does nothing leaves no plausible result.
      for (const { buffer, offset, bytes } of this.marked)
        device.queue.writeBuffer(this.buffers[buffer], offset, new Uint8Array(bytes).fill(0xff));
      for (const [name, place] of Object.entries(this.inputs)) {
        const { buffer, byteOffset, byteLength } = inputs[name];
        device.queue.writeBuffer(this.buffers[place.buffer], place.offset, buffer, byteOffset, byteLength);
      }
      device.queue.writeBuffer(canary, 0, new Uint32Array([word]));
      stages.forEach((stage, i) => {
        this.submit(this.commands[i], clock.of(i));
        device.queue.onSubmittedWorkDone().then(() => {
          ends.push({ stage, at: performance.now() });
          onProgress({ step: stage, done: i + 1, total: stages.length });
          moved();
        }, () => {});
      });
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
        Promise.race([finished, new Promise((resolve) => (moved = () => resolve(false)))]),
        this.watchdog, `the stage ${stages[ends.length] ?? "of reading back"}`);
    const bytes = new Uint8Array(staging.getMappedRange().slice(0));
    staging.unmap();
    if (new DataView(bytes.buffer).getUint32(bytes.length - 4, true) !== word)
      throw new DeviceError("the GPU gave back nothing of what it was given: its driver has failed; load the page again");
    /** @type {Record<string, Uint8Array>} */
    const outputs = {};
    let at = 0;
    for (const [name, place] of Object.entries(this.outputs)) {
      outputs[name] = bytes.slice(at, at + place.bytes);
      if (this.marked.includes(place) && outputs[name].every((byte) => byte === 0xff))
        throw new DeviceError(`the GPU reported success and has not computed ${name}: its driver may be faulty`);
      at += place.bytes;
    }
    const measured = await clock.read();
    const timings = stages.map((stage, i) => ({
      stage,
      seconds: measured?.[i] ?? ((ends[i]?.at ?? performance.now()) - (ends[i - 1]?.at ?? begin)) / 1000,
    }));
    return { outputs, timings };
  }

  /**
   * @param {Command[]} commands
   * @param {{ begin?: any, end?: any }} stamps For the first and the last pass.
   */
  submit(commands, stamps) {
    const { device } = this;
    /** @type {GPUComputePassEncoder | null} */
    let pass = null;
    let encoder = device.createCommandEncoder();
    let dispatches = 0;
    const end = () => {
      pass?.end();
      pass = null;
    };
    const last = commands.findLastIndex((command) => "pipeline" in command);
    let first = true;
    /** @type {GPUComputePipeline | null} */
    let before = null;
    commands.forEach((command, i) => {
      if ("pipeline" in command) {
        // The last dispatch has its own pass, for the timestamp at its end.
        if (i === last && stamps.end) end();
        if (!pass) {
          const timestampWrites = { ...(first && stamps.begin), ...(i === last && stamps.end) };
          pass = encoder.beginComputePass("querySet" in timestampWrites ? { timestampWrites } : {});
          first = false;
          before = null;
        }
        if (before !== command.pipeline) pass.setPipeline((before = command.pipeline));
        pass.setBindGroup(0, command.group, [command.uniform]);
        pass.dispatchWorkgroups(command.x, command.y);
        if (++dispatches % DISPATCHES_A_SUBMISSION === 0) {
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

  /** Frees the GPU's memory. */
  destroy() {
    for (const buffer of [...this.buffers, this.uniforms, this.canary, this.staging]) buffer?.destroy();
  }
}

/** Times of stages on the GPU, if it supports timestamps. */
class Clock {
  /**
   * @param {GPUDevice} device
   * @param {Command[][]} stages
   */
  constructor(device, stages) {
    this.stages = stages;
    if (!device.features.has("timestamp-query")) return;
    const count = 2 * stages.length;
    this.set = device.createQuerySet({ type: "timestamp", count });
    this.resolved = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    this.mapped = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  /** @param {number} stage */
  of(stage) {
    if (!this.set) return {};
    const querySet = this.set;
    return {
      begin: { querySet, beginningOfPassWriteIndex: 2 * stage },
      end: { querySet, endOfPassWriteIndex: 2 * stage + 1 },
    };
  }

  /** @param {GPUCommandEncoder} encoder */
  resolve(encoder) {
    if (!this.set || !this.resolved || !this.mapped) return;
    encoder.resolveQuerySet(this.set, 0, this.set.count, this.resolved, 0);
    encoder.copyBufferToBuffer(this.resolved, 0, this.mapped, 0, this.mapped.size);
  }

  /** Seconds by stage; undefined for those that are not known. */
  async read() {
    if (!this.mapped) return undefined;
    await this.mapped.mapAsync(GPUMapMode.READ);
    const times = new BigInt64Array(this.mapped.getMappedRange().slice(0));
    for (const object of [this.mapped, this.resolved, this.set]) object?.destroy();
    return this.stages.map((_, i) => {
      const span = Number(times[2 * i + 1] - times[2 * i]) / 1e9;
      return times[2 * i] && span >= 0 ? span : undefined;
    });
  }
}
