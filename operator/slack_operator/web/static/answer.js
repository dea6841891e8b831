// Is my slack there? The one answer, made of a state, of its age and of how the connection stands. No elements in here.

import { lasting } from "./format.js";

const LATE_SECONDS = 10; // beside two intervals

/** The age from which figures answer for nothing any more. */
export function lateAfter(state) {
  return 2 * state.intervalSeconds + LATE_SECONDS;
}

/** Why nobody knows, "" when the state can be believed; `link` has `kind` and `silentSeconds`. */
export function unknown(state, ageSeconds, link) {
  if (link.kind === "lost") return link.silentSeconds < 5 ? "the connection is lost" : `no answer for ${lasting(link.silentSeconds)}`;
  if (state.at === null) return "";
  if (!state.leading) return vacant(state) ? "no operator leads" : "this is a standby";
  if (state.stale) return "the operator's view of the cluster is not whole";
  if (ageSeconds > lateAfter(state)) return `no new figures for ${lasting(ageSeconds)}`;
  return "";
}

/** Whether nobody leads, as far as this process sees. */
export function vacant(state) {
  return !state.leading && state.vacantSince !== undefined && state.vacantSince !== null;
}

/** A time in UTC, with its day where it is not of today. */
function clock(unixSeconds, nowSeconds) {
  const iso = new Date(unixSeconds * 1000).toISOString();
  const today = new Date(nowSeconds * 1000).toISOString().slice(0, 10);
  return iso.startsWith(today) ? `${iso.slice(11, 19)} UTC` : `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;
}

/** A sign and a sentence. */
export function answerOf(state, ageSeconds, link) {
  const why = unknown(state, ageSeconds, link);
  const since = link.kind !== "lost" && state.at !== null && vacant(state) ? ` since ${clock(state.vacantSince, state.now)}` : "";
  if (why) return ["?", `Not known${since}: ${why}`];
  if (state.at === null) return ["", "Looking at the cluster …"];
  const all = state.policies.length;
  const idle = state.policies.filter((one) => one.idle);
  const asked = state.policies.filter((one) => !one.idle);
  const troubled = asked.filter((one) => !one.slack.calm);
  const missing = troubled.filter((one) => !(one.ready && one.satisfied));
  const waiting = asked.filter((one) => one.slack.calm && !one.satisfied);
  const capped = asked.filter((one) => one.slack.name === "CeilingReached");
  const inSome = (some) => (all === 1 ? "" : ` in ${some.length} of ${all} policies`);
  if (all === 0) return ["–", "There is no policy: no slack is kept"];
  if (idle.length === all) return ["–", `Nothing to keep room for yet: ${idle[0].idle}`];
  if (missing.length) return ["!", all === 1 ? "Your slack is not all there" : `Slack is missing${inSome(missing)}`];
  if (troubled.length) return ["!", `Your slack is there, and something is wrong${inSome(troubled)}`];
  if (waiting.length) return ["…", `Your slack is ${[...new Set(waiting.map(calmWords))].join(", or ")}${inSome(waiting)}`];
  if (capped.length) return ["✓", `Your slack is there, capped at the ceiling, as you asked${inSome(capped)}`];
  return ["✓", all === 1 ? "Your slack is there" : `Your slack is there, in all ${all} policies`];
}

const CALM = { Refilling: "being refilled", CeilingReached: "capped at the ceiling, as you asked", DryRun: "planned, and nothing is written: a dry run" };

/** What a policy's room is, where it is not all there and nobody has to do anything. */
export function calmWords(policy) {
  return CALM[policy.slack.name] ?? "not all there yet";
}
