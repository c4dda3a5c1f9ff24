// Releases of Helm: Secrets of the type helm.sh/release.v1, one for each revision. Everything that lists need is in their labels; what a revision
// holds is JSON in gzip in base64, and that in the base64 of every Secret.
import { queryOptions } from "@tanstack/react-query";
import { json } from "../api/client";
import { type KubeObject, kube } from "./client";

/** Largest revision that is unpacked, in bytes: a small file can hold a very large one. */
export const LIMIT = 32 * 1024 * 1024;

/** One revision, as the labels of its Secret tell it. */
export interface Revision {
  namespace: string;
  release: string;
  revision: number;
  status: string;
  at: string;
  /** Name of the Secret. */
  secret: string;
}

/** What a revision holds (helm.sh/helm/v3/pkg/release.Release), as far as it is shown. */
export interface Release {
  name: string;
  namespace: string;
  version: number;
  info?: { first_deployed?: string; last_deployed?: string; status?: string; description?: string; notes?: string };
  chart?: { metadata?: { name?: string; version?: string; appVersion?: string; description?: string }; values?: Record<string, unknown> };
  /** What was given besides the values of the chart. */
  config?: Record<string, unknown>;
  manifest?: string;
}

export function revisionsOf(secrets: KubeObject[]): Revision[] {
  return secrets.flatMap(({ metadata }) => {
    const { labels = {} } = metadata;
    const revision = Number(labels.version);
    if (labels.name === undefined || !Number.isInteger(revision)) return [];
    const seconds = Number(labels.modifiedAt ?? labels.createdAt);
    const at = Number.isFinite(seconds) ? new Date(seconds * 1000).toISOString() : (metadata.creationTimestamp ?? "");
    return [{ namespace: metadata.namespace ?? "", release: labels.name, revision, status: labels.status ?? "unknown", at, secret: metadata.name }];
  });
}

/** Releases by namespace and name, each with its revisions, the newest first. */
export function releasesOf(revisions: Revision[]): Revision[][] {
  const all = new Map<string, Revision[]>();
  for (const each of revisions) {
    const key = `${each.namespace}/${each.release}`;
    all.set(key, [...(all.get(key) ?? []), each]);
  }
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, list]) => list.sort((a, b) => b.revision - a.revision));
}

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

async function unpacked(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > LIMIT) {
      await reader.cancel();
      throw new Error(`This revision is larger than ${LIMIT / 1024 / 1024} MiB: look at it with helm`);
    }
    parts.push(value);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The revision in the data of a Secret. */
export async function decode(data: string): Promise<Release> {
  // The value of the key is itself base64; gzip begins with 1f 8b, as what is not packed does not.
  const packed = bytesOf(new TextDecoder().decode(bytesOf(data)));
  const plain = packed[0] === 0x1f && packed[1] === 0x8b ? await unpacked(packed) : packed;
  return JSON.parse(new TextDecoder().decode(plain)) as Release;
}

/** What a chart is rendered with: its own values, with those that were given laid over; null takes one away. */
export function mergedValues(chart: Record<string, unknown>, given: Record<string, unknown>): Record<string, unknown> {
  const laid = Object.entries(given).map(([key, value]): [string, unknown] => {
    const below = chart[key];
    return [key, isMap(below) && isMap(value) ? mergedValues(below, value) : value];
  });
  return Object.fromEntries(Object.entries({ ...chart, ...Object.fromEntries(laid) }).filter(([key, value]) => value !== null || !(key in given)));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const releasesQuery = (environment: string) =>
  queryOptions({
    queryKey: ["kube", environment, "helm"],
    queryFn: async ({ signal }) => {
      const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
      const found: KubeObject[] = [];
      let next = "";
      // Metadata only: the packed revisions may be large.
      do {
        const path = `/api/v1/secrets?labelSelector=${encodeURIComponent("owner=helm")}&limit=500${next === "" ? "" : `&continue=${encodeURIComponent(next)}`}`;
        const list = await json<{ metadata?: { continue?: string }; items: KubeObject[] }>(kube(environment, path), { signal, headers: { accept } });
        found.push(...list.items);
        next = list.metadata?.continue ?? "";
      } while (next !== "" && found.length < 5000);
      return releasesOf(revisionsOf(found));
    },
    refetchInterval: 10_000,
  });

export const releaseQuery = (environment: string, namespace: string, secret: string) =>
  queryOptions({
    queryKey: ["kube", environment, "helm-revision", namespace, secret],
    queryFn: async ({ signal }) => {
      const found = await json<KubeObject & { data?: { release?: string } }>(kube(environment, `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets/${encodeURIComponent(secret)}`), { signal });
      if (found.data?.release === undefined) throw new Error(`Secret ${secret} holds no release of Helm`);
      return decode(found.data.release);
    },
    // Only the status of a revision changes, and the labels tell it.
    staleTime: Infinity,
  });
