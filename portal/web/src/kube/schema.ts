// What the fields of a kind mean: the environment's own OpenAPI document of a group and version, and where in a YAML text one is.

export interface Schema {
  $ref?: string;
  allOf?: Schema[];
  type?: string;
  format?: string;
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  required?: string[];
  enum?: unknown[];
  default?: unknown;
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
}

export interface OpenApi {
  components?: { schemas?: Record<string, Schema> };
}

/** A place in an object: names of fields, and `ITEM` for an item of a list. */
export const ITEM = Symbol("item");
export type Place = (string | typeof ITEM)[];

/** `apis/apps/v1` or `api/v1`: the name of the document of a group and version. */
export const documentOf = (group: string, version: string): string => (group === "" ? `api/${version}` : `apis/${group}/${version}`);

export function schemaOfKind(document: OpenApi, group: string, version: string, kind: string): Schema | undefined {
  return Object.values(document.components?.schemas ?? {}).find((schema) => schema["x-kubernetes-group-version-kind"]?.some((each) => each.group === group && each.version === version && each.kind === kind));
}

/** What a schema refers to, with what is said where it refers. */
export function resolved(document: OpenApi, schema: Schema | undefined): Schema | undefined {
  let now = schema;
  const said: Schema = {};
  for (let steps = 0; now && steps < 16; steps += 1) {
    // What stands nearer counts: a field is described where it is, then by its type.
    for (const key of ["description", "default"] as const) if (said[key] === undefined && now[key] !== undefined && now[key] !== "") said[key] = now[key] as never;
    const next: Schema | undefined = now.$ref === undefined ? now.allOf?.[0] : document.components?.schemas?.[now.$ref.split("/").at(-1) ?? ""];
    if (!next) return { ...now, ...said };
    now = next;
  }
  return undefined;
}

/** The schema at a place; nothing where the document says nothing. */
export function schemaAt(document: OpenApi, root: Schema | undefined, place: Place): Schema | undefined {
  let now = resolved(document, root);
  for (const step of place) {
    if (!now) return undefined;
    if (step === ITEM) now = resolved(document, now.items);
    else now = resolved(document, now.properties?.[step] ?? (typeof now.additionalProperties === "object" ? now.additionalProperties : undefined));
  }
  return now;
}

/** How the type of a field is written: `string`, `[]object`, `map[string]string`, `int-or-string`. */
export function typeOf(document: OpenApi, schema: Schema | undefined): string {
  const found = resolved(document, schema);
  if (!found) return "";
  if (found["x-kubernetes-int-or-string"] === true || found.format === "int-or-string") return "int-or-string";
  if (found.type === "array") return `[]${typeOf(document, found.items)}`;
  if (typeof found.additionalProperties === "object") return `map[string]${typeOf(document, found.additionalProperties)}`;
  return found.type ?? (found.properties ? "object" : "any");
}

export interface Field {
  name: string;
  type: string;
  description: string;
  required: boolean;
}

/** The fields of an object, those that are needed first. */
export function fieldsOf(document: OpenApi, schema: Schema | undefined): Field[] {
  const all = Object.entries(schema?.properties ?? {}).map(([name, of]) => ({ name, type: typeOf(document, of), description: resolved(document, of)?.description ?? "", required: schema?.required?.includes(name) === true }));
  return all.sort((a, b) => Number(b.required) - Number(a.required) || (a.name < b.name ? -1 : 1));
}

/** What a field can be: choices, or true and false. */
export function valuesOf(schema: Schema | undefined): string[] {
  if (schema?.type === "boolean") return ["true", "false"];
  return (schema?.enum ?? []).map((each) => (typeof each === "string" ? each : JSON.stringify(each)));
}

interface Line {
  /** Columns of the dashes that it begins with. */
  dashes: number[];
  /** Column of its first character after them; of its end where there is none. */
  column: number;
  key: string | undefined;
  /** What follows the colon. */
  value: string;
  /** Column where that begins. */
  valueColumn: number;
  blank: boolean;
}

function read(text: string): Line {
  const dashes: number[] = [];
  let column = text.length - text.trimStart().length;
  while (/^-(\s|$)/.test(text.slice(column))) {
    dashes.push(column);
    const after = text.slice(column + 1);
    column += 1 + (after.length - after.trimStart().length);
  }
  const rest = text.slice(column);
  const found = /^(?:"([^"]*)"|'([^']*)'|([^\s"'#{[&*!|>%@`][^#]*?))\s*:(\s+|$)/.exec(rest);
  const key = found ? (found[1] ?? found[2] ?? found[3]) : undefined;
  const valueColumn = column + (found?.[0].length ?? 0);
  return { dashes, column, key, value: found ? text.slice(valueColumn).trim() : "", valueColumn, blank: rest === "" || rest.startsWith("#") };
}

export interface Spot {
  /** The object or list that one is in. */
  place: Place;
  /** The field whose name or value one is at. */
  key: string | undefined;
  /** Whether one is behind its colon. */
  atValue: boolean;
  /** Column where the name begins. */
  column: number;
  /** Names of fields that are in the same object already. */
  siblings: Set<string>;
}

/** Where in an object a place in its YAML is (block style, as the editor shows it); nothing inside of texts of several lines. */
export function spotAt(lines: string[], line: number, column: number): Spot | undefined {
  const here = read(lines[line] ?? "");
  const blank = here.blank && here.dashes.length === 0;
  // An empty line belongs to where one would write.
  const own = blank ? column : here.column;
  const place: Place = [];
  /** The column whose owner is looked for, and whether that is a list with its dashes there. */
  const now = { at: own, inList: false };
  const intoItems = (dashes: number[]): void => {
    for (const dash of [...dashes].reverse()) {
      if (dash >= now.at) continue;
      place.unshift(ITEM);
      now.at = dash;
      now.inList = true;
    }
  };
  intoItems(here.dashes);
  const siblings = new Set<string>();
  let direct = here.dashes.length === 0;
  for (let i = line - 1; i >= 0 && (now.at > 0 || now.inList); i -= 1) {
    const above = read(lines[i] ?? "");
    if (above.blank && above.dashes.length === 0) continue;
    if (direct && above.column === own && above.key !== undefined) siblings.add(above.key);
    const parent = above.key !== undefined && (now.inList ? above.column <= now.at && !above.dashes.includes(now.at) : above.column < now.at);
    if (parent && above.key !== undefined) {
      if (/^[|>]/.test(above.value)) return undefined;
      place.unshift(above.key);
      now.at = above.column;
      now.inList = false;
      direct = false;
      intoItems(above.dashes);
    } else if (!now.inList && above.dashes.length > 0 && above.column === now.at) {
      direct = false;
      intoItems(above.dashes);
    }
  }
  for (let i = line + 1; i < lines.length; i += 1) {
    const below = read(lines[i] ?? "");
    if (below.blank && below.dashes.length === 0) continue;
    if (below.column < own || below.dashes.some((dash) => dash < own)) break;
    if (below.column === own && below.key !== undefined) siblings.add(below.key);
  }
  return { place, key: here.key, atValue: here.key !== undefined && column >= here.valueColumn, column: own, siblings };
}
