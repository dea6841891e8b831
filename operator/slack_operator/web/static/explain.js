// The form that asks which placeholder makes room for a workload.

import { get } from "./live.js";

export function setUpExplain() {
  const form = document.getElementById("explain");
  const output = document.getElementById("explanation");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = new URLSearchParams(new FormData(form));
    output.textContent = "…";
    try {
      output.textContent = (await get(`/api/explain?${asked}`)).text;
    } catch (problem) {
      output.textContent = problem.message;
    }
  });
}
