// The map: one tile a node, drawn on one canvas a policy, so that ten thousand nodes cost one short drawing.

import { count, make, percent } from "./format.js";
import { barsOf, describeLoad } from "./load.js";
import { nodesCost } from "./money.js";
import { amount } from "./quantities.js";
import { drawTiles, layoutOf, pixel } from "./tiles.js";

export const READY = 1;
export const SCHEDULABLE = 2;
const CANDIDATE = 4;
export const EMPTY = 8;

/**
 * Shares of the scarcest resource on every node, in columns; `view` is the document of /api/nodes. `kept` is the part of
 * `slack` whose capacity is free, for unbound placeholders.
 */
export function sharesOf(view) {
  const size = view.names.length;
  const pods = new Float32Array(size);
  const slack = new Float32Array(size);
  const kept = new Float32Array(size);
  const scarcest = new Uint8Array(size);
  const highest = new Float32Array(size).fill(-1);
  view.resources.forEach((one, index) => {
    for (let node = 0; node < size; node += 1) {
      const offered = one.allocatable[node];
      if (!(offered > 0)) continue;
      const used = one.pods[node] + one.system[node];
      const share = (used + one.slack[node]) / offered;
      if (share > highest[node]) {
        highest[node] = share;
        scarcest[node] = index;
        pods[node] = Math.min(1, used / offered);
        slack[node] = Math.min(1 - pods[node], one.slack[node] / offered);
      }
    }
  });
  for (let node = 0; node < size; node += 1) if (view.unbound[node]) kept[node] = slack[node] * (view.unbound[node] / view.placeholders[node]);
  return { pods, slack, kept, scarcest };
}

export function stateOf(view, node) {
  const words = [];
  if (!(view.flags[node] & READY)) words.push("not ready");
  if (!(view.flags[node] & SCHEDULABLE)) words.push("cordoned");
  if (view.flags[node] & CANDIDATE) words.push("about to be removed by the autoscaler");
  if (view.flags[node] & EMPTY) words.push(!view.placeholders[node] ? "empty" : view.unbound[node] === view.placeholders[node] ? "kept for placeholders only" : "holds placeholders only");
  return words.join(", ") || "ready";
}

export function describe(view, shares, node) {
  const scarcest = view.resources[shares.scarcest[node]];
  const policy = !view.divided ? "" : view.policy[node] < 0 ? "no policy" : `policy ${view.policies[view.policy[node]]}`;
  const zone = view.zones[view.zone[node]];
  const parts = view.resources.filter((one) => one.allocatable[node] > 0).map((one) => {
    const free = one.allocatable[node] - one.pods[node] - one.system[node] - one.slack[node];
    return `${one.resource} ${amount(one.resource, one.allocatable[node])}: pods ${amount(one.resource, one.pods[node] + one.system[node])}, placeholders ${amount(one.resource, one.slack[node])}, free ${amount(one.resource, free)}`;
  });
  const free = Math.max(0, 1 - shares.pods[node] - shares.slack[node]);
  return `${view.names[node]} (${[policy, zone, stateOf(view, node)].filter(Boolean).join(", ")}): ` +
    `${podsOf(view, node)}. ` +
    `Scarcest is ${scarcest?.resource ?? "nothing"}, ${percent(free)} free. ${parts.join("; ")}.`;
}

/** How many pods are there, and for how many placeholders capacity is kept free. */
function podsOf(view, node) {
  const unbound = view.unbound[node], bound = view.placeholders[node] - unbound;
  const there = `${count(view.pods[node] - unbound, "pod")}, ${bound} of them ${bound === 1 ? "a placeholder" : "placeholders"}`;
  return unbound ? `${there}; capacity kept free for ${count(unbound, "unbound placeholder")}` : there;
}

/** What is worth a remark about nodes without a pod of anybody's: who keeps them, and what they cost. */
export function remarkOf(view, policies) {
  const counts = new Map();
  let empty = 0, held = 0;
  view.flags.forEach((flags, node) => {
    if (!(flags & EMPTY)) return;
    empty += 1;
    if (view.placeholders[node]) held += 1;
    const name = view.policies[view.policy[node]] ?? "";
    counts.set(name, (counts.get(name) ?? 0) + 1);
  });
  if (empty === 0) return "";
  const idle = empty - held;
  const parts = [held ? `${held.toLocaleString("en")} ${held === 1 ? "is" : "are"} kept for placeholders` : "", idle ? `${idle.toLocaleString("en")} ${idle === 1 ? "holds" : "hold"} nothing, and an autoscaler may take ${idle === 1 ? "it" : "them"} away` : ""];
  return `${count(empty, "node")} of ${view.names.length.toLocaleString("en")} ${empty === 1 ? "runs" : "run"} no pod but those of DaemonSets: ${parts.filter(Boolean).join("; ")}. ${empty === 1 ? "It costs" : "They cost"} ${nodesCost(counts, policies)}.`;
}

function tileSize(total) {
  if (total <= 60) return 44;
  if (total <= 400) return 24;
  if (total <= 2500) return 14;
  return 9;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["pods", "slack", "slack-deep", "free", "away", "load"].map((name) => [name, pixel(style.getPropertyValue(`--${name}`))]));
}

/** The nodes of one policy. */
class Group {
  constructor(map, name) {
    this.map = map;
    this.title = make("h3");
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.cursor = make("div", { class: "cursor", hidden: true });
    this.tiles = make("div", { class: "tiles", tabindex: "0", role: "application", "aria-roledescription": "map of nodes", "data-group": name }, this.canvas, this.cursor);
    this.element = make("div", { class: "group" }, this.title, this.tiles);
    this.name = name;
    this.nodes = [];
    this.at = 0;
    this.tiles.addEventListener("keydown", (event) => this.onKey(event));
    this.tiles.addEventListener("focus", () => this.point(this.at));
    this.tiles.addEventListener("blur", () => { this.cursor.hidden = true; });
    this.tiles.addEventListener("pointermove", (event) => this.onPointer(event));
    this.tiles.addEventListener("pointerdown", (event) => this.onPointer(event));
    this.tiles.addEventListener("pointerleave", () => { if (document.activeElement !== this.tiles) this.cursor.hidden = true; });
  }

  draw(nodes, tile) {
    this.nodes = nodes;
    this.tile = tile;
    const { view, shares, paint } = this.map;
    const layout = layoutOf(nodes.length, this.map.width, tile);
    this.pitch = layout.pitch;
    this.columns = layout.columns;
    const scale = devicePixelRatio || 1;
    const width = Math.max(layout.pitch, this.map.width);
    const height = layout.rows * layout.pitch;
    const canvas = this.canvas;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const outside = view.divided ? "outside every policy" : "of the cluster";
    this.title.textContent = this.name || view.divided ? `${this.name || outside} · ${count(nodes.length, "node")}` : `${count(nodes.length, "node")}; their policies are the leader's to tell`;
    this.tiles.setAttribute("aria-label", `${count(nodes.length, "node")} ${this.name ? `of ${this.name}` : outside}; the arrow keys move between them`);
    const context = canvas.getContext("2d", { willReadFrequently: true }); // keeps it in memory, where it is written
    const image = context.createImageData(canvas.width, canvas.height);
    const crossed = (node) => (view.flags[node] & (READY | SCHEDULABLE)) !== (READY | SCHEDULABLE);
    drawTiles(new Uint32Array(image.data.buffer), canvas.width, nodes, layout, shares, crossed, paint, scale, this.map.bars);
    context.putImageData(image, 0, 0);
    this.at = Math.min(this.at, nodes.length - 1);
    if (document.activeElement === this.tiles) this.point(this.at);
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -10 * this.columns, PageDown: 10 * this.columns };
    let next = this.at;
    if (event.key in steps) next += steps[event.key];
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = this.nodes.length - 1;
    else return;
    event.preventDefault();
    const beyond = next < 0 || next >= this.nodes.length;
    if (beyond && event.key.startsWith("Arrow")) return;
    this.point(Math.max(0, Math.min(this.nodes.length - 1, next)));
  }

  onPointer(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.pitch);
    const index = Math.floor((event.clientY - box.top) / this.pitch) * this.columns + column;
    if (column >= 0 && column < this.columns && index >= 0 && index < this.nodes.length) this.point(index);
  }

  point(index) {
    if (index < 0 || index >= this.nodes.length) return;
    this.at = index;
    const x = (index % this.columns) * this.pitch - 2;
    const y = Math.floor(index / this.columns) * this.pitch - 2;
    this.cursor.hidden = false;
    this.cursor.style.transform = `translate(${x}px, ${y}px)`;
    this.cursor.style.width = `${this.tile + 4}px`;
    this.cursor.style.height = `${this.tile + 4}px`;
    this.map.tell(this.nodes[index]);
  }
}

export class NodeMap {
  constructor() {
    this.place = document.getElementById("map");
    this.detail = document.getElementById("node-detail");
    this.remark = document.getElementById("node-remark");
    this.legend = document.getElementById("kept-legend");
    this.groups = new Map();
    this.view = null;
    this.use = null; // { load, now, maxAge }, or null where nothing tells what nodes really use
    this.bars = null;
    this.shown = -1;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.width) this.draw();
    }).observe(this.place);
  }

  show(view, shares, policies, use) {
    this.view = view;
    this.legend.hidden = !view.unbound.some((count) => count > 0);
    this.shares = shares;
    this.use = use;
    this.bars = this.barsNow();
    const text = remarkOf(view, policies);
    if (this.remark.textContent !== text) this.remark.textContent = text;
    this.place.dataset.version = view.version;
    this.draw();
  }

  barsNow() {
    const { view, shares, use } = this;
    return use === null || view === null ? null : barsOf(view, shares, use.load, use.now, use.maxAge);
  }

  /** Takes what nodes use now; says whether that looks otherwise than before. */
  showUse(use) {
    const before = this.bars;
    this.use = use;
    this.bars = this.barsNow();
    const same = before === this.bars || (before !== null && this.bars !== null && ["height", "fresh"].every((part) => before[part].toString() === this.bars[part].toString()));
    if (!same) this.draw();
    return !same;
  }

  draw() {
    const view = this.view;
    if (view === null) return;
    this.width = this.place.clientWidth;
    this.paint = colours();
    if (view.names.length === 0) {
      this.groups.clear();
      this.place.replaceChildren(make("p", { class: "empty" }, "The cluster has no node."));
      return;
    }
    const members = new Map();
    for (let node = 0; node < view.names.length; node += 1) {
      const name = view.policy[node] < 0 ? "" : view.policies[view.policy[node]];
      if (!members.has(name)) members.set(name, []);
      members.get(name).push(node);
    }
    const names = [...members.keys()].sort((a, b) => (a === "") - (b === "") || a.localeCompare(b));
    const known = names.length === this.groups.size && names.every((name) => this.groups.has(name));
    if (!known) {
      const before = this.groups;
      this.groups = new Map(names.map((name) => [name, before.get(name) ?? new Group(this, name)]));
      this.place.replaceChildren(...[...this.groups.values()].map((group) => group.element));
    }
    const tile = tileSize(view.names.length);
    for (const [name, nodes] of members) this.groups.get(name).draw(nodes, tile);
    if (this.shown >= 0 && this.shown < view.names.length) this.tell(this.shown);
  }

  tell(node) {
    this.shown = node;
    const used = this.use === null ? "" : ` ${describeLoad(this.use.load, node, this.use.now, this.use.maxAge)}`;
    const text = describe(this.view, this.shares, node) + used;
    if (this.detail.textContent !== text) this.detail.textContent = text;
  }
}
