// Helpers of the report page: elements, numbers as people read them, bars. All text goes through
// textContent: what a scenario holds is shown, never interpreted.

const SVG = "http://www.w3.org/2000/svg";

function put(parent, tag, attributes = {}, ...children) {
  const ns = parent instanceof SVGElement || tag === "svg" ? SVG : null;
  const node = ns ? document.createElementNS(ns, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) node.append(child);
  parent.append(node);
  return node;
}
const byId = (id) => document.getElementById(id);
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function significant(value, digits = 3) {
  if (value === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(decimals, 12));
}
function seconds(value) {
  if (value >= 0.9995 || value === 0) return `${significant(value)} s`;
  if (value >= 0.9995e-3) return `${significant(value * 1e3)} ms`;
  if (value >= 0.9995e-6) return `${significant(value * 1e6)} µs`;
  return `${significant(value * 1e9)} ns`;
}
const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
const percent = (fraction, decimals = 1) => `${(100 * fraction).toFixed(decimals)} %`;
function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, " ");
}

function facts(list, rows) {
  for (const [label, text] of rows) {
    put(list, "dt", {}, label);
    put(list, "dd", {}, text);
  }
}

/** Columns are {title, number}; cells are texts, or [text, small text]. The first cell is a header. */
function table(parent, caption, columns, rows) {
  const node = put(parent, "table");
  put(node, "caption", {}, caption);
  const head = put(put(node, "thead"), "tr");
  for (const c of columns) put(head, "th", {scope: "col", class: c.number ? "number" : ""}, c.title);
  const body = put(node, "tbody");
  for (const row of rows) {
    const line = put(body, "tr");
    row.forEach((cell, i) => {
      const [text, small] = Array.isArray(cell) ? cell : [cell];
      const at = put(line, i ? "td" : "th", i ? {class: columns[i].number ? "number" : ""} : {scope: "row"}, text);
      if (small) put(at, "small", {}, small);
    });
  }
}

/** A table with a bar per row; rows are {name, meaning, value, share, colour}. */
function bars(node, titles, rows, total) {
  const head = put(put(node, "thead"), "tr");
  titles.forEach((t, i) => put(head, "th", {scope: "col", class: i === 1 || i === 2 ? "number" : ""}, t));
  put(head, "td", {"aria-hidden": "true"});
  const longest = Math.max(...rows.map((r) => r.share), 1e-9);
  const body = put(node, "tbody");
  for (const r of rows) {
    const line = put(body, "tr");
    const label = put(line, "th", {scope: "row"}, r.name);
    if (r.meaning) put(label, "small", {}, r.meaning);
    put(line, "td", {class: "number"}, r.value);
    put(line, "td", {class: "number"}, percent(r.share));
    const bar = put(put(line, "td", {class: "bar", "aria-hidden": "true"}), "span");
    bar.style.width = `${100 * r.share / longest}%`;
    bar.style.background = `var(${r.colour})`;
  }
  if (!total) return;
  const foot = put(put(node, "tfoot"), "tr");
  put(foot, "th", {scope: "row"}, total.name);
  put(foot, "td", {class: "number"}, total.value);
  put(foot, "td", {class: "number"}, total.share);
  put(foot, "td", {"aria-hidden": "true"});
}

function legend(list, entries) {
  for (const [name, text] of entries) {
    const item = put(list, "li");
    put(item, "i", {"aria-hidden": "true"}).style.background = `var(${name})`;
    item.append(text);
  }
}

/** About `wanted` round numbers from low to high. */
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); ++i) out.push(i * step);
  return {values: out, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9))};
}

/** A tip beside the point (x, y) of a figure, inside of it. */
function showTip(figure, x, y, text) {
  hideTip(figure);
  const tip = put(figure, "div", {class: "tip", "aria-hidden": "true"}, text);
  const left = Math.min(Math.max(0, x + 12), figure.clientWidth - tip.offsetWidth);
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${Math.max(0, y - tip.offsetHeight - 12)}px`;
}
function hideTip(figure) {
  figure.querySelector(".tip")?.remove();
}

/** Calls `draw` now, when the width changes and when the colours do. */
function redrawn(figure, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (figure.clientWidth === width) return;
    width = figure.clientWidth;
    draw();
  }).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
