import { expect, test } from "vitest";
import { canBeBoth, differences, merged, textOf, titleOf } from "./merging";

const base = { title: "shop", allowedTemplates: ["blank"], quota: { cpu: "4", memory: "8Gi" }, members: [{ kind: "user", name: "a", role: "viewer" }] };
const whose = (mine: object, theirs: object): string[] => differences(base, { ...base, ...mine }, { ...base, ...theirs }).map((each) => `${each.path.join(".")} ${each.whose}`);

test("who has changed what is told by field", () => {
  expect(whose({}, {})).toEqual([]);
  expect(whose({ title: "mine" }, { allowedTemplates: [] })).toEqual(["title mine", "allowedTemplates theirs"]);
  expect(whose({ title: "mine" }, { title: "theirs" })).toEqual(["title conflict"]);
  expect(whose({ title: "one" }, { title: "one" })).toEqual(["title same"]);
  expect(whose({ quota: { cpu: "5", memory: "8Gi" } }, { quota: { cpu: "4" } }), "fields of a quota are fields").toEqual(["quota.cpu mine", "quota.memory theirs"]);
  expect(whose({ allowedImages: [] }, {}), "what is empty is not there").toEqual([]);
});

test("what only one has changed is in the merge, what both have is as it is chosen", () => {
  const mine = { ...base, title: "mine", quota: { cpu: "5", memory: "8Gi" }, allowedTemplates: ["blank", "web"] };
  const theirs = { ...base, title: "theirs", quota: { cpu: "4", storage: "1Gi" }, allowedTemplates: ["team-x"] };
  const quota = { cpu: "5", storage: "1Gi" };
  expect(merged(base, mine, theirs, {}), "nothing of theirs is lost without a choice").toEqual({ ...base, title: "theirs", quota, allowedTemplates: ["team-x"] });
  expect(merged(base, mine, theirs, { title: "mine", allowedTemplates: "both" })).toEqual({ ...base, title: "mine", quota, allowedTemplates: ["team-x", "web"] });
  expect(merged(base, mine, theirs, { allowedTemplates: "mine" })).toMatchObject({ allowedTemplates: ["blank", "web"] });
});

test("a limit that I have taken away is gone, one that they took away stays away", () => {
  const mine = { ...base, quota: { memory: "8Gi" } };
  expect(merged(base, mine, { ...base, title: "theirs" }, {})).toEqual({ ...base, title: "theirs", quota: { memory: "8Gi" } });
  expect(merged(base, { ...base, title: "mine" }, mine, {})).toEqual({ ...mine, title: "mine" });
});

test("members are merged one by one, without a question", () => {
  const member = (name: string) => ({ kind: "user", name, role: "developer" });
  const [a] = base.members;
  const mine = { ...base, members: [a, member("mine")] };
  expect(merged(base, mine, { ...base, members: [member("theirs")] }, {}), "they took one away").toEqual({ ...base, members: [member("theirs"), member("mine")] });
  expect(merged(base, { ...base, members: [] }, { ...base, members: [a, member("theirs")] }, {}), "I took one away").toEqual({ ...base, members: [member("theirs")] });
});

test("lists of words can be had together where neither of them means everything", () => {
  const of = (mine: string[], theirs: string[]) => differences({ list: ["a"] }, { list: mine }, { list: theirs })[0];
  const some = of(["a", "b"], ["c"]);
  expect(some && canBeBoth(some)).toBe(true);
  const everything = of([], ["c"]);
  expect(everything && canBeBoth(everything)).toBe(false);
});

test("fields and values are written for people", () => {
  expect(titleOf(["memberQuota", "cpu"])).toBe("Member quota: cpu");
  expect([undefined, [], "", 3, true, ["a", "b"], [{ kind: "user", name: "a", role: "viewer" }]].map(textOf)).toEqual(["nothing", "nothing", "nothing", "3", "true", "a, b", "user a viewer"]);
});
