// The nodes as a table, a page at a time: the same as the map, for those who read rather than look.

import { make, rounded } from "./format.js";
import { isFresh } from "./load.js";
import { stateOf } from "./map.js";

const ROWS = 50;

function percents({ load, now, maxAge }, node) {
  const columns = load.columns, row = load.told[node];
  if (row < 0) return make("td", { class: "num" }, "not known");
  const text = ["cpu", "memory"].map((resource) => columns[`${resource}AveragePercent`][row]).map((use) => (use === null ? "–" : `${Math.round(use)}%`)).join(" / ");
  const fresh = isFresh(load.at[node], now, maxAge);
  return make("td", { class: fresh ? "num" : "num muted" }, fresh ? text : `old: ${text}`);
}

export class NodeTable {
  constructor() {
    this.place = document.getElementById("node-table");
    this.filter = document.getElementById("node-filter");
    this.back = document.getElementById("node-back");
    this.on = document.getElementById("node-on");
    this.used = document.getElementById("node-used");
    this.view = null;
    this.use = null;
    this.page = 0;
    this.place.addEventListener("toggle", () => this.draw());
    this.filter.addEventListener("input", () => { this.page = 0; this.draw(); });
    this.back.addEventListener("click", () => { this.page -= 1; this.draw(); });
    this.on.addEventListener("click", () => { this.page += 1; this.draw(); });
  }

  show(view, shares) {
    this.view = view;
    this.shares = shares;
    this.draw();
  }

  /** Takes what nodes use, or null where nothing tells. */
  showUse(use) {
    this.use = use;
    this.used.hidden = use === null;
    this.draw();
  }

  draw() {
    if (this.view === null || !this.place.open) return;
    const { view, shares, use } = this;
    const wanted = this.filter.value.trim().toLowerCase();
    const found = [];
    view.names.forEach((name, node) => { if (name.toLowerCase().includes(wanted)) found.push(node); });
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    this.page = Math.max(0, Math.min(this.page, pages - 1));
    const first = this.page * ROWS;
    const rows = found.slice(first, first + ROWS).map((node) => make("tr", {},
      make("td", {}, view.names[node]),
      make("td", {}, !view.divided ? "not known" : view.policy[node] < 0 ? "–" : view.policies[view.policy[node]]),
      make("td", {}, view.zones[view.zone[node]] || "–"),
      make("td", {}, view.resources[shares.scarcest[node]]?.resource ?? "–"),
      make("td", { class: "num" }, rounded(shares.pods[node])),
      make("td", { class: "num" }, `${rounded(shares.slack[node])} (${view.placeholders[node]})`),
      make("td", { class: "num" }, rounded(Math.max(0, 1 - shares.pods[node] - shares.slack[node]))),
      use === null ? null : percents(use, node),
      make("td", {}, stateOf(view, node))));
    document.getElementById("node-rows").replaceChildren(...rows);
    const text = found.length === 0 ? "no node" : `${first + 1} to ${first + rows.length} of ${found.length.toLocaleString("en")}`;
    const place = document.getElementById("node-page");
    if (place.textContent !== text) place.textContent = text;
    this.back.disabled = this.page === 0;
    this.on.disabled = this.page >= pages - 1;
  }
}
