// Formats values for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Formats a number of bytes, such as 1.5 GiB. */
export function bytes(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  let unit = 0;
  let value = Math.abs(n);
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${n < 0 ? "-" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** Parses a size such as 10GiB, 500 MB or 1048576. Returns NaN if it is none. */
export function parseBytes(text) {
  const found = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGTPE]?)(i?)B?\s*$/i.exec(text);
  if (!found) return NaN;
  const power = " KMGTPE".indexOf(found[2].toUpperCase() || " ");
  return Math.round(Number(found[1]) * (found[3] || !found[2] ? 1024 : 1000) ** power);
}

const number = new Intl.NumberFormat("en-US");

/** Formats a count with separators. */
export function count(n) {
  return n === null || n === undefined ? "–" : number.format(n);
}

/** Formats a number in few characters, such as 12.3k. */
export function short(n) {
  if (Math.abs(n) >= 1e9) return `${trim(n / 1e9)}G`;
  if (Math.abs(n) >= 1e6) return `${trim(n / 1e6)}M`;
  if (Math.abs(n) >= 1e4) return `${trim(n / 1e3)}k`;
  return trim(n);
}

function trim(n) {
  return Math.abs(n) >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toPrecision(2);
}

/** Formats a share, 0 to 1, in percent. */
export function percent(x) {
  return `${(x * 100).toFixed(x > 0 && x < 0.1 ? 1 : 0)} %`;
}

/** Formats a duration in seconds, such as 2.5 ms, 40 s or 3 d 4 h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(seconds < 0.01 ? 2 : 3)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a time in the time zone of the browser. */
export function date(time) {
  if (!time) return "–";
  const d = new Date(time);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Formats a time relative to now, such as 5 min ago or in 3 d. */
export function ago(time) {
  if (!time) return "never";
  const seconds = (Date.now() - new Date(time).getTime()) / 1000;
  const size = Math.abs(seconds);
  const text = size < 60 ? `${Math.round(size)} s` : size < 3600 ? `${Math.round(size / 60)} min`
    : size < 172800 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86400)} d`;
  if (size < 5) return "just now";
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/** Returns "1 object" or "2 objects". */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
