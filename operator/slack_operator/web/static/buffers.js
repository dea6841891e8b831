// CapacityBuffers that are served here: how many chunks each asks for, has within all bounds, and fit now.

import { make } from "./format.js";

export function showBuffers({ buffers, moreBuffers, bufferServer }) {
  const place = document.getElementById("buffers");
  place.hidden = buffers.length === 0;
  if (buffers.length === 0) return;
  document.getElementById("buffer-server").textContent = bufferServer;
  document.getElementById("buffer-rows").replaceChildren(...buffers.map((one) => make("tr", {},
    make("td", {}, one.name),
    make("td", { class: "num" }, one.asked.toLocaleString("en")),
    make("td", { class: "num" }, one.replicas.toLocaleString("en")),
    make("td", { class: "num" }, one.fitting.toLocaleString("en")),
    make("td", { class: "wrap" }, stateOf(one)))));
  const more = document.getElementById("buffers-more");
  const text = moreBuffers ? `and ${moreBuffers.toLocaleString("en")} more that lack no more chunks than these` : "";
  if (more.textContent !== text) more.textContent = text;
}

function stateOf(buffer) {
  const limits = buffer.limits.length ? `; cut by ${buffer.limits.join("; ")}` : "";
  const text = `${buffer.reason}: ${buffer.message}${limits}`;
  if (buffer.reason === "FitsExistingCapacity") return make("span", { class: "good" }, `✓ ${text}`);
  if (["Infeasible", "NotReadyForProvisioning"].includes(buffer.reason)) return make("span", { class: "bad" }, `! ${text}`);
  return text;
}
