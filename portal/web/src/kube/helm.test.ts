import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { KubeObject } from "./client";
import { LIMIT, decode, mergedValues, releasesOf, revisionsOf } from "./helm-release";

const secret = (name: string, labels: Record<string, string>, namespace = "default"): KubeObject => ({ metadata: { name, namespace, labels, creationTimestamp: "2026-01-01T00:00:00Z" } });
const twice = (bytes: Uint8Array): string => Buffer.from(Buffer.from(bytes).toString("base64")).toString("base64");

test("revisions are told by labels, releases have them newest first", () => {
  const revisions = revisionsOf([
    secret("sh.helm.release.v1.web.v1", { owner: "helm", name: "web", version: "1", status: "superseded", modifiedAt: "1767225600" }),
    secret("sh.helm.release.v1.web.v10", { owner: "helm", name: "web", version: "10", status: "deployed" }),
    secret("sh.helm.release.v1.web.v2", { owner: "helm", name: "web", version: "2", status: "superseded" }),
    secret("sh.helm.release.v1.web.v1", { owner: "helm", name: "web", version: "1", status: "failed" }, "another"),
    secret("no-release", { owner: "helm" }),
  ]);
  const releases = releasesOf(revisions);
  expect(releases.map((each) => each.map((r) => `${r.namespace}/${r.release}:${r.revision} ${r.status}`))).toEqual([["another/web:1 failed"], ["default/web:10 deployed", "default/web:2 superseded", "default/web:1 superseded"]]);
  expect(releases[1]?.[2]?.at).toBe("2026-01-01T00:00:00.000Z");
});

test("a revision is JSON in gzip in base64 in base64, or not packed at all", async () => {
  const release = { name: "web", namespace: "default", version: 1, manifest: "grüße: <b>\n" };
  const text = Buffer.from(JSON.stringify(release));
  expect(await decode(twice(gzipSync(text)))).toEqual(release);
  expect(await decode(twice(text))).toEqual(release);
});

test("a small revision that unpacks to very much is refused", async () => {
  await expect(decode(twice(gzipSync(Buffer.alloc(LIMIT + 1))))).rejects.toThrow("larger than 32 MiB");
});

test("values are laid over those of the chart as Helm does it", () => {
  const chart = { image: { name: "web", tag: "1" }, list: [1, 2], gone: true, kept: null };
  expect(mergedValues(chart, { image: { tag: "2" }, list: [3], gone: null })).toEqual({ image: { name: "web", tag: "2" }, list: [3], kept: null });
});
