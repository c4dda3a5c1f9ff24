// The tree that an object belongs to: who owns it, up to the first, and what it owns, whatever kinds these are.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "../lib/router";
import { Panel } from "../ui/page";
import type { KubeObject, ObjectMeta, Resource } from "./client";
import { explorerPath, idOf } from "./kinds";
import { type Owned, byOwner, chainOf, groupOf, ownable, ownedBy, ownershipQuery } from "./ownership";

/** Rows of a tree, and how deep it goes. */
const ROWS = 200;
const DEPTH = 6;
/** Kinds whose objects come and go: looked at often. Others too, once something of them is owned. */
const LIVELY = new Set(["pods", "replicasets.apps", "jobs.batch"]);

export function Owners({ environment, resource, resources, object }: { environment: string; resource: Resource; resources: Resource[]; object: KubeObject }) {
  const namespace = object.metadata.namespace ?? "";
  const kinds = ownable(resources, resource.namespaced);
  const scan = useQuery(ownershipQuery(environment, kinds, namespace, 30_000));
  const there = new Set(scan.data?.objects.map((each) => idOf(each.resource)));
  const lively = kinds.filter((each) => there.has(idOf(each)) || LIVELY.has(idOf(each)));
  const fresh = useQuery({ ...ownershipQuery(environment, lively, namespace, 5_000), enabled: scan.isSuccess });
  const often = new Set(lively.map(idOf));
  const scanned = scan.data?.objects ?? [];
  const objects = fresh.data ? [...scanned.filter((each) => !often.has(idOf(each.resource))), ...fresh.data.objects] : scanned;
  const owners = byOwner(objects);
  const chain = chainOf(object.metadata, objects);
  const others = (object.metadata.ownerReferences ?? []).filter((each) => each.uid !== chain[0]?.uid);
  const own = ownedBy(owners, { kind: object.kind ?? resource.kind, group: resource.group, metadata: object.metadata });
  const partly = scan.data?.partly ?? [];
  if (chain.length === 0 && own.length === 0 && partly.length === 0) return null;
  const link = (of: Resource | undefined, kind: string, name: string): ReactNode => (
    <span>
      <span className="faint">{kind}</span>
      {of ? <Link to={explorerPath(environment, of, { namespace: of.namespaced ? namespace : undefined, name })}>{name}</Link> : name}
    </span>
  );
  const resourceOf = (kind: string, apiVersion: string): Resource | undefined => resources.find((each) => each.kind === kind && each.group === groupOf(apiVersion));
  let left = ROWS;
  const branch = (list: Owned[], depth: number, above: Set<string>): ReactNode => {
    const shown = depth > DEPTH ? [] : list.filter((each) => !above.has(each.metadata.uid ?? "")).slice(0, left);
    left -= shown.length;
    const hidden = list.length - shown.length;
    if (list.length === 0) return null;
    return (
      <ul>
        {shown.map((each) => (
          <li key={each.metadata.uid}>
            {leaf(each)}
            {branch(ownedBy(owners, { kind: each.resource.kind, group: each.resource.group, metadata: each.metadata }), depth + 1, new Set([...above, each.metadata.uid ?? ""]))}
          </li>
        ))}
        {hidden > 0 && <li className="faint">and {hidden} more</li>}
      </ul>
    );
  };
  const leaf = ({ resource: of, metadata }: { resource: Resource; metadata: ObjectMeta }): ReactNode => (
    <span>
      <span className="faint">{of.kind}</span>
      <Link to={explorerPath(environment, of, { namespace: metadata.namespace, name: metadata.name })}>{metadata.name}</Link>
    </span>
  );
  const self = (
    <ul>
      <li>
        <span>
          <span className="faint">{object.kind ?? resource.kind}</span>
          <strong>{object.metadata.name}</strong>
        </span>
        {branch(own, 1, new Set([object.metadata.uid ?? ""]))}
      </li>
    </ul>
  );
  return (
    <Panel title="Owned by and owner of">
      <div className="tree">
        {others.map((each) => (
          <div key={each.uid}>{link(resourceOf(each.kind, each.apiVersion), each.kind, each.name)}</div>
        ))}
        {chain.reduce(
          (below, each) => (
            <ul>
              <li>
                {link(resourceOf(each.kind, each.apiVersion), each.kind, each.name)}
                {below}
              </li>
            </ul>
          ),
          self,
        )}
      </div>
      {partly.length > 0 && <p className="faint">Not all of {partly.join(", ")} could be looked through.</p>}
    </Panel>
  );
}
