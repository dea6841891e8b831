// Puts the parts together: a state comes in, each part shows its share of it.

import { showDisplaced } from "./displaced.js";
import { setUpExplain } from "./explain.js";
import { connect, get } from "./live.js";
import { loadOf, loadText } from "./load.js";
import { NodeMap, sharesOf } from "./map.js";
import { showAnswer, showFigures, showPolicies } from "./policies.js";
import { showBuffers } from "./buffers.js";
import { showPools } from "./pools.js";
import { Since } from "./since.js";
import { NodeTable } from "./table.js";
import { TimelineChart } from "./timeline.js";

const NODES_PAUSE = 1500; // from one asking to the next

const map = new NodeMap();
const table = new NodeTable();
const timeline = new TimelineChart();
const link = document.getElementById("connection");

let state = null;
let received = null;
let linkKind = "waiting";
let nodesVersion = 0;
let fetching = false;
let nextFetch = 0;
let nodes = null;
let told = null; // the document of what nodes use
let load = null; // the same by row of `nodes`
let fetchingLoad = false;

function answer() {
  if (state === null) return;
  showAnswer(state, state.now + received.seconds, { kind: linkKind, silentSeconds: silentSeconds() });
}

function show(next) {
  state = next;
  received = new Since();
  answer();
  showFigures(state);
  showPolicies(state);
  showPools(state);
  showBuffers(state);
  showDisplaced(state);
  const version = `resource-slack ${state.operatorVersion} · ${state.identity} · namespace ${state.namespace}. Read-only: `;
  const about = document.getElementById("about");
  if (!about.textContent.startsWith(version)) {
    const command = document.createElement("code");
    command.textContent = "kubectl get slackpolicies";
    about.replaceChildren(version, command, " tells the same.");
  }
  showNodes();
  fetchLoad();
}

/** What nodes use, with the time by which it is judged; null where nothing tells, or nothing yet. */
function useNow() {
  if (state.load === null || load === null) return null;
  return { load, now: state.now + received.seconds, maxAge: state.load.maxAgeSeconds };
}

/** Shows what nodes use as it is now: figures grow old while nobody sends any. */
function showLoad() {
  if (state === null || nodes === null) return;
  const stands = state.load;
  const place = document.getElementById("node-load");
  place.hidden = document.getElementById("load-legend").hidden = stands === null;
  const use = useNow();
  if (map.showUse(use)) table.showUse(use);
  if (stands === null) return;
  const { text, grey } = loadText(nodes, use?.load ?? null, stands, state.now + received.seconds);
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("muted", grey);
}

async function fetchLoad() {
  const version = state.load?.version ?? 0;
  if (version === 0) told = load = null;
  else if (version !== told?.version && !fetchingLoad && !document.hidden) {
    fetchingLoad = true;
    try {
      told = await get("/api/load");
      load = nodes === null ? null : loadOf(nodes, told);
    } catch (problem) {
      link.title = problem.message; // asked again with the next state
    } finally {
      fetchingLoad = false;
    }
  }
  showLoad();
}

async function showNodes() {
  if (state.nodesVersion === nodesVersion || fetching || document.hidden) return;
  const early = nextFetch - Date.now();
  if (early > 0) {
    fetching = true;
    setTimeout(() => { fetching = false; showNodes(); }, early);
    return;
  }
  fetching = true;
  nextFetch = Date.now() + NODES_PAUSE;
  try {
    const view = await get("/api/nodes");
    nodesVersion = view.version;
    const shares = sharesOf(view);
    nodes = view;
    load = told === null ? null : loadOf(view, told);
    const use = useNow();
    map.show(view, shares, state.policies, use);
    table.showUse(use);
    table.show(view, shares);
    showLoad();
  } catch (problem) {
    link.title = problem.message; // the stream tells that the connection is lost, and tries again
  } finally {
    fetching = false;
    if (state.nodesVersion !== nodesVersion) setTimeout(showNodes, NODES_PAUSE);
  }
}

setUpExplain();
const silentSeconds = connect({
  onFirst(first) {
    nodesVersion = 0; // another process may have other versions
    told = load = null;
    timeline.start(first.timeline, first.day, first.state);
    show(first.state);
  },
  onState(next) {
    show(next);
    timeline.add(next);
  },
  onLink(kind, text) {
    link.dataset.state = kind;
    link.textContent = kind === "live" ? "live" : text;
    linkKind = kind;
    answer();
  },
});
setInterval(answer, 1000);
setInterval(showLoad, 5000);
document.addEventListener("visibilitychange", () => {
  answer();
  if (state !== null) {
    showNodes();
    fetchLoad();
  }
});
