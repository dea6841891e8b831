// The connection to the operator: the first state, then a stream of states; when it breaks, it is tried again.

const LONGEST_WAIT = 30000;

export class Refused extends Error {}

export async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (answer.status === 401) {
    location.assign("/login");
    throw new Refused("a token is needed");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(body.error ?? `the operator answered ${answer.status}`);
  return body;
}

/** Calls `onFirst` with state and timeline at each (re)connection, `onState` with each state, `onLink` with how it stands. */
export function connect({ onFirst, onState, onLink }) {
  let wait = 1000;
  let timer = 0;
  let source = null;

  async function open() {
    clearTimeout(timer);
    try {
      onFirst(await get("/api/state"));
    } catch (problem) {
      lost(problem instanceof Refused ? problem.message : "the operator does not answer");
      return;
    }
    source = new EventSource("/api/events");
    source.addEventListener("open", () => {
      wait = 1000;
      onLink("live", "");
    });
    source.addEventListener("state", (event) => onState(JSON.parse(event.data)));
    source.addEventListener("error", () => lost("the connection broke"));
  }

  function lost(why) {
    source?.close();
    source = null;
    onLink("lost", `${why}; trying again`);
    clearTimeout(timer);
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }

  addEventListener("online", () => { if (source === null) open(); });
  open();
}
