// What nodes really use, beside what is requested there: a load watcher's figures by row of the map, and in words.

import { ago, count, rounded } from "./format.js";

const AHEAD = 30; // seconds that two machines' clocks may differ

/** The figures of /api/load in the order of the nodes of `view`: NaN and 0 where nothing is known. */
export function loadOf(view, told) {
  const size = view.names.length;
  const load = { cpu: new Float32Array(size).fill(NaN), memory: new Float32Array(size).fill(NaN), at: new Float64Array(size), told: new Int32Array(size).fill(-1), columns: told };
  const rows = new Map(told.names.map((name, row) => [name, row]));
  for (let node = 0; node < size; node += 1) {
    const row = rows.get(view.names[node]);
    if (row === undefined) continue;
    load.told[node] = row;
    load.at[node] = told.observedAtUnixSeconds[row];
    load.cpu[node] = (told.cpuAveragePercent[row] ?? NaN) / 100;
    load.memory[node] = (told.memoryAveragePercent[row] ?? NaN) / 100;
  }
  return load;
}

/** Whether figures of that time say something now. */
export function isFresh(at, now, maxAge) {
  return now - at <= maxAge && at - now <= AHEAD;
}

/** How high each tile's bar is: the use of the node's scarcest resource, where that is cpu or memory, else of cpu. */
export function barsOf(view, shares, load, now, maxAge) {
  const size = view.names.length;
  const bars = { height: new Float32Array(size), fresh: new Uint8Array(size) };
  for (let node = 0; node < size; node += 1) {
    const use = view.resources[shares.scarcest[node]]?.resource === "memory" ? load.memory[node] : load.cpu[node];
    bars.height[node] = Math.min(1, use);
    bars.fresh[node] = isFresh(load.at[node], now, maxAge) ? 1 : 0;
  }
  return bars;
}

function used(columns, row, resource) {
  const average = columns[`${resource}AveragePercent`][row];
  const deviation = columns[`${resource}DeviationPercent`][row];
  if (average === null) return `${resource} not known`;
  return `${resource} ${average}%${deviation === null ? "" : ` ± ${deviation}`}`;
}

/** What one node really uses, in words. */
export function describeLoad(load, node, now, maxAge) {
  const row = load.told[node];
  if (row < 0) return "What it really uses is not known.";
  const text = `${used(load.columns, row, "cpu")}, ${used(load.columns, row, "memory")}`;
  if (load.at[node] - now > AHEAD) return `What it really uses is not known: the figures are of the future, so a clock is wrong.`;
  if (!isFresh(load.at[node], now, maxAge)) return `What it really uses is not known: ${ago(load.at[node], now)} ago it was ${text}.`;
  return `Really used over ${load.columns.windowSeconds / 60} min: ${text}; ${ago(load.at[node], now)} ago.`;
}

/** The share of a resource that is used, and the share that pods request, on nodes whose use is known now. */
function together(view, load, resource, now, maxAge) {
  const column = view.resources.find((one) => one.resource === resource);
  let offered = 0, use = 0, requested = 0;
  for (let node = 0; column && node < view.names.length; node += 1) {
    if (Number.isNaN(load[resource][node]) || !isFresh(load.at[node], now, maxAge)) continue;
    offered += column.allocatable[node];
    use += load[resource][node] * column.allocatable[node];
    requested += column.pods[node] + column.system[node];
  }
  return offered ? { use: rounded(use / offered), requested: rounded(requested / offered) } : null;
}

/** How load stands, in one line, and whether it is to be grey; `stands` is the state's part, `load` null before any. */
export function loadText(view, load, stands, now) {
  const problem = stands.problem ? ` ${stands.problem[0].toUpperCase()}${stands.problem.slice(1)}.` : "";
  if (load === null) return { text: `What nodes really use is not known yet.${problem}`, grey: true };
  const maxAge = stands.maxAgeSeconds;
  const known = view.names.filter((_, node) => isFresh(load.at[node], now, maxAge)).length;
  if (known === 0) {
    const end = stands.windowEndUnixSeconds;
    const why = end - now > AHEAD ? "the newest figures are of the future, so a clock is wrong" : `the newest figures are ${ago(end, now)} old`;
    return { text: `What nodes really use is not known: ${isFresh(end, now, maxAge) ? "no name of the load watcher's is a node's" : why}.${problem}`, grey: true };
  }
  const parts = ["cpu", "memory"].map((resource) => [resource, together(view, load, resource, now, maxAge)]).filter(([, found]) => found);
  const uses = parts.map(([resource, found]) => `${found.use} of ${resource} where pods request ${found.requested}`).join(", ");
  const missing = view.names.length - known;
  return { text: `Really used: ${uses}.${missing ? ` Of ${count(missing, "node")} it is not known.` : ""}${problem}`, grey: false };
}
