// The figures over time, as the operator keeps them: an hour in steps of 5 s, a day in steps of 2 min. No elements here.

export const MAX_STEPS = 720;
export const PENDING = 4;
const BRIEF = 0.03; // of the shown steps: what lasts no longer does not set the height of the picture
const MUCH_HIGHER = 2;

function added(one, other) {
  return one === null ? other : other === null ? one : one.map((value, index) => value + other[index]);
}

/** The same as the operator's history: the last of desired, the worst of the others within a step. */
export function worst(before, later) {
  if (before === null || later === null) return later;
  return [later[0], Math.min(before[1], later[1]), later[2], Math.min(before[3], later[3]), Math.max(before[4], later[4])];
}

/** The top of an axis: the highest value, or where others are far below what stands out for a moment, less than that. */
export function topOf(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (sorted.length === 0) return { top: 0, cut: false };
  const highest = sorted.at(-1);
  const lasting = sorted[Math.max(0, sorted.length - 1 - Math.max(1, Math.floor(sorted.length * BRIEF)))];
  const cut = lasting > 0 && highest > MUCH_HIGHER * lasting;
  return { top: cut ? lasting * 1.25 : highest, cut };
}

/** Steps of one length, the oldest first. */
export class Series {
  constructor(stepSeconds) {
    this.stepSeconds = stepSeconds;
    this.start({ at: [], policies: {} });
  }

  start({ at, policies }) {
    this.at = at;
    this.policies = policies;
  }

  /** Take figures by policy: [desired cpu, reserved cpu, desired memory, reserved memory, pending]. */
  add(at, figures) {
    const last = this.at.length - 1;
    const same = last >= 0 && at - this.at[last] < this.stepSeconds;
    if (!same) {
      this.at.push(at);
      for (const column of Object.values(this.policies)) column.push(null);
    }
    for (const [name, now] of Object.entries(figures)) {
      this.policies[name] ??= this.at.map(() => null);
      const column = this.policies[name];
      column[column.length - 1] = same ? worst(column.at(-1), now) : now;
    }
    if (this.at.length > MAX_STEPS) {
      this.at.shift();
      for (const column of Object.values(this.policies)) column.shift();
    }
  }

  /** The steps of the last seconds, of one policy or ("") of all together. */
  within(seconds, policy) {
    const from = this.at.length ? this.at.at(-1) - seconds : 0;
    const first = Math.max(0, this.at.findIndex((at) => at >= from));
    const columns = policy ? [this.policies[policy] ?? []] : Object.values(this.policies);
    const at = this.at.slice(first);
    return { at, steps: at.map((_, index) => columns.reduce((sum, column) => added(sum, column[first + index] ?? null), null)) };
  }
}
