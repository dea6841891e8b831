// Desired, reserved and pending over time, as SVG. Values hold until the next sample; a pause is a gap.

import { amount, make, time } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const MAX_STEPS = 720;
const STEP_SECONDS = 5;
const MARGIN = { left: 88, right: 12, top: 10, bottom: 24 };
const PENDING_HEIGHT = 42;
const FIELDS = { cpu: [0, 1], memory: [2, 3] };
const PENDING = 4;
const LEAST = { cpu: 1000, memory: 2 ** 30 }; // what the axis reaches when there is nothing to show
const MINUTES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function added(one, other) {
  return one === null ? other : other === null ? one : one.map((value, index) => value + other[index]);
}

/** The same as the operator's history: the last of desired, the worst of the others within a step. */
function worst(before, later) {
  if (before === null || later === null) return later;
  return [later[0], Math.min(before[1], later[1]), later[2], Math.min(before[3], later[3]), Math.max(before[4], later[4])];
}

export class TimelineChart {
  constructor() {
    this.place = document.getElementById("timeline");
    this.readout = document.getElementById("timeline-readout");
    this.policy = document.getElementById("timeline-policy");
    this.resource = document.getElementById("timeline-resource");
    this.at = [];
    this.policies = {};
    this.pointed = null;
    this.gap = 60;
    for (const choice of [this.policy, this.resource]) choice.addEventListener("change", () => this.draw());
    new ResizeObserver(() => { if (this.place.clientWidth !== this.width) this.draw(); }).observe(this.place);
  }

  start(timeline, state) {
    this.at = timeline.at;
    this.policies = timeline.policies;
    this.gap = Math.max(60, 3 * state.intervalSeconds);
    if (this.at.length === 0) this.place.replaceChildren(make("p", { class: "empty" }, state.leading || state.at === null ? "No plan has been made yet." : "A standby makes no plans: see the leader's page."));
    this.draw();
  }

  add(state) {
    const planned = state.policies.filter((one) => one.planned);
    if (state.at === null || !state.leading || planned.length === 0) return;
    const last = this.at.length - 1;
    const same = last >= 0 && state.at - this.at[last] < STEP_SECONDS;
    if (!same) {
      this.at.push(state.at);
      for (const column of Object.values(this.policies)) column.push(null);
    }
    for (const policy of planned) {
      const of = (resource, field) => policy.amounts.find((one) => one.resource === resource)?.[field] ?? 0;
      const figures = [of("cpu", "desired"), of("cpu", "reserved"), of("memory", "desired"), of("memory", "reserved"), policy.pending];
      this.policies[policy.name] ??= this.at.map(() => null);
      const column = this.policies[policy.name];
      column[column.length - 1] = same ? worst(column.at(-1), figures) : figures;
    }
    if (this.at.length > MAX_STEPS) {
      this.at.shift();
      for (const column of Object.values(this.policies)) column.shift();
    }
    this.draw();
  }

  column() {
    const names = Object.keys(this.policies).sort();
    const wanted = ["", ...names];
    if (this.policy.options.length !== wanted.length || wanted.some((name, index) => this.policy.options[index].value !== name)) {
      const chosen = this.policy.value;
      this.policy.replaceChildren(...wanted.map((name) => make("option", { value: name }, name || "all")));
      this.policy.value = wanted.includes(chosen) ? chosen : "";
    }
    if (this.policy.value) return this.policies[this.policy.value];
    return this.at.map((_, index) => names.reduce((sum, name) => added(sum, this.policies[name][index]), null));
  }

  draw() {
    const column = this.column();
    if (this.at.length === 0) return;
    const [desired, reserved] = FIELDS[this.resource.value];
    this.width = this.place.clientWidth;
    const width = this.width;
    const height = 240;
    const first = this.at[0];
    const last = Math.max(this.at.at(-1), first + 60);
    const high = column.reduce((top, one) => (one === null ? top : Math.max(top, one[desired], one[reserved])), 0) || LEAST[this.resource.value];
    const most = column.reduce((top, one) => (one === null ? top : Math.max(top, one[PENDING])), 0);
    const bottom = height - MARGIN.bottom - PENDING_HEIGHT;
    const x = (at) => MARGIN.left + ((at - first) / (last - first)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => bottom - (value / (high * 1.08)) * (bottom - MARGIN.top);
    const end = (index) => (index + 1 < this.at.length ? Math.min(this.at[index + 1], this.at[index] + this.gap) : last);
    const base = height - MARGIN.bottom;
    let desiredPath = "", reservedPath = "", areaPath = "", pendingPath = "";
    let broken = true;
    column.forEach((one, index) => {
      if (one === null) { broken = true; return; }
      const from = x(this.at[index]).toFixed(1), to = x(end(index)).toFixed(1);
      const [d, r] = [y(one[desired]).toFixed(1), y(one[reserved]).toFixed(1)];
      desiredPath += `${broken ? "M" : "L"}${from} ${d}H${to}`;
      reservedPath += `${broken ? "M" : "L"}${from} ${r}H${to}`;
      areaPath += `M${from} ${bottom}V${r}H${to}V${bottom}Z`;
      if (one[PENDING] > 0) {
        const tall = Math.max(2, (one[PENDING] / most) * (PENDING_HEIGHT - 14));
        pendingPath += `M${from} ${base}v${-tall.toFixed(1)}H${to}V${base}Z`;
      }
      broken = index + 1 < this.at.length && end(index) < this.at[index + 1];
    });
    const marks = new Map([high, 0, high / 2].map((value) => [amount(this.resource.value, Math.floor(value)), value]).reverse());
    const lines = [...marks].map(([text, value]) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { class: "mark", x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, text),
    ]).flat();
    const ticks = width < 500 ? 2 : 4;
    const axis = (last - first) / ticks < 60 ? SECONDS : MINUTES;
    const times = Array.from({ length: ticks + 1 }, (_, index) => first + ((last - first) * index) / ticks).map((at, index) =>
      svg("text", { class: "hour", x: x(at), y: height - 6, "text-anchor": index === 0 ? "start" : index === ticks ? "end" : "middle" }, axis.format(new Date(at * 1000))));
    const name = this.policy.value || "all policies";
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "aria-label": `${this.resource.value} of ${name} over time; the arrow keys read it out` },
      ...lines,
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: base, y2: base }),
      svg("text", { x: MARGIN.left - 8, y: base - 4, "text-anchor": "end" }, most ? `pending ${most}` : "pending 0"),
      svg("path", { class: "area", d: areaPath }), svg("path", { class: "reserved", d: reservedPath }),
      svg("path", { class: "desired", d: desiredPath }), svg("path", { class: "pending", d: pendingPath }),
      ...times);
    const cross = svg("line", { class: "cross", x1: 0, x2: 0, y1: MARGIN.top, y2: base, visibility: "hidden" });
    chart.append(cross);
    const point = (index) => {
      this.pointed = this.at[index];
      const place = x(this.at[index]);
      cross.setAttribute("x1", place);
      cross.setAttribute("x2", place);
      cross.setAttribute("visibility", "visible");
      this.tell(index, column[index], desired, reserved);
    };
    const nearest = (at) => {
      let found = this.at.findLastIndex((one) => one <= at);
      if (found < 0) found = 0;
      return found;
    };
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      point(nearest(first + ((event.clientX - box.left - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (last - first)));
    });
    chart.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12 };
      let index = this.pointed === null ? this.at.length - 1 : nearest(this.pointed);
      if (event.key in steps) index += steps[event.key];
      else if (event.key === "Home") index = 0;
      else if (event.key === "End") index = this.at.length - 1;
      else return;
      event.preventDefault();
      point(Math.max(0, Math.min(this.at.length - 1, index)));
    });
    const focused = this.place.contains(document.activeElement);
    this.place.replaceChildren(chart);
    if (focused) chart.focus();
    if (this.pointed !== null && this.pointed >= first) point(nearest(this.pointed));
  }

  tell(index, one, desired, reserved) {
    const resource = this.resource.value;
    const text = one === null ? "not planned" : `desired ${amount(resource, one[desired])}, reserved ${amount(resource, one[reserved])}, ${one[PENDING]} pending`;
    const when = time(this.at[index]);
    if (this.readout.textContent !== `${when.textContent}: ${text}`) this.readout.replaceChildren(when, `: ${text}`);
  }
}
