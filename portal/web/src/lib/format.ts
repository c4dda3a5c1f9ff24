// How values are written for people.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds as Kubernetes' clients write ages: `42s`, `5m`, `3h`, `12d`. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 2 * MINUTE) return `${s}s`;
  if (s < 2 * HOUR) return `${Math.floor(s / MINUTE)}m`;
  if (s < 2 * DAY) return `${Math.floor(s / HOUR)}h`;
  return `${Math.floor(s / DAY)}d`;
}

export function age(time: string, now: number): string {
  return duration((now - Date.parse(time)) / 1000);
}

/** Milliseconds between two times: `0.4 s`, `12 s`, `3 min`. */
export function elapsed(from: string, to: string | number): string {
  const ms = (typeof to === "number" ? to : Date.parse(to)) - Date.parse(from);
  if (ms < 10_000) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function moment(time: string): string {
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? time : exact.format(parsed);
}

/** Bytes in binary units. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let amount = value;
  let unit = 0;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount >= 100 || unit === 0 ? Math.round(amount) : amount.toFixed(1)} ${units[unit] ?? ""}`;
}

/** Thousandths of a core. */
export function cores(millis: number): string {
  return millis % 1000 === 0 ? `${millis / 1000}` : (millis / 1000).toFixed(1);
}

/** A word of a shell command, quoted when it needs to be. */
export function shell(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
