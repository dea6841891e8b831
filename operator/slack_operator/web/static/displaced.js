// Placeholders that were displaced, the newest first, as they go.

import { make, time } from "./format.js";

const CAUSES = {
  PreemptionByScheduler: "made room for a real pod",
  PreemptionByResize: "made room for a pod that grows",
  MadeWay: "made way for a burst",
  Deleted: "was deleted from outside",
  NodeOvercommitted: "was taken off a node that real pods fill",
  Unseen: "went while the watch was broken",
};

let newest = null;

export function showDisplaced({ displaced, leading, at, policies }) {
  const total = policies.reduce((sum, policy) => sum + Object.values(policy.displaced).reduce((a, b) => a + b, 0), 0);
  const counted = document.getElementById("displaced-total");
  const all = total ? `${total.toLocaleString("en")} since this process began. ` : "";
  if (counted.textContent !== all) counted.textContent = all;
  const none = document.getElementById("displaced-none");
  const text = leading || at === null ? "None since this process began." : "A standby cannot tell them from what the leader takes away itself: see the leader's page.";
  if (none.textContent !== text) none.textContent = text;
  const top = displaced.length ? displaced[0].number : 0;
  if (top === newest) return;
  const before = newest;
  newest = top;
  none.hidden = displaced.length > 0;
  document.getElementById("displaced-scroll").hidden = displaced.length === 0;
  document.getElementById("displaced").replaceChildren(...displaced.map((one) =>
    make("li", { class: before !== null && one.number > before ? "new" : "", "data-number": one.number },
      time(one.at),
      make("span", {}, `${one.pod} (${one.policy}) ${CAUSES[one.cause] ?? one.cause}${one.node ? ` on ${one.node}` : ""}`))));
}
