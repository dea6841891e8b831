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
  if (!state.leading) return "this is a standby";
  if (state.stale) return "the operator's view of the cluster is not whole";
  if (ageSeconds > lateAfter(state)) return `no new figures for ${lasting(ageSeconds)}`;
  return "";
}

/** A sign and a sentence. */
export function answerOf(state, ageSeconds, link) {
  const why = unknown(state, ageSeconds, link);
  if (why) return ["?", `Not known: ${why}`];
  if (state.at === null) return ["", "Looking at the cluster …"];
  const all = state.policies.length;
  const idle = state.policies.filter((one) => one.idle);
  const missing = state.policies.filter((one) => !one.ready && !one.idle).length;
  if (all === 0) return ["!", "There is no policy"];
  if (idle.length === all) return ["–", `Nothing to keep room for yet: ${idle[0].idle}`];
  if (missing === 0) return ["✓", all === 1 ? "Your slack is there" : `Your slack is there, in all ${all} policies`];
  return ["!", all === 1 ? "Your slack is not all there" : `Slack is missing in ${missing} of ${all} policies`];
}
