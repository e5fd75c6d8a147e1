// Plans as dots: step time against memory, with filters, hover and keys.

function planScatter(plans) {
  const at = Object.fromEntries(plans.columns.map((name, i) => [name, i]));
  const value = (row, name) => row[at[name]];
  const figure = byId("scatter");
  const filters = new Map();
  let shown = [], chosen = null, place = null;

  function matches(row) {
    for (const [name, select] of filters) {
      if (select.value !== "" && String(value(row, name)) !== select.value) return false;
    }
    return true;
  }

  function describe(row) {
    const rank = value(row, "rank"), front = value(row, "front");
    const standing = rank ? `rank ${rank}` : front ? "on the front" : "feasible";
    return `${value(row, "label")}: ${seconds(value(row, "step_time_s"))}, ` +
      `${gib(value(row, "peak_bytes"))}, ${value(row, "gpus")} GPUs, ${standing}`;
  }

  function makeFilters() {
    const words = {gpus: "GPUs", tp: "TP", pp: "PP", vpp: "VPP", dp: "DP", cp: "CP", ep: "EP", etp: "ETP",
      dp_replicate: "replicas", zero: "ZeRO stage", micro_batch: "micro-batch", sequence_parallel: "sequence parallel",
      micro_batch_group: "micro-batch group", offload_optimizer: "offloaded optimizer",
      offload_parameters: "offloaded parameters", offload_activations: "offloaded activations"};
    for (const name of plans.columns.slice(plans.columns.indexOf("gpus"))) {
      const values = [...new Set(plans.rows.map((row) => value(row, name)))];
      if (values.length < 2) continue;
      values.sort((a, b) => typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
      const label = put(byId("filters"), "label", {}, words[name] ?? name);
      const select = put(label, "select", {name});
      put(select, "option", {value: ""}, "any");
      for (const v of values) put(select, "option", {value: String(v)}, String(v));
      select.addEventListener("change", draw);
      filters.set(name, select);
    }
    if (filters.size === 0) { byId("filter").hidden = true; return; }
    const reset = put(byId("filters"), "button", {type: "reset", class: "quiet"}, "Show all");
    reset.addEventListener("click", () => setTimeout(draw));
  }

  function frame(svg, width, height, left, bottom, right, top) {
    const times = shown.map((r) => value(r, "step_time_s"));
    const bytes = shown.map((r) => value(r, "peak_bytes") / 2 ** 30);
    const range = (v) => {
      const low = Math.min(...v), high = Math.max(...v), pad = (high - low) * 0.05 || high * 0.05;
      return [Math.max(0, low - pad), high + pad];
    };
    const [t0, t1] = range(times), [m0, m1] = range(bytes);
    const x = (t) => left + (t - t0) / (t1 - t0) * (width - left - right);
    const y = (b) => height - bottom - (b / 2 ** 30 - m0) / (m1 - m0) * (height - top - bottom);
    const across = ticks(t0, t1, width < 500 ? 4 : 8), up = ticks(m0, m1, 6);
    for (const t of across.values) {
      put(svg, "path", {class: "grid", d: `M${x(t)} ${top}V${height - bottom}`});
      put(svg, "text", {class: "tick", x: x(t), y: height - bottom + 18, "text-anchor": "middle"}, t.toFixed(across.digits));
    }
    for (const b of up.values) {
      const h = y(b * 2 ** 30);
      put(svg, "path", {class: "grid", d: `M${left} ${h}H${width - right}`});
      put(svg, "text", {class: "tick", x: left - 6, y: h + 4, "text-anchor": "end"}, b.toFixed(up.digits));
    }
    put(svg, "text", {class: "axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, "step time (s)");
    put(svg, "text", {class: "axis", transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle"}, "memory of the fullest GPU (GiB)");
    return {x: (r) => x(value(r, "step_time_s")), y: (r) => y(value(r, "peak_bytes"))};
  }

  /** Lines through the front, one for each number of GPUs. */
  function frontLines(svg) {
    const groups = new Map();
    for (const r of shown.filter((row) => value(row, "front"))) {
      const gpus = value(r, "gpus");
      groups.set(gpus, [...(groups.get(gpus) ?? []), r]);
    }
    for (const rows of groups.values()) {
      const points = rows.map((r) => [place.x(r), place.y(r)]).sort((a, b) => a[0] - b[0]);
      put(svg, "polyline", {class: "front-line", points: points.map((p) => p.join(",")).join(" ")});
    }
  }

  function draw() {
    figure.replaceChildren();
    shown = plans.rows.filter(matches).sort((a, b) => value(a, "step_time_s") - value(b, "step_time_s"));
    if (!shown.includes(chosen)) choose(null);
    if (shown.length === 0) { put(figure, "p", {}, "No plan that fits has these values."); return; }
    const width = Math.max(280, figure.clientWidth), height = width < 500 ? 300 : 400;
    const svg = put(figure, "svg", {viewBox: `0 0 ${width} ${height}`, height, tabindex: "0", role: "application",
      "aria-label": `${shown.length} plans, step time against memory; arrow keys go from plan to plan`});
    place = frame(svg, width, height, 56, 44, 12, 12);
    frontLines(svg);
    const layer = (row) => value(row, "rank") === 1 ? 2 : value(row, "front") ? 1 : 0;
    for (const row of [...shown].sort((a, b) => layer(a) - layer(b))) {
      const kind = layer(row);
      put(svg, "circle", {class: ["crowd", "front", "best"][kind], cx: place.x(row).toFixed(1),
        cy: place.y(row).toFixed(1), r: [3, 4.5, 7][kind]});
    }
    put(svg, "circle", {class: "chosen", r: 10, visibility: "hidden"});
    svg.addEventListener("pointermove", (event) => pointAt(svg, event));
    svg.addEventListener("pointerdown", (event) => pointAt(svg, event));
    svg.addEventListener("pointerleave", () => hideTip(figure));
    svg.addEventListener("keydown", step);
    if (chosen) mark(false);
  }

  function pointAt(svg, event) {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    let near = null, least = 24 ** 2;
    for (const row of shown) {
      const d = (place.x(row) - px) ** 2 + (place.y(row) - py) ** 2;
      if (d < least) [near, least] = [row, d];
    }
    if (near) { choose(near); mark(true); } else { hideTip(figure); }
  }

  function step(event) {
    const moves = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
    const now = shown.indexOf(chosen);
    let next = null;
    if (event.key in moves) next = now < 0 ? 0 : now + moves[event.key];
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = shown.length - 1;
    if (next === null) return;
    event.preventDefault();
    choose(shown[Math.min(Math.max(next, 0), shown.length - 1)]);
    mark(true);
  }

  function choose(row) {
    chosen = row;
    byId("plan-readout").textContent = row ? describe(row) : "";
    if (!row) hideTip(figure);
  }

  function mark(withTip) {
    const ring = figure.querySelector(".chosen");
    ring.setAttribute("cx", place.x(chosen));
    ring.setAttribute("cy", place.y(chosen));
    ring.setAttribute("visibility", "visible");
    if (withTip) showTip(figure, place.x(chosen), place.y(chosen), describe(chosen));
  }

  makeFilters();
  redrawn(figure, draw);
  legend(byId("front-legend"), [["--outside", "recommended"], ["--inside", "front"], ["--crowd", "other plans that fit"]]);
  const listed = plans.rows.filter((r) => value(r, "rank") || value(r, "front"));
  table(byId("front-table"), `${listed.length} plans`,
    [{title: "plan"}, {title: "rank", number: true}, {title: "GPUs", number: true}, {title: "step time", number: true},
      {title: "memory", number: true}, {title: "front"}],
    listed.map((r) => [value(r, "label"), String(value(r, "rank") ?? ""), String(value(r, "gpus")),
      seconds(value(r, "step_time_s")), gib(value(r, "peak_bytes")), value(r, "front") ? "yes" : ""]));
}
