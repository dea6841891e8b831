// Placeholders that were displaced, the newest first, as they go.

import { make, time } from "./format.js";

const CAUSES = {
  PreemptionByScheduler: "made room for a real pod",
  Deleted: "was deleted from outside",
  NodeOvercommitted: "was taken off a node that real pods fill",
  Unseen: "went while the watch was broken",
};

let newest = null;

export function showDisplaced(displaced) {
  const top = displaced.length ? displaced[0].number : 0;
  if (top === newest) return;
  const before = newest;
  newest = top;
  document.getElementById("displaced-none").hidden = displaced.length > 0;
  document.getElementById("displaced").replaceChildren(...displaced.map((one) =>
    make("li", { class: before !== null && one.number > before ? "new" : "", "data-number": one.number },
      time(one.at),
      make("span", {}, `${one.pod} (${one.policy}) ${CAUSES[one.cause] ?? one.cause}${one.node ? ` on ${one.node}` : ""}`))));
}
