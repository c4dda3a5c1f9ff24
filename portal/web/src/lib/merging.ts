// Two people edit one thing in forms: what each of them has changed, field by field, and what comes of it.
import { alike as same } from "../kube/merge";

/** What becomes of a field that both have changed. */
export type Choice = "mine" | "theirs" | "both";

/** A field that is not what it was when the form was opened. */
export interface Difference {
  /** Where it is: `["quota", "cpu"]`. */
  path: string[];
  base: unknown;
  mine: unknown;
  theirs: unknown;
  /** Who has changed it: `together` is a list whose items were changed by both, each item for itself. */
  whose: "mine" | "theirs" | "same" | "together" | "conflict";
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Forms and servers leave out what is empty. */
const nothing = (value: unknown): boolean => value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0) || (isMap(value) && Object.values(value).every(nothing));

const alike = (a: unknown, b: unknown): boolean => (nothing(a) && nothing(b)) || same(a, b);

const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** All fields that somebody has changed, in the order of what is stored. */
export function differences(base: unknown, mine: unknown, theirs: unknown, path: string[] = []): Difference[] {
  if (alike(mine, base) && alike(theirs, base)) return [];
  const all = [theirs, mine, base];
  if (all.some(isMap) && all.every((each) => isMap(each) || nothing(each))) {
    const keys = new Set(all.flatMap((each) => (isMap(each) ? Object.keys(each) : [])));
    const at = (value: unknown, key: string): unknown => (isMap(value) ? value[key] : undefined);
    return [...keys].flatMap((key) => differences(at(base, key), at(mine, key), at(theirs, key), [...path, key]));
  }
  const things = all.flatMap(list);
  const whose = alike(mine, theirs) ? "same" : alike(base, theirs) ? "mine" : alike(base, mine) ? "theirs" : things.length > 0 && things.every(isMap) ? "together" : "conflict";
  return [{ path, base, mine, theirs, whose }];
}

const has = (items: unknown[], wanted: unknown): boolean => items.some((each) => same(each, wanted));

/** Theirs, with what I have added, without what I have taken away. */
export function together({ base, mine, theirs }: Pick<Difference, "base" | "mine" | "theirs">): unknown[] {
  const kept = list(theirs).filter((each) => has(list(mine), each) || !has(list(base), each));
  return [...kept, ...list(mine).filter((each) => !has(list(base), each) && !has(list(theirs), each))];
}

/** Whether both lists can be had in one. */
export const canBeBoth = ({ mine, theirs }: Difference): boolean => list(mine).length > 0 && list(theirs).length > 0;

export const keyOf = ({ path }: Difference): string => path.join(".");

/** The value of a field in the merge; without a choice theirs stays where both have changed it. */
export function valueOf(each: Difference, choice: Choice | undefined): unknown {
  if (each.whose === "mine") return each.mine;
  if (each.whose === "together" || (each.whose === "conflict" && choice === "both")) return together(each);
  return each.whose === "conflict" && choice === "mine" ? each.mine : each.theirs;
}

function withValue(whole: unknown, [key, ...rest]: string[], value: unknown): unknown {
  if (key === undefined) return value;
  const { [key]: before, ...others } = isMap(whole) ? whole : {};
  const inner = withValue(before, rest, value);
  return inner === undefined ? others : { ...others, [key]: inner };
}

/** Theirs, with what I have changed and what was chosen. */
export function merged(base: unknown, mine: unknown, theirs: unknown, choices: Record<string, Choice>): unknown {
  return differences(base, mine, theirs).reduce((whole, each) => withValue(whole, each.path, valueOf(each, choices[keyOf(each)])), theirs);
}

/** `["memberQuota", "cpu"]` as people read it: `Member quota: cpu`. */
export function titleOf(path: string[]): string {
  const spaced = path.map((each) => each.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`));
  const [first = ""] = spaced;
  return [first.charAt(0).toUpperCase() + first.slice(1), ...spaced.slice(1)].join(": ");
}

/** A value of a field as people read it. */
export function textOf(value: unknown): string {
  if (nothing(value)) return "nothing";
  if (Array.isArray(value)) return value.map(textOf).join(", ");
  if (isMap(value)) return Object.values(value).map(textOf).join(" ");
  return typeof value === "string" ? value : JSON.stringify(value);
}
