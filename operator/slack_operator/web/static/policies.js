// The headline, the key figures, and the policies with their conditions.

import { answerOf, calmWords, lateAfter, vacant } from "./answer.js";
import { ago, count, lasting, make, percent, time } from "./format.js";
import { totalCost } from "./money.js";
import { amount, requests, share } from "./quantities.js";

const opened = new Set();

const SIGNS = { "✓": "good", "!": "bad" };

export function showAnswer(state, nowSeconds, link) {
  const age = state.at === null ? 0 : nowSeconds - state.at;
  const [sign, text] = answerOf(state, age, link);
  document.querySelector("main").dataset.known = sign !== "?" ? "all" : link.kind !== "lost" && state.at !== null && !state.leading && !state.stale && age <= lateAfter(state) ? "nodes" : "nothing";
  const title = `${sign} ${text} · resource-slack`.trim();
  if (document.title !== title) {
    document.title = title;
    document.getElementById("headline").replaceChildren(sign === "" ? "" : make("span", { class: `sign ${SIGNS[sign] ?? "muted"}`, "aria-hidden": "true" }, sign), sign === "" ? text : ` ${text}`);
  }
  const subline = document.getElementById("subline");
  if (state.at === null) subline.textContent = state.stale || "Waiting for the first look at the cluster.";
  else subline.replaceChildren("Figures of ", time(state.at), `, ${ago(state.at, nowSeconds)} ago`);
  showNotices(state, age);
}

function showNotices(state, age) {
  const notices = [];
  if (state.at !== null && vacant(state)) {
    notices.push(make("p", { class: "notice", role: "status" }, "Nobody keeps the slack up since ", time(state.vacantSince), ". ", ...remedy(state.vacantRemedy, "OperatorAbsent")));
  } else if (state.at !== null && !state.leading) {
    const pod = state.leader;
    notices.push(make("p", { class: "notice", role: "status" },
      pod ? `The leader is ${pod}: it has the plans and knows what is reserved. Stop forwarding to this pod, open the leader's page by ` : "Nobody is known to lead just now; plans come when somebody does.",
      pod ? make("code", {}, `kubectl port-forward -n ${state.namespace} pod/${pod} ${state.port}`) : null,
      pod ? " and load this page anew." : null));
  }
  if (state.at !== null && state.stale) {
    notices.push(make("p", { class: "notice", role: "status" }, `Nothing is planned: ${state.stale}. What stands below is older. `, ...remedy(state.staleRemedy, "NotWhole")));
  } else if (age > lateAfter(state)) {
    notices.push(make("p", { class: "notice", role: "status" }, `What stands below is of ${lasting(age)} ago; there should be new figures every ${state.intervalSeconds} s. `, ...remedy(`see its log (kubectl logs -n ${state.namespace} ${state.identity}) and its /healthz`, "NotWhole")));
  }
  const place = document.getElementById("notices");
  const text = notices.map((one) => one.textContent).join();
  if (place.dataset.text !== text) {
    place.dataset.text = text;
    place.replaceChildren(...notices);
  }
}

/** What to do, and where it is explained. */
function remedy(text, reason) {
  if (!text) return [];
  return [make("strong", {}, "What to do: "), `${text}. `, make("a", { href: `/help#${reason}` }, `More about ${reason}`)];
}

function total(policies, resource, field) {
  let sum = 0;
  for (const policy of policies) for (const one of policy.amounts) if (one.resource === resource) sum += one[field];
  return sum;
}

function reserved(policies, resource) {
  const [part, whole] = share(resource, total(policies, resource, "reserved"), total(policies, resource, "desired")).split(" of ");
  return [part, `of ${whole} desired`];
}

export function showFigures(state) {
  const policies = state.policies;
  const instants = policies.filter((one) => one.instant !== null);
  const worst = instants.reduce((low, one) => (low === null || one.instant < low.instant ? one : low), null);
  const cost = totalCost(policies);
  const pending = policies.reduce((sum, one) => sum + one.pending, 0);
  const bound = policies.reduce((sum, one) => sum + one.bound, 0);
  const figures = [
    ["Reserved cpu", ...reserved(policies, "cpu")],
    ["Reserved memory", ...reserved(policies, "memory")],
    ["Placeholders", `${bound}`, pending ? `${pending} without capacity` : bound ? "all have their capacity" : "none"],
    ["Instant starts", worst === null ? "–" : percent(worst.instant), worst === null ? "no pod has started yet" : instants.length > 1 ? `lowest: ${worst.name}` : "of pods, in the last hour"],
    ["Cost", ...(cost ?? ["–", "no node to count by"])],
    ["Nodes", state.nodes.toLocaleString("en"), policies.length ? count(policies.length, "policy", "policies") : "no policy"],
  ];
  if (state.at !== null && !state.leading) {
    for (const one of figures) if (one[0] !== "Nodes") one.splice(1, 2, "–", vacant(state) ? "nobody knows" : "the leader knows");
    figures.at(-1)[2] = "in the cluster";
  }
  document.getElementById("figures").replaceChildren(...figures.map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, more)))));
}

export function showPolicies(state) {
  const place = document.getElementById("policy-list");
  if (state.policies.length === 0) {
    const why = state.at === null ? "None yet." : state.leading ? "None can be planned for." : vacant(state) ? "Nobody plans: no operator leads." : "A standby makes no plans: see the leader's page.";
    place.replaceChildren(make("p", { class: "empty" }, why));
    return;
  }
  const key = JSON.stringify([state.policies, [...opened]]);
  if (place.dataset.key === key) return; // what is focused or selected stays so
  place.dataset.key = key;
  const focused = document.activeElement?.dataset?.condition;
  const unfolded = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.policy));
  place.replaceChildren(...state.policies.map((policy) => policyElement(policy, state, unfolded)));
  if (focused) place.querySelector(`[data-condition="${CSS.escape(focused)}"]`)?.focus();
}

const exactPercent = (share) => `${Number((share * 100).toPrecision(4))}%`;

/** Sign, class and word of a policy as a whole. */
function verdict(policy) {
  if (policy.idle) return ["–", "muted", "Nothing to do yet"];
  if (!policy.ready) return ["!", "bad", "Not ready"];
  if (!policy.slack.calm) return ["!", "bad", policy.satisfied ? "Ready, and something is wrong" : "Room is missing"];
  if (!policy.satisfied) return ["…", "muted", `Ready, ${calmWords(policy)}`];
  return ["✓", "good", "Ready, all room is there"];
}

function policyElement(policy, state, unfolded) {
  const ready = policy.conditions.find((one) => one.type === "Ready");
  const room = policy.conditions.find((one) => one.type === "SlackSatisfied");
  const troubles = policy.idle ? [] : troublesOf(policy);
  const facts = policy.planned ? `${policy.objective ? `for ${exactPercent(policy.objective)}` : exactPercent(policy.rate)} · ${count(policy.nodes, "node")} · takes a burst of ${count(policy.burst, "placeholder")}` : "its spec cannot be used";
  const [sign, kind, word] = verdict(policy);
  const message = policy.idle ? `There is nothing to keep room for yet: ${policy.idle}.` : troubles.length ? "" : (policy.satisfied && !policy.limit ? ready : room)?.message ?? "";
  const element = make("article", { class: "policy", "data-policy": policy.name },
    make("div", { class: "policy-head" },
      make("h3", {}, make("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign), ` ${policy.name}`),
      make("span", { class: kind }, word),
      make("a", { class: "tag", href: `/help#${policy.slack.name}` }, policy.slack.name),
      policy.builtIn ? make("span", { class: "tag" }, "built in") : null,
      policy.unbound ? make("span", { class: "tag" }, "unbound: their pods are Pending on purpose") : null,
      policy.dryRun ? make("span", { class: "tag" }, "dry run: nothing is written") : null,
      make("span", { class: "facts" }, facts)),
    ...troubles,
    message ? make("p", { class: "message muted" }, message) : null,
    policy.why ? make("p", { class: "message muted" }, `Why this much: ${[policy.why, message.includes(policy.limit) ? "" : policy.limit].filter(Boolean).join("; ")}.`) : null,
    policy.cost ? make("p", { class: "message muted" }, `It costs ${policy.cost.text}${policy.spared ? `; ${policy.spared}` : ""}.`) : null,
    policy.surplus ? make("p", { class: "message muted" }, `It holds ${policy.surplus}.`) : null,
    policy.buffered ? make("p", { class: "message muted" }, `CapacityBuffers keep ${policy.buffered} of it (cpu/memory).`) : null,
    policy.timeToReady ? timeToReady(policy.timeToReady) : null,
    make("div", { class: "bars" }, ...policy.amounts.map((one) => bar(one))),
    conditions(policy, state));
  if (policy.shapes.length || policy.uncovered.length) element.append(more(policy, unfolded));
  return element;
}

const seconds = (value) => (value < 9.95 ? `${value.toFixed(1)} s` : `${Math.round(value).toLocaleString("en")} s`);

/** From creation to Ready: percentiles, and the workloads that take longest. */
function timeToReady(times) {
  const slow = times.workloads.map((one) => {
    const image = one.image === null ? "" : `, image there after ${seconds(one.image)}${one.pulled ? ` (${one.pulled} pulled)` : ""}`;
    return make("li", {}, `${one.workload}: bound after ${seconds(one.bound)}${image}, started after ${seconds(one.started)}, Ready after ${seconds(one.ready)}; p99 ${seconds(one.p99)} of ${count(one.pods, "pod")}`);
  });
  return make("div", { class: "message muted" }, make("p", {}, `From creation to Ready: ${times.text}.`), slow.length ? make("ul", {}, ...slow) : null);
}

/** What is wrong, each thing once: where a policy is blocked, several conditions say so in the same words. */
function troublesOf(policy) {
  const told = new Map();
  for (const one of policy.conditions) {
    if (one.level !== "trouble") continue;
    const same = `${one.reason} ${one.message}`;
    if (told.has(same)) told.get(same).also.push(one.said);
    else told.set(same, { ...one, also: [one.said] });
  }
  return [...told.values()].map((one) => make("div", { class: "notice problem" },
    make("p", {}, make("strong", {}, `${one.also.join(", ")}: `), one.message),
    make("p", {}, ...(one.remedy ? remedy(one.remedy, one.reason) : [make("a", { href: `/help#${one.reason}` }, `More about ${one.reason}`)]))));
}

function bar(one) {
  const filled = one.desired > 0 ? Math.min(1, one.reserved / one.desired) : one.reserved > 0 ? 1 : 0;
  const fill = make("i");
  fill.style.width = `${filled * 100}%`;
  return make("div", { class: "bar-row" }, make("span", {}, one.resource), make("div", { class: "meter", "aria-hidden": "true" }, fill),
    make("span", { class: "num" }, share(one.resource, one.reserved, one.desired)));
}

function conditions(policy, state) {
  const holder = make("div");
  const list = make("ul", { class: "conditions", "aria-label": `Conditions of ${policy.name}` });
  const texts = [];
  policy.conditions.forEach((one) => {
    const key = `${policy.name}/${one.type}`;
    const kind = one.level === "good" ? "good" : one.level === "note" || policy.idle ? "idle" : "bad";
    const button = make("button", { type: "button", class: kind, "aria-expanded": String(opened.has(key)), "data-condition": key },
      make("span", { "aria-hidden": "true" }, `${{ good: "✓", idle: "–", bad: "!" }[kind]} `), one.said);
    button.addEventListener("click", () => {
      if (!opened.delete(key)) opened.add(key);
      showPolicies(state);
      document.querySelector(`[data-condition="${CSS.escape(key)}"]`)?.focus();
    });
    list.append(make("li", {}, button));
    if (opened.has(key)) {
      texts.push(make("p", { class: "condition-text" }, make("strong", {}, `${one.type} is ${one.status}: ${one.reason}`), ", since ", time(Date.parse(one.since) / 1000), ` — ${one.message}. `,
        ...(one.remedy ? remedy(one.remedy, one.reason) : [])));
    }
  });
  holder.append(list, ...texts);
  return holder;
}

function more(policy, unfolded) {
  const rows = policy.shapes.map((one) => make("tr", {},
    make("td", {}, one.name), make("td", {}, [one.role, one.unbound ? "unbound" : "", one.retiring ? "retiring" : ""].filter(Boolean).join(", ")), make("td", {}, requests(one.requests)),
    make("td", { class: "num" }, String(one.count)), make("td", { class: "num" }, String(one.bound)), make("td", { class: "num" }, String(one.pending)),
    make("td", { class: "wrap" }, one.workloads.join(", ") || "–")));
  const titles = [["Shape", ""], ["Role", ""], ["Requests", ""], ["Planned", "num"], ["With capacity", "num"], ["Without", "num"], ["Makes room for", ""]];
  const table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Shapes of ${policy.name}` }, make("table", {},
    make("thead", {}, make("tr", {}, ...titles.map(([title, kind]) => make("th", { scope: "col", class: kind }, title)))),
    make("tbody", {}, ...rows)));
  const left = policy.uncovered.map((one) => make("li", {}, `${one.pod}: ${one.reason}`));
  if (policy.moreUncovered) left.push(make("li", {}, `and ${policy.moreUncovered} more`));
  const holes = policy.uncovered.length ? `, ${count(policy.uncovered.length + policy.moreUncovered, "workload")} without room` : "";
  return make("details", { "data-policy": policy.name, open: unfolded.has(policy.name) },
    make("summary", {}, `${count(policy.shapes.length + policy.moreShapes, "shape")}${holes}`),
    policy.shapes.length ? table : null,
    policy.moreShapes ? make("p", { class: "muted small" }, `and ${policy.moreShapes} more`) : null,
    left.length ? make("p", { class: "small" }, "No capacity is kept for:") : null,
    left.length ? make("ul", { class: "small" }, ...left) : null);
}
