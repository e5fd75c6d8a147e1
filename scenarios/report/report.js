// Fills the page from its data.

const data = JSON.parse(byId("data").textContent);

function hide(id) { byId(id).hidden = true; }

function heading() {
  document.title = `${data.title} - foreplan report`;
  byId("title").textContent = data.title;
  byId("answer").textContent = answerText();
  for (const notice of data.notices) put(byId("notices"), "p", {class: "notice"}, notice);
  facts(byId("question"), data.question);
  facts(byId("provenance"), data.provenance);
  byId("scenario-text").textContent = data.scenario_text;
  if (!data.scenario_text) hide("scenario-box");
  byId("resolved-text").textContent = JSON.stringify(data.resolved, null, 2);
}

function answerText() {
  const c = data.counts;
  const searched = `${count(c.enumerated)} plans were looked at, ${count(c.scored)} are valid, ${count(c.feasible)} fit.`;
  if (data.feasible) {
    const b = data.best;
    return `${b.text} takes ${seconds(b.step_time_s)} per step. ${searched}`;
  }
  const s = data.smallest;
  const least = s ? ` The one that needs least memory, ${s.text}, needs ${gib(s.peak_bytes)} where ` +
    `${gib(s.limit_bytes)} may be used.` : "";
  return `No plan fits. ${searched}${least}`;
}

function planSection() {
  if (!data.best) { for (const id of ["plan", "breakdowns"]) hide(id); return; }
  const b = data.best, plan = b.plan;
  if (data.shown === "nearest") {
    const changes = (b.more_gpus ? `, on ${plan.gpus} GPUs` : "") +
      (b.assumed_network ? ", with a network that was assumed" : "");
    byId("h-plan").textContent = `The nearest plan that fits${changes}`;
  }
  byId("plan-text").textContent = b.text;
  const words = {gpus: "GPUs", tp: "TP", pp: "PP", vpp: "VPP", dp: "DP", cp: "CP", ep: "EP", etp: "ETP", zero: "ZeRO",
    dp_replicate: "replicas", micro_batch: "micro-batch", sequence_parallel: "SP", micro_batch_group: "group",
    offload_optimizer: "offloaded optimizer", offload_parameters: "offloaded parameters",
    offload_activations: "offloaded activations"};
  for (const [name, value] of Object.entries(plan)) {
    if (["vpp", "cp", "ep", "etp", "dp_replicate"].includes(name) && value === 1) continue;
    if ((name === "micro_batch_group" || name.startsWith("offload_")) && value === 0) continue;
    const item = put(byId("degrees"), "li", {}, `${words[name] ?? name} `);
    put(item, "b", {}, value === true ? "yes" : value === false ? "no" : String(value));
  }
  figures(b);
  const launch = data.launch_arguments ?? [];
  if (launch.length === 0) { hide("launch"); return; }
  byId("h-launch").textContent = `Launch arguments (${plan.framework})`;
  byId("launch-text").textContent = launch.join(" \\\n");
  byId("copy").addEventListener("click", () => copy(launch.join(" \\\n")));
}

function figures(b) {
  const show = (title, value, small) => {
    const box = put(byId("figures"), "div");
    put(box, "dt", {}, title);
    const text = put(box, "dd", {}, value);
    if (small) put(text, "small", {}, small);
  };
  const interval = b.step_time_low_s
    ? `90 % interval ${seconds(b.step_time_low_s)} to ${seconds(b.step_time_high_s)}` : "";
  show("Step time", seconds(b.step_time_s), interval);
  if (b.tokens_per_s_per_gpu) {
    show("Throughput", `${count(b.tokens_per_s_per_gpu)} tokens/s/GPU`,
      `${count(b.tokens_per_s_per_gpu * b.plan.gpus)} tokens/s in all`);
  }
  if (b.mfu_fraction) {
    show("MFU", percent(b.mfu_fraction), b.mfu_causal_fraction
      ? `full attention; ${percent(b.mfu_causal_fraction)} causal, hardware ${percent(b.hfu_fraction)}` : "full attention");
  }
  if (b.memory) {
    show("Memory", gib(b.memory.device_total_bytes), b.usable_memory_bytes
      ? `of ${gib(b.usable_memory_bytes)} usable, ${gib(b.headroom_bytes)} free` : "");
  }
}

/** The clipboard where the page may use it, else a selection: files opened from disk may not. */
async function copy(text) {
  const status = byId("copied");
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied.";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(byId("launch-text"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    status.textContent = document.execCommand("copy") ? "Copied." : "Selected: press Ctrl-C.";
  }
}

function breakdowns() {
  if (!data.time || !data.memory) { hide("breakdowns"); return; }
  const colours = {tp: "--network", cp: "--network", ep: "--network", pp: "--network", dp: "--network",
    bubble: "--wait", host: "--wait", optimizer: "--update"};
  const step = data.time.reduce((sum, t) => sum + t.time_s, 0);
  bars(byId("time"), ["kind", "time", "share"],
    data.time.map((t) => ({name: t.name, meaning: t.meaning, value: seconds(t.time_s), share: t.time_s / step,
      colour: colours[t.name] ?? "--compute"})),
    {name: "step", value: seconds(step), share: "100.0 %"});
  const usable = data.best.usable_memory_bytes, full = data.memory.reduce((sum, m) => sum + m.bytes, 0);
  const rows = data.memory.map((m) => ({name: m.name, meaning: m.meaning, value: gib(m.bytes),
    share: m.bytes / usable, colour: "--memory"}));
  if (usable > full) {
    rows.push({name: "free", meaning: "", value: gib(usable - full), share: 1 - full / usable, colour: "--spare"});
  }
  bars(byId("memory"), [`stage ${data.best.memory.stage}`, "size", "of usable"], rows,
    {name: "used", value: gib(full), share: percent(full / usable)});
}

function sensitivity() {
  const s = data.sensitivity;
  if (!s) { hide("sensitivity"); return; }
  bars(byId("sensitivity-groups"), ["cost", "", "of step"],
    s.groups.filter((g) => g.share > 0.0005).map((g) => ({name: g.name, meaning: "", value: "", share: g.share,
      colour: g.name.endsWith("collectives") ? "--network" : "--compute"})));
  const step = data.best.step_time_s;
  table(byId("what-if"), "Priced again, not searched again",
    [{title: "with"}, {title: "step time", number: true}, {title: "change", number: true}],
    s.what_if.map((w) => [w.name, seconds(w.step_time_s), change(w.step_time_s / step - 1)]));
  table(byId("sensitivity-single"), "Heaviest first",
    [{title: "what"}, {title: "of step", number: true}, {title: "one call", number: true}, {title: "90 % interval", number: true},
      {title: "rests on"}],
    s.single.map((d) => [[d.what, d.detail], percent(d.share), seconds(d.time_s), `± ${percent(d.relative_error, 0)}`, d.basis]));
}

function change(fraction) {
  const text = percent(Math.abs(fraction));
  return text === "0.0 %" ? "none" : `${fraction > 0 ? "+" : "-"}${text}`;
}

function accuracy() {
  const box = byId("accuracy"), a = data.accuracy, b = data.best;
  if (b?.step_time_low_s) {
    put(box, "p", {}, `Nine times in ten the step should take between ${seconds(b.step_time_low_s)} and ` +
      `${seconds(b.step_time_high_s)}. The interval joins the errors of the costs below with what the model ` +
      "leaves out: data loading, jitter between ranks, clocks under a power cap.");
  }
  if (b?.peak_low_bytes) {
    put(box, "p", {}, `The fullest GPU should need between ${gib(b.peak_low_bytes)} and ${gib(b.peak_high_bytes)} ` +
      `of ${gib(b.usable_memory_bytes)}; the chance of running out of memory is ${percent(b.oom_probability)}.`);
  }
  if (b?.basis_fraction) {
    const shares = Object.entries(b.basis_fraction).filter(([, share]) => share > 0.0005)
      .map(([name, share]) => `${percent(share, 0)} ${name}`);
    put(box, "p", {}, `Time of kernels and wires rests on: ${shares.join(", ")}.`);
  }
  put(box, "p", {}, a.calibrated
    ? `Costs come from ${a.profile}, fitted to measured kernels and collectives.`
    : `Costs come from ${a.profile}: data-sheet rates times published efficiencies. Nothing was measured on this machine.`);
  for (const note of a.notes ?? []) put(box, "p", {class: "faint"}, note);
  if (!a.judged) return;
  const j = a.judged;
  put(box, "p", {}, `On ${count(j.rows)} measurements of shapes that the fit had not seen, in ${j.groups} groups, the ` +
    `median error of a group is ${percent(j.mean_of_medians)} in the mean over rows, and the 90 % interval holds ${percent(j.coverage_90, 0)} of them.`);
  const details = put(box, "details");
  put(details, "summary", {}, "Held-out errors by group");
  const wide = put(details, "div", {class: "wide", tabindex: "0", role: "region", "aria-label": "Held-out errors"});
  table(wide, "Absolute relative errors; the last column is the share inside the 90 % interval",
    [{title: "group"}, {title: "rows", number: true}, {title: "median", number: true}, {title: "p90", number: true},
      {title: "p95", number: true}, {title: "inside", number: true}],
    j.scores.map((s) => [[`${s.op} ${s.dtype} ${s.pass}`, s.library], count(s.n), percent(s.median), percent(s.p90),
      percent(s.p95), percent(s.coverage_90, 0)]));
}

heading();
planSection();
if (data.plans.rows.length > 0) planScatter(data.plans); else hide("front");
breakdowns();
if (data.timeline) pipelineTimeline(data.timeline); else hide("timeline");
sensitivity();
accuracy();
