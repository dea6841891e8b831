// Puts the parts together: a state comes in, each part shows its share of it.

import { showDisplaced } from "./displaced.js";
import { setUpExplain } from "./explain.js";
import { connect, get } from "./live.js";
import { NodeMap, sharesOf } from "./map.js";
import { showAnswer, showFigures, showPolicies } from "./policies.js";
import { Since } from "./since.js";
import { NodeTable } from "./table.js";
import { TimelineChart } from "./timeline.js";

const NODES_PAUSE = 2000;
const MANY_NODES_PAUSE = 5000;
const MANY_NODES = 2000;

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
  showDisplaced(state);
  const version = `resource-slack ${state.operatorVersion} · ${state.identity} · namespace ${state.namespace}. Read-only: `;
  const about = document.getElementById("about");
  if (!about.textContent.startsWith(version)) {
    const command = document.createElement("code");
    command.textContent = "kubectl get slackpolicies";
    about.replaceChildren(version, command, " tells the same.");
  }
  showNodes();
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
  try {
    const view = await get("/api/nodes");
    nodesVersion = view.version;
    const shares = sharesOf(view);
    map.show(view, shares);
    table.show(view, shares);
  } catch (problem) {
    link.title = problem.message; // the stream tells that the connection is lost, and tries again
  } finally {
    fetching = false;
    nextFetch = Date.now() + (state.nodes > MANY_NODES ? MANY_NODES_PAUSE : NODES_PAUSE);
    if (state.nodesVersion !== nodesVersion) setTimeout(showNodes, NODES_PAUSE);
  }
}

setUpExplain();
const silentSeconds = connect({
  onFirst(first) {
    nodesVersion = 0; // another process may have other versions
    timeline.start(first.timeline, first.state);
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
document.addEventListener("visibilitychange", () => {
  answer();
  if (state !== null) showNodes();
});
