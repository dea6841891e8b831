// ActivationPools: what they have, what they may need soon, and why no capacity is kept for it.

import { ago, make } from "./format.js";

export function showPools({ pools, morePools, leading, now }) {
  const place = document.getElementById("pools");
  place.hidden = pools.length === 0;
  if (pools.length === 0) return;
  document.getElementById("pool-rows").replaceChildren(...pools.map((one) => make("tr", {},
    make("td", {}, one.name),
    make("td", { class: "num" }, one.wanted.toLocaleString("en")),
    make("td", { class: "num" }, one.most.toLocaleString("en")),
    make("td", { class: "num" }, one.announced.toLocaleString("en")),
    make("td", { class: "wrap" }, roomOf(one, leading)),
    make("td", {}, one.observed === null ? "–" : `${ago(one.observed, now)} ago`))));
  const more = document.getElementById("pools-more");
  const text = morePools ? `and ${morePools.toLocaleString("en")} more that announce no more than these` : "";
  if (more.textContent !== text) more.textContent = text;
}

function roomOf(pool, leading) {
  if (pool.lacking) return make("span", { class: "bad" }, `! ${pool.lacking}`);
  if (!leading) return "the leader knows";
  return pool.announced === 0 ? "none needed" : make("span", { class: "good" }, "✓ in the plan");
}
