// Shares, counts and times as people read them, and elements made without ever parsing text as HTML.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A share, rounded down, so that 100% means all. */
export function percent(share) {
  return `${Math.floor(share * 100 + 1e-9)}%`;
}

export function rounded(share) {
  return `${Math.round(share * 100)}%`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** A time in the reader's zone; in UTC when pointed at. */
export function time(unixSeconds) {
  const date = new Date(unixSeconds * 1000);
  const old = Date.now() - date.getTime() > 20 * 3600 * 1000;
  const iso = date.toISOString().slice(0, 19);
  return make("time", { datetime: `${iso}Z`, title: `${iso.replace("T", " ")} UTC` }, (old ? DAY : CLOCK).format(date));
}

/** Seconds that do not change all the time. */
export function lasting(seconds) {
  return ago(0, seconds < 60 ? Math.floor(seconds / 5) * 5 : seconds);
}

export function ago(unixSeconds, nowSeconds) {
  const seconds = Math.max(0, Math.round(nowSeconds - unixSeconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}
