import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Changed, putNew, replace, replaceAnyway } from "./edit";

interface Doc {
  name: string;
  title: string;
  members: { name: string }[];
  revision: number;
}

const settingsOf = ({ title, members }: Doc) => ({ title, members });
/** What the server has; `before` runs before it looks at a change. */
let stored: Doc | undefined;
let before: () => void;

beforeEach(() => {
  stored = { name: "shop", title: "shop", members: [], revision: 3 };
  before = () => undefined;
  vi.stubGlobal("fetch", (_path: string, { headers, body }: { headers: Headers; body: string }) => {
    before();
    const asked = headers.get("if-match") ?? "";
    const refused = headers.get("if-none-match") === "*" ? stored !== undefined : asked !== `"${stored?.revision ?? 0}"`;
    if (refused) return Promise.resolve(new Response(JSON.stringify({ status: 412, type: "changed", detail: "changed", requestId: "1", current: stored }), { status: 412 }));
    stored = { ...(JSON.parse(body) as Doc), name: "shop", revision: (stored?.revision ?? 0) + 1 };
    return Promise.resolve(new Response("{}"));
  });
});
afterEach(() => vi.unstubAllGlobals());

const opened = (): Doc => ({ name: "shop", title: "shop", members: [], revision: 3 });
const caughtOf = async (what: Promise<void>): Promise<unknown> => what.then(() => undefined, (caught: unknown) => caught);

test("a form that was opened before another change does not overwrite it, however often it is sent", async () => {
  stored = { ...opened(), title: "theirs", revision: 4 };
  for (let i = 0; i < 2; i += 1) {
    const caught = await caughtOf(replace("/x", opened(), { title: "mine", members: [] }, settingsOf));
    expect(caught).toBeInstanceOf(Changed);
    expect(caught).toMatchObject({ base: { title: "shop" }, mine: { title: "mine" }, theirs: { title: "theirs" } });
  }
  expect(stored.title).toBe("theirs");
});

test("a merge is sent with the revision that it was made from", async () => {
  stored = { ...opened(), title: "theirs", revision: 4 };
  const first = (await caughtOf(replace("/x", opened(), { title: "mine", members: [] }, settingsOf))) as Changed;
  // A third person is faster than the one who merges.
  stored = { ...stored, title: "third", revision: 5 };
  const merge = { now: first.now, settings: { title: "mine", members: [] } };
  const second = await caughtOf(replace("/x", opened(), { title: "mine", members: [] }, settingsOf, merge));
  expect(second).toMatchObject({ base: { title: "theirs" }, mine: { title: "mine" }, theirs: { title: "third" } });
  await replace("/x", opened(), { title: "mine", members: [] }, settingsOf, { ...merge, now: (second as Changed).now });
  expect(stored).toMatchObject({ title: "mine", revision: 6 });
});

test("a member more is a member more, whoever else was added", async () => {
  let left = 2;
  before = () => {
    if (left > 0 && stored) stored = { ...stored, members: [...stored.members, { name: `other-${left}` }], revision: stored.revision + 1 };
    left -= 1;
  };
  await replaceAnyway("/x", opened(), { title: "shop", members: [{ name: "mine" }] }, settingsOf);
  expect(stored?.members.map((each) => each.name)).toEqual(["other-2", "other-1", "mine"]);
});

test("what was deleted is not made again, what is there is not made anew", async () => {
  stored = undefined;
  expect(await caughtOf(replace("/x", opened(), { title: "mine", members: [] }, settingsOf))).toMatchObject({ message: "Somebody else has deleted this meanwhile." });
  await putNew("/x", { title: "first" });
  await expect(putNew("/x", { title: "second" })).rejects.toThrow("made one of that name");
  expect(stored).toMatchObject({ title: "first" });
});
