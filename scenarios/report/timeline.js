// The pipeline over one step: a row per stage with forwards and backwards, and its memory below.

function pipelineTimeline(picture) {
  const figure = byId("timeline-figure"), zoom = byId("zoom"), pan = byId("pan");
  const secondsPerTick = picture.end_s / picture.ticks;
  const works = ["forward", "backward", "input gradient", "weight gradient"];
  const stages = picture.stages.map(unpack);
  const most = Math.max(...stages.map((s) => Math.max(...s.memory.map((m) => m[1]))));
  const drained = picture.pipeline_end_ticks;
  const end = picture.cut ? Math.min(...stages.map((s) => s.slots.at(-1).start)) : picture.ticks;
  let canvas = null, window_ = [0, end];

  /** Slots with absolute times, busy ticks, and memory as [tick, bytes] steps. */
  function unpack(stage) {
    let start = 0, busy = 0, bytes = stage.base_bytes;
    const memory = [[0, bytes]];
    const slots = stage.starts.map((distance, i) => {
      start += distance;
      const kind = stage.slots[i] % 8, index = stage.slots[i] >> 3;
      // Of two that run as one the forward stands above the other.
      const half = kind < 4 ? "" : kind % 2 === 0 ? "top" : "bottom";
      const work = kind < 4 ? kind : kind % 2 === 0 ? 0 : kind === 5 ? 1 : 2;
      const slot = {start, end: start + stage.kind_ticks[kind], work, half,
        micro: Math.floor(index / picture.chunks), chunk: index % picture.chunks};
      if (half !== "bottom") busy += stage.kind_ticks[kind];
      bytes += stage.change_bytes[work];
      memory.push([work === 0 ? start : slot.end, bytes]);
      return slot;
    });
    return {...stage, slots, busy, memory};
  }

  const rowHeight = () => Math.max(14, Math.min(30, 420 / stages.length));
  const memoryHeight = () => Math.max(10, rowHeight() * 0.8);
  const pitch = () => rowHeight() + memoryHeight() + 6;
  const left = 34, axis = 26;
  const xOf = (tick) => left + (tick - window_[0]) / (window_[1] - window_[0]) * (figure.clientWidth - left);
  const tickOf = (x) => window_[0] + (x - left) / (figure.clientWidth - left) * (window_[1] - window_[0]);

  const shortest = Math.min(...stages.flatMap((s) => s.kind_ticks.filter((t) => t > 0)));
  const narrowest = Math.min(end, Math.max(3 * shortest, end / 2000));

  /** Magnification grows evenly in its logarithm, up to a window of about three slots. */
  function place() {
    const width = end * (narrowest / end) ** (zoom.value / 100);
    const start = (end - width) * pan.value / 1000;
    pan.disabled = width > 0.999 * end;
    window_ = [start, start + width];
    draw();
  }

  function draw() {
    const width = Math.max(figure.clientWidth, 1), height = stages.length * pitch() + axis;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "12px system-ui, sans-serif";
    const ink = colour("--ink"), faint = colour("--faint");
    drawAxis(g, width, height, faint);
    g.save();
    g.beginPath();
    g.rect(left, 0, width - left, height);
    g.clip();
    stages.forEach((stage, i) => drawStage(g, stage, i * pitch()));
    g.restore();
    g.fillStyle = ink;
    stages.forEach((stage, i) => g.fillText(String(stage.stage), 4, i * pitch() + rowHeight() / 2 + 4));
  }

  function drawAxis(g, width, height, faint) {
    const from = window_[0] * secondsPerTick, to = window_[1] * secondsPerTick;
    const scale = to < 1 ? 1000 : 1, marks = ticks(from * scale, to * scale, width < 500 ? 3 : 8);
    g.fillStyle = faint;
    g.strokeStyle = colour("--grid");
    for (const t of marks.values) {
      const x = xOf(t / scale / secondsPerTick);
      g.beginPath();
      g.moveTo(x, 0);
      g.lineTo(x, height - axis);
      g.stroke();
      const text = `${t.toFixed(marks.digits)} ${scale === 1 ? "s" : "ms"}`;
      g.fillText(text, Math.min(x + 2, width - g.measureText(text).width), height - 8);
    }
  }

  function drawStage(g, stage, top) {
    const h = rowHeight(), box = (from, to, name, y = 0, high = h) => {
      const x0 = xOf(from), x1 = xOf(to);
      if (x1 < left || x0 > figure.clientWidth) return null;
      g.fillStyle = name;
      g.fillRect(x0, top + y, Math.max(x1 - x0 - (x1 - x0 > 4 ? 1 : 0), 0.5), high);
      return x1 - x0;
    };
    const colours = ["--forward", "--backward", "--backward", "--weight"].map(colour), onSlot = colour("--on-slot");
    box(0, end, colour("--grid"), h * 0.4, h * 0.2);
    for (const slot of stage.slots) {
      const wide = box(slot.start, slot.end, colours[slot.work], slot.half === "bottom" ? h / 2 : 0, slot.half ? h / 2 : h);
      if (wide > 26 && h >= 14 && !slot.half) {
        g.fillStyle = onSlot;
        g.fillText(label(slot), xOf(slot.start) + 4, top + h / 2 + 4, wide - 8);
      }
    }
    box(drained, drained + picture.traffic_ticks, colour("--traffic"));
    box(drained + picture.traffic_ticks, picture.ticks, colour("--update"));
    drawMemory(g, stage, top + h + 2, memoryHeight());
  }

  function drawMemory(g, stage, top, height) {
    const y = (bytes) => top + height * (1 - bytes / most);
    g.beginPath();
    g.moveTo(xOf(0), top + height);
    let level = stage.memory[0][1];
    for (const [tick, bytes] of stage.memory) {
      g.lineTo(xOf(tick), y(level));
      g.lineTo(xOf(tick), y(bytes));
      level = bytes;
    }
    g.lineTo(xOf(end), y(level));
    g.lineTo(xOf(end), top + height);
    g.closePath();
    g.globalAlpha = 0.35;
    g.fillStyle = colour("--compute");
    g.fill();
    g.globalAlpha = 1;
  }

  function label(slot) {
    return `${"FBIW"[slot.work]}${slot.micro}${picture.chunks > 1 ? `.${slot.chunk}` : ""}`;
  }

  function bytesAt(stage, tick) {
    let level = stage.memory[0][1];
    for (const [when, bytes] of stage.memory) {
      if (when > tick) break;
      level = bytes;
    }
    return level;
  }

  function whatIs(stage, tick) {
    if (tick >= drained + picture.traffic_ticks) return "optimizer";
    if (tick >= drained) return "data-parallel traffic that nothing hides";
    const found = stage.slots.filter((s) => s.start <= tick && tick < s.end);
    if (found.length === 0) return "waiting";
    const words = found.map((slot) => `${works[slot.work]} of micro-batch ${slot.micro}` +
      (picture.chunks > 1 ? `, chunk ${slot.chunk}` : ""));
    return `${words.join(" beside ")}, ${seconds((found[0].end - found[0].start) * secondsPerTick)}`;
  }

  function pointAt(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const stage = stages[Math.floor(y / pitch())], tick = tickOf(x);
    if (!stage || x < left || tick > end) { hideTip(figure); return; }
    const text = `stage ${stage.stage} at ${seconds(tick * secondsPerTick)}: ${whatIs(stage, tick)}; ` +
      `memory ${gib(bytesAt(stage, tick))}`;
    byId("slot-readout").textContent = text;
    showTip(figure, x, y, text);
  }

  function sayInWords() {
    const idle = stages.map((s) => 1 - s.busy / drained);
    const text = `${stages.length} pipeline stage${stages.length > 1 ? "s" : ""}, ${picture.micro_batches} micro-batches` +
      `${picture.chunks > 1 ? `, ${picture.chunks} chunks per stage` : ""}; stages wait ${percent(Math.min(...idle))} to ` +
      `${percent(Math.max(...idle))} of the pipeline's time. Run event by event it takes ${seconds(picture.end_s)}; ` +
      `the answer above says ${seconds(picture.step_time_s)}.`;
    byId("timeline-text").textContent = picture.cut
      ? `${stages.length} pipeline stages; only the beginning of the step is drawn.` : text;
    table(byId("stage-table"), "One micro-batch per stage",
      [{title: "stage"}, {title: "layers", number: true}, {title: "forward", number: true},
        {title: "backward", number: true}, {title: "least memory", number: true}, {title: "most memory", number: true}],
      stages.map((s) => [String(s.stage), String(s.layers), seconds(s.forward_s), seconds(s.backward_s), gib(s.base_bytes), gib(Math.max(...s.memory.map((m) => m[1])))]));
  }

  /** A long step begins with as much as one can still tell apart. */
  function startMagnified() {
    const readable = 60 * shortest;
    if (readable >= end || narrowest >= end) return;
    zoom.value = 100 * Math.log(readable / end) / Math.log(narrowest / end);
  }

  sayInWords();
  startMagnified();
  canvas = put(figure, "canvas", {role: "img", "aria-label": byId("timeline-text").textContent});
  canvas.addEventListener("pointermove", pointAt);
  canvas.addEventListener("pointerdown", pointAt);
  canvas.addEventListener("pointerleave", () => hideTip(figure));
  zoom.addEventListener("input", place);
  pan.addEventListener("input", place);
  redrawn(figure, place);
  const parts = [["--forward", "forward"], ["--backward", "backward"], ["--grid", "waiting"]];
  if (stages.some((s) => s.kind_ticks[3] > 0)) parts.splice(2, 0, ["--weight", "weight gradient, put off"]);
  if (picture.traffic_ticks > 0) parts.push(["--traffic", "data-parallel traffic after the last backward"]);
  parts.push(["--update", "optimizer"], ["--compute", "device memory (shaded, below each stage)"]);
  legend(byId("timeline-legend"), parts);
}
