import { expect, test } from "vitest";
import { type KubeObject, type Resource, type TableRow, collectionPath, lines, objectPath, resourcesOf } from "./client";
import { objectOf, yamlOf } from "./edit";
import { sections } from "./kinds";
import { withoutEscapes } from "./logs";
import { merge } from "./merge";
import { applied, asTable } from "./watch";

const resource = (group: string, plural: string, more: Partial<Resource> = {}): Resource => ({ group, version: "v1", plural, kind: plural, namespaced: true, verbs: ["list", "update"], shortNames: [], subresources: [], ...more });

test("addresses of objects", () => {
  expect(collectionPath(resource("", "pods"), "")).toBe("/api/v1/pods");
  expect(objectPath(resource("apps", "deployments"), "a", "b/c")).toBe("/apis/apps/v1/namespaces/a/deployments/b%2Fc");
  expect(objectPath(resource("", "nodes", { namespaced: false }), "ignored", "n")).toBe("/api/v1/nodes/n");
});

test("discovery gives each kind once, by the version that the server prefers", () => {
  const entry = (resource: string, verbs: string[]) => ({ resource, responseKind: { kind: "K" }, scope: "Namespaced", verbs });
  const found = resourcesOf([{ items: [{ metadata: { name: "g" }, versions: [{ version: "v2", resources: [entry("as", ["list"])] }, { version: "v1", resources: [entry("as", ["list"]), entry("bs", ["list"]), entry("reviews", ["create"])] }] }] }]);
  expect(found.map((each) => `${each.plural} ${each.version}`)).toEqual(["as v2", "bs v1"]);
});

test("own kinds stand before the rest of Kubernetes, and everything has a place", () => {
  const all = [resource("", "pods"), resource("example.com", "widgets"), resource("node.k8s.io", "runtimeclasses"), resource("apps", "controllerrevisions"), resource("events.k8s.io", "events")];
  expect(sections(all).map(([title, list]) => `${title}: ${list.map((each) => each.plural).join(" ")}`)).toEqual(["Workloads: pods", "example.com: widgets", "More of Kubernetes: controllerrevisions runtimeclasses"]);
});

const row = (uid: string, text: string): TableRow => ({ cells: [text], object: { metadata: { name: uid, uid } } });

test("a watch changes the rows it names", () => {
  const rows = new Map([["1", row("1", "a")], ["2", row("2", "b")]]);
  const event = (type: "ADDED" | "MODIFIED" | "DELETED", each: TableRow) => ({ type, object: { metadata: {}, rows: [each] } });
  applied(rows, event("MODIFIED", row("1", "c")));
  applied(rows, event("ADDED", row("3", "d")));
  applied(rows, event("DELETED", row("2", "b")));
  expect([...rows.values()].map((each) => each.cells[0])).toEqual(["c", "d"]);
});

test("a list of a server that makes no tables becomes one", () => {
  expect(asTable({ metadata: {}, items: [{ metadata: { name: "a" } }] }).rows[0]?.cells[0]).toBe("a");
});

test("lines are put together from pieces of any size", async () => {
  const bytes = new TextEncoder().encode("one\ntwö\n\nlast");
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const found: string[] = [];
  for await (const line of lines(body)) found.push(line);
  expect(found).toEqual(["one", "twö", "", "last"]);
});

test("an edit stays the same object", () => {
  const object: KubeObject = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", namespace: "n", managedFields: [{}] } as KubeObject["metadata"], data: { text: "yes\nno: 1\n" } };
  const text = yamlOf(object);
  expect(text).not.toContain("managedFields");
  expect(objectOf(text, object).data).toEqual(object.data);
  expect(() => objectOf(text.replace("name: a", "name: b"), object)).toThrow("must stay");
  expect(() => objectOf(text.replace("ConfigMap", "Secret"), object)).toThrow("kind must stay ConfigMap");
  expect(() => objectOf("just text", object)).toThrow("no metadata");
});

test("what colours a terminal is no text", () => {
  expect(withoutEscapes("\u001b[1;31mred\u001b[0m \u001b]0;title\u0007plain")).toBe("red plain");
});

test("changes of two people meet in one object", () => {
  const base = { metadata: { labels: { a: "1" } }, spec: { replicas: 1, image: "web:1", gone: true }, list: [1] };
  const mine = { metadata: { labels: { a: "1", mine: "1" } }, spec: { replicas: 3, image: "web:1" }, list: [1, 2] };
  const theirs = { spec: { image: "web:2", replicas: 1, gone: true }, metadata: { labels: { a: "2" } }, list: [1], status: {} };
  expect(merge(base, mine, theirs)).toEqual({
    value: { metadata: { labels: { a: "2", mine: "1" } }, spec: { replicas: 3, image: "web:2" }, list: [1, 2], status: {} },
    conflicts: [],
  });
  expect(merge(base, { ...base, spec: { ...base.spec, replicas: 3 }, list: [2] }, { ...base, spec: { ...base.spec, replicas: 2 }, list: [3] })).toMatchObject({ value: { spec: { replicas: 3 }, list: [2] }, conflicts: ["spec.replicas", "list"] });
  expect(merge({ a: 1 }, { a: 1 }, {}).value, "what they took away stays away").toEqual({});
  expect(merge({ a: 1 }, { a: 2 }, {}), "unless it was changed here").toEqual({ value: { a: 2 }, conflicts: ["a"] });
});
