// Desired, reserved and pending over time, as SVG. Values hold until the next sample; a pause is a gap.

import { make, time } from "./format.js";
import { amount } from "./quantities.js";
import { PENDING, Series, topOf } from "./series.js";

const SVG = "http://www.w3.org/2000/svg";
const FINE_SECONDS = 3600; // what the hour's steps reach back at least
const HEIGHT = 240;
const MARGIN = { left: 88, right: 12, top: 18, bottom: 24 };
const PENDING_HEIGHT = 42;
const FIELDS = { cpu: [0, 1], memory: [2, 3] };
const LEAST = { cpu: 1000, memory: 2 ** 30 }; // what the axis reaches when there is nothing to show
const MINUTES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export class TimelineChart {
  constructor() {
    this.place = document.getElementById("timeline");
    this.readout = document.getElementById("timeline-readout");
    this.note = document.getElementById("timeline-note");
    this.policy = document.getElementById("timeline-policy");
    this.resource = document.getElementById("timeline-resource");
    this.range = document.getElementById("timeline-range");
    this.hour = new Series(5);
    this.day = new Series(120);
    this.pointed = null;
    this.intervalSeconds = 10;
    for (const choice of [this.policy, this.resource, this.range]) choice.addEventListener("change", () => this.draw());
    new ResizeObserver(() => { if (this.place.clientWidth !== this.width) this.draw(); }).observe(this.place);
  }

  start(timeline, day, state) {
    this.hour.start(timeline);
    this.day.start(day);
    this.intervalSeconds = state.intervalSeconds;
    if (timeline.at.length === 0) this.place.replaceChildren(make("p", { class: "empty" }, state.leading || state.at === null ? "No plan has been made yet." : "A standby makes no plans: see the leader's page."));
    this.draw();
  }

  add(state) {
    const planned = state.policies.filter((one) => one.planned);
    if (state.at === null || !state.leading || planned.length === 0) return;
    const figures = Object.fromEntries(planned.map((policy) => {
      const of = (resource, field) => policy.amounts.find((one) => one.resource === resource)?.[field] ?? 0;
      return [policy.name, [of("cpu", "desired"), of("cpu", "reserved"), of("memory", "desired"), of("memory", "reserved"), policy.pending]];
    }));
    this.hour.add(state.at, figures);
    this.day.add(state.at, figures);
    this.draw();
  }

  /** The steps that are to be seen; the choice of policies follows those that there are. */
  shown() {
    const seconds = Number(this.range.value);
    const series = seconds <= FINE_SECONDS ? this.hour : this.day;
    const wanted = ["", ...Object.keys(series.policies).sort()];
    if (this.policy.options.length !== wanted.length || wanted.some((name, index) => this.policy.options[index].value !== name)) {
      const chosen = this.policy.value;
      this.policy.replaceChildren(...wanted.map((name) => make("option", { value: name }, name || "all")));
      this.policy.value = wanted.includes(chosen) ? chosen : "";
    }
    this.gap = Math.max(60, 3 * this.intervalSeconds, 2 * series.stepSeconds);
    return series.within(seconds, this.policy.value);
  }

  draw() {
    const { at, steps } = this.shown();
    if (at.length === 0) return;
    const chart = new Drawing(at, steps, { width: this.place.clientWidth, resource: this.resource.value, gap: this.gap });
    this.width = chart.width;
    const element = chart.element(`${this.resource.value} of ${this.policy.value || "all policies"} over time; the arrow keys read it out`);
    const point = (index) => {
      this.pointed = at[index];
      chart.cross(index);
      this.tell(at[index], steps[index]);
    };
    const nearest = (moment) => Math.max(0, at.findLastIndex((one) => one <= moment));
    element.addEventListener("pointermove", (event) => point(nearest(chart.momentAt(event.clientX - element.getBoundingClientRect().left))));
    element.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12 };
      let index = this.pointed === null ? at.length - 1 : nearest(this.pointed);
      if (event.key in moves) index += moves[event.key];
      else if (event.key === "Home") index = 0;
      else if (event.key === "End") index = at.length - 1;
      else return;
      event.preventDefault();
      point(Math.max(0, Math.min(at.length - 1, index)));
    });
    const focused = this.place.contains(document.activeElement);
    this.place.replaceChildren(element);
    if (focused) element.focus();
    if (this.note.textContent !== chart.note) this.note.textContent = chart.note;
    if (this.pointed !== null && this.pointed >= at[0]) point(nearest(this.pointed));
  }

  tell(at, step) {
    const resource = this.resource.value;
    const [desired, reserved] = FIELDS[resource];
    const text = step === null ? "not planned" : `desired ${amount(resource, step[desired])}, reserved ${amount(resource, step[reserved])}, ${step[PENDING]} pending`;
    const when = time(at);
    if (this.readout.textContent !== `${when.textContent}: ${text}`) this.readout.replaceChildren(when, `: ${text}`);
  }
}

/** One picture of steps. */
class Drawing {
  constructor(at, steps, { width, resource, gap }) {
    [this.at, this.steps, this.width, this.resource, this.gap] = [at, steps, width, resource, gap];
    [this.desired, this.reserved] = FIELDS[resource];
    this.first = at[0];
    this.last = Math.max(at.at(-1), this.first + 60);
    this.base = HEIGHT - MARGIN.bottom;
    this.floor = this.base - PENDING_HEIGHT;
    const highs = steps.map((one) => (one === null ? null : Math.max(one[this.desired], one[this.reserved])));
    const { top, cut } = topOf(highs);
    this.top = top || LEAST[resource];
    const waits = topOf(steps.map((one) => (one === null ? null : one[PENDING])));
    this.most = Math.max(1, waits.top);
    this.peak = cut ? highs.reduce((best, value, index) => (value !== null && value > (highs[best] ?? -1) ? index : best), 0) : -1;
    const pending = steps.reduce((high, one) => (one === null ? high : Math.max(high, one[PENDING])), 0);
    this.pendingText = `pending ${pending}`;
    const notes = [];
    if (cut) notes.push(`a peak of ${amount(resource, highs[this.peak])} at ${SECONDS.format(new Date(at[this.peak] * 1000))} is cut off (▲), so that the rest is seen`);
    if (waits.cut) notes.push(`at most ${pending} were pending, which is cut off too`);
    this.note = notes.join("; ").replace(/^./, (letter) => letter.toUpperCase()) + (notes.length ? "." : "");
  }

  x(at) {
    return MARGIN.left + ((at - this.first) / (this.last - this.first)) * (this.width - MARGIN.left - MARGIN.right);
  }

  y(value) {
    return Math.max(MARGIN.top - 8, this.floor - (value / (this.top * 1.08)) * (this.floor - MARGIN.top));
  }

  momentAt(x) {
    return this.first + ((x - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right)) * (this.last - this.first);
  }

  end(index) {
    return index + 1 < this.at.length ? Math.min(this.at[index + 1], this.at[index] + this.gap) : this.last;
  }

  paths() {
    let desired = "", reserved = "", area = "", pending = "";
    let broken = true;
    this.steps.forEach((step, index) => {
      if (step === null) { broken = true; return; }
      const from = this.x(this.at[index]).toFixed(1), to = this.x(this.end(index)).toFixed(1);
      const [d, r] = [this.y(step[this.desired]).toFixed(1), this.y(step[this.reserved]).toFixed(1)];
      desired += `${broken ? "M" : "L"}${from} ${d}H${to}`;
      reserved += `${broken ? "M" : "L"}${from} ${r}H${to}`;
      area += `M${from} ${this.floor}V${r}H${to}V${this.floor}Z`;
      if (step[PENDING] > 0) {
        const tall = Math.max(2, Math.min(1, step[PENDING] / this.most) * (PENDING_HEIGHT - 14));
        pending += `M${from} ${this.base}v${-tall.toFixed(1)}H${to}V${this.base}Z`;
      }
      broken = index + 1 < this.at.length && this.end(index) < this.at[index + 1];
    });
    return Object.entries({ area, reserved, desired, pending }).map(([name, d]) => svg("path", { class: name, d }));
  }

  axes() {
    const right = this.width - MARGIN.right;
    const marks = new Map([this.top, 0, this.top / 2].map((value) => [amount(this.resource, Math.floor(value)), value]).reverse());
    const lines = [...marks].flatMap(([text, value]) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: this.y(value), y2: this.y(value) }),
      svg("text", { class: "mark", x: MARGIN.left - 8, y: this.y(value) + 4, "text-anchor": "end" }, text),
    ]);
    const ticks = this.width < 500 ? 2 : 4;
    const span = this.last - this.first;
    const clock = span / ticks < 60 ? SECONDS : MINUTES;
    const times = Array.from({ length: ticks + 1 }, (_, index) => this.first + (span * index) / ticks).map((at, index) =>
      svg("text", { class: "hour", x: this.x(at), y: HEIGHT - 6, "text-anchor": index === 0 ? "start" : index === ticks ? "end" : "middle" }, clock.format(new Date(at * 1000))));
    return [...lines, ...times,
      svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: this.base, y2: this.base }),
      svg("text", { x: MARGIN.left - 8, y: this.base - 4, "text-anchor": "end" }, this.pendingText)];
  }

  element(label) {
    this.line = svg("line", { class: "cross", x1: 0, x2: 0, y1: MARGIN.top, y2: this.base, visibility: "hidden" });
    const peak = this.peak < 0 ? [] : [svg("text", { class: "peak", x: this.x(this.at[this.peak]), y: 9, "text-anchor": "middle" }, "▲")];
    return svg("svg", { class: "chart", viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", tabindex: "0", "aria-label": label },
      ...this.axes(), ...this.paths(), ...peak, this.line);
  }

  cross(index) {
    const place = this.x(this.at[index]);
    this.line.setAttribute("x1", place);
    this.line.setAttribute("x2", place);
    this.line.setAttribute("visibility", "visible");
  }
}
