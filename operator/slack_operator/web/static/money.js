// What slack costs, in money where every node that counts has a price, else as nodes. No elements here.

const HOURS_PER_MONTH = 730;

/** A figure with three digits, or all those before the point. */
export function figure(value) {
  return Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** The value and the words after it, of policies together; null where nothing is known of any. */
export function totalCost(policies) {
  const costs = policies.filter((policy) => policy.cost).map((policy) => policy.cost);
  if (costs.length === 0) return null;
  const priced = costs.every((cost) => cost.perHour !== null && cost.currency === costs[0].currency);
  const hour = costs.reduce((sum, cost) => sum + (priced ? cost.perHour : cost.nodes), 0);
  const unit = priced ? costs[0].currency : "";
  const month = [figure(hour * HOURS_PER_MONTH), unit].filter(Boolean).join(" ");
  return priced ? [[figure(hour), unit].filter(Boolean).join(" "), `per hour, ${month} per month`] : [figure(hour), figure(hour) === "1" ? "node" : "nodes"];
}

/** What whole nodes cost, given how many of each policy; `names` maps to counts. */
export function nodesCost(counts, policies) {
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const costs = [...counts.keys()].map((name) => policies.find((policy) => policy.name === name)?.cost);
  if (costs.every((cost) => cost && cost.nodePerHour !== null && cost.currency === costs[0].currency)) {
    const hour = [...counts.values()].reduce((sum, count, index) => sum + count * costs[index].nodePerHour, 0);
    const unit = costs[0].currency ? ` ${costs[0].currency}` : "";
    return `${figure(hour)}${unit} per hour, ${figure(hour * HOURS_PER_MONTH)}${unit} per month`;
  }
  return `${total.toLocaleString("en")} ${total === 1 ? "node" : "nodes"}`;
}
