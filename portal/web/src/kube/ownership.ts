// Who owns what in an environment: metadata of every kind that it serves, whoever defined it, by owner references.
import { queryOptions } from "@tanstack/react-query";
import { json } from "../api/client";
import { type ObjectMeta, type Resource, collectionPath, kube } from "./client";

/** Kinds that are looked through at most, and objects of each: beyond that a tree is for a shell. */
const KINDS = 200;
const OBJECTS = 2000;
/** Lists that are asked for at once. */
const AT_ONCE = 6;

/** An object that something owns. */
export interface Owned {
  resource: Resource;
  metadata: ObjectMeta;
}

export type OwnerReference = NonNullable<ObjectMeta["ownerReferences"]>[number];

export interface Ownership {
  objects: Owned[];
  /** Kinds that could not be looked through to their end. */
  partly: string[];
}

/** Kinds whose objects something may own: what is owned is in the namespace of its owner, unless that has none. */
export function ownable(resources: Resource[], namespaced: boolean): Resource[] {
  return resources.filter((each) => (!namespaced || each.namespaced) && each.verbs.includes("list") && each.plural !== "events" && !each.group.endsWith("metrics.k8s.io"));
}

export const groupOf = (apiVersion: string): string => (apiVersion.includes("/") ? (apiVersion.split("/")[0] ?? "") : "");

/** Objects by owner. An object that is served by several groups counts once. */
export function byOwner(objects: Owned[]): Map<string, Owned[]> {
  const all = new Map<string, Owned[]>();
  const seen = new Set<string>();
  for (const each of objects) {
    const { uid, ownerReferences = [] } = each.metadata;
    if (uid === undefined || seen.has(uid)) continue;
    seen.add(uid);
    for (const owner of ownerReferences) all.set(owner.uid, [...(all.get(owner.uid) ?? []), each]);
  }
  for (const list of all.values()) list.sort((a, b) => `${a.resource.kind}/${a.metadata.name}`.localeCompare(`${b.resource.kind}/${b.metadata.name}`));
  return all;
}

/** What an object owns: of what refers to its UID, that which means it by kind and name too. */
export function ownedBy(owners: Map<string, Owned[]>, object: { kind: string; group: string; metadata: ObjectMeta }): Owned[] {
  const { uid, name } = object.metadata;
  const means = (owner: OwnerReference): boolean => owner.uid === uid && owner.kind === object.kind && owner.name === name && groupOf(owner.apiVersion) === object.group;
  return (uid === undefined ? [] : (owners.get(uid) ?? [])).filter((each) => each.metadata.ownerReferences?.some(means));
}

/** The owners of an object, the nearest first: of several that which controls it. */
export function chainOf(metadata: ObjectMeta, objects: Owned[]): OwnerReference[] {
  const chain: OwnerReference[] = [];
  let now: ObjectMeta | undefined = metadata;
  while (now && chain.length < 10) {
    const owners: OwnerReference[] = now.ownerReferences ?? [];
    const owner = owners.find((each) => each.controller === true) ?? owners[0];
    if (!owner || chain.some((each) => each.uid === owner.uid)) break;
    chain.push(owner);
    now = objects.find((each) => each.metadata.uid === owner.uid)?.metadata;
  }
  return chain;
}

async function metadataOf(environment: string, resource: Resource, namespace: string, signal: AbortSignal): Promise<{ found: Owned[]; whole: boolean }> {
  const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  const found: Owned[] = [];
  let read = 0;
  let next = "";
  do {
    const more = next === "" ? "" : `&continue=${encodeURIComponent(next)}`;
    const list = await json<{ metadata?: { continue?: string }; items: { metadata: ObjectMeta }[] }>(`${kube(environment, collectionPath(resource, namespace))}?limit=500${more}`, { headers: { accept }, signal });
    read += list.items.length;
    found.push(...list.items.filter(({ metadata }) => metadata.ownerReferences !== undefined).map(({ metadata }) => ({ resource, metadata })));
    next = list.metadata?.continue ?? "";
  } while (next !== "" && read < OBJECTS);
  return { found, whole: next === "" };
}

async function ownership(environment: string, resources: Resource[], namespace: string, signal: AbortSignal): Promise<Ownership> {
  const left = resources.slice(0, KINDS);
  const objects: Owned[] = [];
  const partly = resources.slice(KINDS).map((each) => each.plural);
  const work = async (): Promise<void> => {
    for (let resource = left.shift(); resource; resource = left.shift()) {
      try {
        const { found, whole } = await metadataOf(environment, resource, namespace, signal);
        objects.push(...found);
        if (!whole) partly.push(resource.plural);
      } catch (error) {
        // One kind that is refused, or whose server does not answer, says nothing about the others.
        if (signal.aborted) throw error;
        partly.push(resource.plural);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { objects, partly: partly.sort() };
}

/** Everything that is owned in a namespace (in none: everywhere), of these kinds; `every` is how often it is read again, in milliseconds. */
export const ownershipQuery = (environment: string, resources: Resource[], namespace: string, every: number) =>
  queryOptions({
    queryKey: ["kube", environment, "ownership", namespace, resources.map((each) => `${each.plural}.${each.group}`).join(" ")],
    queryFn: ({ signal }) => ownership(environment, resources, namespace, signal),
    refetchInterval: every,
  });
