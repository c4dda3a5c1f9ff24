import { expect, test } from "vitest";
import type { Resource } from "./client";
import { type Owned, byOwner, chainOf, ownable, ownedBy } from "./ownership";

const resource = (kind: string, group = "", more: Partial<Resource> = {}): Resource => ({ group, version: "v1", plural: `${kind.toLowerCase()}s`, kind, namespaced: true, verbs: ["list"], shortNames: [], subresources: [], ...more });
const reference = (kind: string, name: string, apiVersion = "v1", controller = true) => ({ apiVersion, kind, name, uid: `uid-${name}`, controller });
const owned = (of: Resource, name: string, ...ownerReferences: ReturnType<typeof reference>[]): Owned => ({ resource: of, metadata: { name, uid: `uid-${name}`, ownerReferences } });

const widget = resource("Widget", "example.com");
const part = resource("Part", "example.com");
const all = [owned(part, "part", reference("Widget", "widget", "example.com/v1")), owned(resource("ConfigMap"), "settings", reference("Part", "part", "example.com/v1")), owned(resource("Secret"), "impostor", { ...reference("Widget", "other", "example.com/v1"), uid: "uid-widget" })];
const names = (list: Owned[]): string[] => list.map((each) => each.metadata.name);

test("what a custom resource owns is found, whatever kind it is, by uid, kind and name", () => {
  const owners = byOwner(all);
  expect(names(ownedBy(owners, { kind: "Widget", group: "example.com", metadata: { name: "widget", uid: "uid-widget" } }))).toEqual(["part"]);
  expect(names(ownedBy(owners, { kind: "Part", group: "example.com", metadata: { name: "part", uid: "uid-part" } }))).toEqual(["settings"]);
  expect(ownedBy(owners, { kind: "Widget", group: "another.com", metadata: { name: "widget", uid: "uid-widget" } })).toEqual([]);
});

test("one object that two groups serve is one", () => {
  const twice = [...all, owned(resource("Part", "old.example.com"), "part", reference("Widget", "widget", "example.com/v1"))];
  expect(byOwner(twice).get("uid-widget")).toHaveLength(2);
});

test("owners are followed up to the first, in circles once", () => {
  expect(chainOf({ name: "settings", ownerReferences: [reference("Part", "part", "example.com/v1")] }, all).map((each) => each.name)).toEqual(["part", "widget"]);
  expect(chainOf({ name: "x", ownerReferences: [reference("A", "a", "v1", false), reference("B", "b")] }, []).map((each) => each.name), "the one that controls it").toEqual(["b"]);
  const circle = [owned(part, "a", reference("Part", "b")), owned(part, "b", reference("Part", "a"))];
  expect(chainOf({ name: "c", ownerReferences: [reference("Part", "a")] }, circle).map((each) => each.name)).toEqual(["a", "b"]);
});

test("kinds that nothing owns are not looked through", () => {
  const kinds = [widget, resource("Node", "", { namespaced: false }), resource("Event"), resource("PodMetrics", "metrics.k8s.io"), resource("Review", "", { verbs: ["create"] })];
  expect(ownable(kinds, true).map((each) => each.kind)).toEqual(["Widget"]);
  expect(ownable(kinds, false).map((each) => each.kind)).toEqual(["Widget", "Node"]);
});
