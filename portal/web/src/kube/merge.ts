// Two people changed one object: what one changed is laid over what the other stored.

export interface Merged {
  value: unknown;
  /** Places that both have changed, differently: mine is kept there. */
  conflicts: string[];
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether two values of JSON are alike; the order of keys says nothing. */
export function alike(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((each, index) => alike(each, b[index]));
  if (!isMap(a) || !isMap(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && alike(a[key], b[key]));
}

/** What `mine` changed of `base`, in `theirs`. Lists are changed as a whole: who else is in them cannot be told without their schema. */
export function merge(base: unknown, mine: unknown, theirs: unknown, path = ""): Merged {
  if (alike(mine, theirs) || alike(base, mine)) return { value: theirs, conflicts: [] };
  if (alike(base, theirs)) return { value: mine, conflicts: [] };
  if (!isMap(mine) || !isMap(theirs)) return { value: mine, conflicts: [path === "" ? "everything" : path] };
  const before = isMap(base) ? base : {};
  const conflicts: string[] = [];
  const entries: [string, unknown][] = [];
  // In the order of what is stored, then what is new here.
  for (const key of new Set([...Object.keys(theirs), ...Object.keys(mine)])) {
    const part = merge(before[key], mine[key], theirs[key], path === "" ? key : `${path}.${key}`);
    conflicts.push(...part.conflicts);
    if (part.value !== undefined) entries.push([key, part.value]);
  }
  return { value: Object.fromEntries(entries), conflicts };
}
