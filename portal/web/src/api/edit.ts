// Documents that people edit in forms: changed only as they were when the form was opened. Where somebody else was faster both changes are
// merged (lib/merging.ts) and sent with the revision that is there now.
import { differences, merged } from "../lib/merging";
import { Problem, send } from "./client";

/** Somebody else has changed what a form was opened with; nothing was written. */
export class Changed extends Error {
  readonly base: object;
  readonly mine: object;
  readonly theirs: object;
  /** The whole document as it is now. */
  readonly now: unknown;

  constructor(base: object, mine: object, theirs: object, now: unknown) {
    super("Somebody else has changed this meanwhile");
    this.name = "Changed";
    this.base = base;
    this.mine = mine;
    this.theirs = theirs;
    this.now = now;
  }
}

/** What came of a merge, and the document that it replaces. */
export interface Merge {
  now: unknown;
  settings: unknown;
}

/**
 * Replaces a document by what a form has made of it. `merge` is what a person has chosen after a `Changed`.
 *
 * Throws `Changed` with what is there now when it is not what the form was opened with.
 */
export async function replace<D extends { revision: number }, S extends object>(path: string, opened: D, mine: S, settingsOf: (document: D) => S, merge?: Merge): Promise<void> {
  const from = (merge?.now ?? opened) as D;
  const wanted = (merge?.settings ?? mine) as S;
  try {
    await send(path, { method: "PUT", json: wanted, headers: { "if-match": `"${from.revision}"` } });
  } catch (caught) {
    if (!(caught instanceof Problem) || caught.status !== 412) throw caught;
    if (caught.current === undefined) throw new Error("Somebody else has deleted this meanwhile.", { cause: caught });
    const now = caught.current as D;
    throw new Changed(settingsOf(from), wanted, settingsOf(now), now);
  }
}

/** As `replace`, for a change that means the same whatever else was changed (a member more): merged without a question unless one must be asked. */
export async function replaceAnyway<D extends { revision: number }, S extends object>(path: string, opened: D, mine: S, settingsOf: (document: D) => S, given?: Merge): Promise<void> {
  let merge = given;
  for (let tries = 0; ; tries += 1) {
    try {
      await replace(path, opened, mine, settingsOf, merge);
      return;
    } catch (caught) {
      if (!(caught instanceof Changed) || tries >= 5) throw caught;
      const { base, mine: ours, theirs, now } = caught;
      if (differences(base, ours, theirs).some((each) => each.whose === "conflict")) throw caught;
      merge = { now, settings: merged(base, ours, theirs, {}) };
    }
  }
}

/** Makes a document that is not there yet: one of that name is never overwritten. */
export async function putNew(path: string, body: object): Promise<Response> {
  try {
    return await send(path, { method: "PUT", json: body, headers: { "if-none-match": "*" } });
  } catch (caught) {
    if (caught instanceof Problem && caught.status === 412) throw new Error("Somebody else has made one of that name meanwhile.", { cause: caught });
    throw caught;
  }
}
