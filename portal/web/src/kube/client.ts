// The Kubernetes API of an environment, by way of the portal: discovery, tables, objects, changes.
import { queryOptions } from "@tanstack/react-query";
import { json, send } from "../api/client";
import { environmentPath } from "../api/queries";
import { type OpenApi, documentOf } from "./schema";

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }[];
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
  [field: string]: unknown;
}

/** A kind that the environment has, as discovery names it. */
export interface Resource {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: string[];
}

export interface TableColumn {
  name: string;
  type: string;
  format: string;
  description: string;
  priority: number;
}

export interface TableRow {
  cells: unknown[];
  object: { metadata: ObjectMeta };
}

export interface TableDocument {
  metadata: { resourceVersion?: string; continue?: string };
  columnDefinitions?: TableColumn[];
  rows: TableRow[];
}

export const kube = (environment: string, path: string): string => `${environmentPath(environment)}/kube${path}`;

export function collectionPath(resource: Pick<Resource, "group" | "version" | "plural" | "namespaced">, namespace: string): string {
  const root = resource.group === "" ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = resource.namespaced && namespace !== "" ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${scope}/${resource.plural}`;
}

export function objectPath(resource: Pick<Resource, "group" | "version" | "plural" | "namespaced">, namespace: string, name: string): string {
  return `${collectionPath(resource, namespace)}/${encodeURIComponent(name)}`;
}

interface DiscoveryList {
  items: {
    metadata: { name?: string };
    versions: {
      version: string;
      resources?: { resource: string; responseKind: { kind: string }; scope: string; verbs: string[]; shortNames?: string[]; subresources?: { subresource: string }[] }[];
    }[];
  }[];
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/** Every kind that can be listed, by its preferred version. */
export function resourcesOf(lists: DiscoveryList[]): Resource[] {
  const all: Resource[] = [];
  for (const list of lists) {
    for (const group of list.items) {
      const seen = new Set<string>();
      for (const version of group.versions) {
        for (const each of version.resources ?? []) {
          if (seen.has(each.resource) || !each.verbs.includes("list")) continue;
          seen.add(each.resource);
          all.push({
            group: group.metadata.name ?? "",
            version: version.version,
            plural: each.resource,
            kind: each.responseKind.kind,
            namespaced: each.scope === "Namespaced",
            verbs: each.verbs,
            shortNames: each.shortNames ?? [],
            subresources: (each.subresources ?? []).map((s) => s.subresource),
          });
        }
      }
    }
  }
  return all;
}

export const discoveryQuery = (environment: string) =>
  queryOptions({
    queryKey: ["kube", environment, "discovery"],
    queryFn: async ({ signal }) => {
      const ask = (path: string) => json<DiscoveryList>(kube(environment, path), { signal, headers: { accept: AGGREGATED } });
      return resourcesOf(await Promise.all([ask("/api"), ask("/apis")]));
    },
    staleTime: 30_000,
  });

export const namespacesQuery = (environment: string) =>
  queryOptions({
    queryKey: ["kube", environment, "namespaces"],
    queryFn: async ({ signal }) => {
      const list = await json<{ items: KubeObject[] }>(kube(environment, "/api/v1/namespaces?limit=1000"), { signal });
      return list.items.map((each) => each.metadata.name);
    },
    refetchInterval: 30_000,
  });

export const objectQuery = (environment: string, resource: Resource, namespace: string, name: string) =>
  queryOptions({
    queryKey: ["kube", environment, "object", resource.group, resource.plural, namespace, name],
    queryFn: ({ signal }) => json<KubeObject>(kube(environment, objectPath(resource, namespace, name)), { signal }),
    refetchInterval: 4_000,
  });

export const eventsQuery = (environment: string, namespace: string, uid: string) =>
  queryOptions({
    queryKey: ["kube", environment, "events", uid],
    queryFn: async ({ signal }) => {
      const where = namespace === "" ? "default" : namespace;
      const path = `/api/v1/namespaces/${encodeURIComponent(where)}/events?fieldSelector=${encodeURIComponent(`involvedObject.uid=${uid}`)}&limit=200`;
      return (await json<{ items: KubeObject[] }>(kube(environment, path), { signal })).items;
    },
    refetchInterval: 5_000,
  });

/** The OpenAPI document of a kind's group and version, as the environment serves it; nothing where it serves none. */
export const openApiQuery = (environment: string, { group, version }: Pick<Resource, "group" | "version">) =>
  queryOptions({
    queryKey: ["kube", environment, "openapi", group, version],
    queryFn: async ({ signal }): Promise<OpenApi | null> => {
      const name = documentOf(group, version);
      const index = await json<{ paths: Record<string, { serverRelativeURL?: string }> }>(kube(environment, "/openapi/v3"), { signal });
      const url = index.paths[name]?.serverRelativeURL;
      if (url === undefined) return null;
      // The hash alone is taken over: with it a browser keeps the document until it is another one.
      const hash = new URL(url, location.origin).searchParams.get("hash");
      return json<OpenApi>(kube(environment, `/openapi/v3/${name}${hash === null ? "" : `?hash=${encodeURIComponent(hash)}`}`), { signal });
    },
    staleTime: 60_000,
  });

/** What would be stored: nothing is. */
export async function replace(environment: string, resource: Resource, namespace: string, object: KubeObject, dryRun: boolean): Promise<KubeObject> {
  const query = dryRun ? "?dryRun=All&fieldValidation=Strict&fieldManager=vctl-console" : "?fieldValidation=Strict&fieldManager=vctl-console";
  return json<KubeObject>(kube(environment, objectPath(resource, namespace, object.metadata.name)) + query, { method: "PUT", json: object });
}

export async function remove(environment: string, resource: Resource, namespace: string, name: string): Promise<void> {
  await send(kube(environment, objectPath(resource, namespace, name)), { method: "DELETE", json: { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background" } });
}

/** The lines of an answer as they arrive. */
export async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
    if (rest !== "") yield rest;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
