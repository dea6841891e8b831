// Amounts as Kubernetes writes them, rounded as the columns of `kubectl get slackpolicies`: `500m`, `3810m`, `1.2Gi`.

const KI = 2 ** 10, MI = 2 ** 20, GI = 2 ** 30;

export function isBytes(resource) {
  return resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
}

/** To the nearest whole number, and a tie to the even one, as the operator rounds. */
function even(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

/** An amount with three digits; cpu comes in millicores, all else in base units. */
export function amount(resource, value) {
  if (resource === "cpu") {
    const step = 10 ** Math.max(0, String(Math.abs(value)).length - 3);
    const millis = even(value / step) * step;
    return millis % 1000 ? `${millis}m` : String(millis / 1000);
  }
  if (!isBytes(resource)) return String(value);
  if (value < 0) return `-${amount(resource, -value)}`;
  if (value >= 100 * GI) return `${even(value / GI)}Gi`;
  if (value >= GI) return `${even((value * 10) / GI) / 10}Gi`;
  return value >= MI ? `${even(value / MI)}Mi` : value ? `${even(value / KI)}Ki` : "0";
}

/** `reserved of desired`, in the same unit, so that they can be compared: `2000m of 1700m`. */
export function share(resource, part, whole) {
  const texts = [amount(resource, part), amount(resource, whole)];
  if (resource !== "cpu" || !texts.some((text) => text.endsWith("m"))) return texts.join(" of ");
  return [part, whole].map((value, index) => (value === 0 || texts[index].endsWith("m") ? texts[index] : `${Number(texts[index]) * 1000}m`)).join(" of ");
}

/** Requests by resource, whose amounts are texts already: `500m cpu, 1Gi memory`. */
export function requests(amounts) {
  return Object.entries(amounts).map(([name, value]) => `${value} ${name}`).join(", ") || "nothing";
}
