// The connection to the operator: the first state, then a stream of states; when it breaks, it is tried again.

import { Since } from "./since.js";

const LONGEST_WAIT = 30000;
const LONGEST_ANSWER = 15000;
const LONGEST_SILENCE = 25000; // the operator says something every 16 s at least

export class Refused extends Error {}

export async function get(path) {
  const options = { headers: { Accept: "application/json" }, credentials: "same-origin", signal: AbortSignal.timeout(LONGEST_ANSWER) };
  const answer = await fetch(path, options).catch(() => { throw new Error("the operator does not answer"); });
  if (answer.status === 401) {
    location.assign("/login");
    throw new Refused("a token is needed");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(body.error ?? `the operator answered ${answer.status}`);
  return body;
}

/**
 * Calls `onFirst` with state and timeline at each (re)connection, `onState` with each state, `onLink` with how it
 * stands. Returns how many seconds ago the operator was last heard.
 */
export function connect({ onFirst, onState, onLink }) {
  let wait = 1000;
  let timer = 0;
  let silence = 0;
  let source = null;
  let opening = false;
  let heard = new Since();

  function listen() {
    heard = new Since();
    clearTimeout(silence);
    silence = setTimeout(() => lost("nothing has come for a while"), LONGEST_SILENCE);
  }

  async function open() {
    if (opening || source !== null) return;
    clearTimeout(timer);
    opening = true;
    try {
      const first = await get("/api/state");
      listen();
      onFirst(first);
    } catch (problem) {
      lost(problem instanceof Refused ? problem.message : "the operator does not answer");
      return;
    } finally {
      opening = false;
    }
    source = new EventSource("/api/events");
    source.addEventListener("open", () => {
      wait = 1000;
      listen();
      onLink("live", "");
    });
    source.addEventListener("state", (event) => {
      listen();
      onState(JSON.parse(event.data));
    });
    source.addEventListener("alive", listen);
    source.addEventListener("error", () => lost("the connection broke"));
  }

  function lost(why) {
    source?.close();
    source = null;
    onLink("lost", `${why}; trying again`);
    clearTimeout(silence);
    clearTimeout(timer);
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }

  addEventListener("online", open);
  open();
  return () => heard.seconds;
}
