// Which kinds stand together in the explorer, and how their addresses are written.
import type { Resource } from "./client";

const SECTIONS: [string, string[]][] = [
  ["Workloads", ["pods", "deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy"]],
  ["Network", ["services", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "endpointslices.discovery.k8s.io", "ingressclasses.networking.k8s.io"]],
  ["Configuration", ["configmaps", "secrets", "resourcequotas", "limitranges"]],
  ["Storage", ["persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"]],
  ["Access", ["serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"]],
  ["Cluster", ["nodes", "namespaces", "events", "customresourcedefinitions.apiextensions.k8s.io"]],
];

export const idOf = (resource: Pick<Resource, "group" | "plural">): string => (resource.group === "" ? resource.plural : `${resource.plural}.${resource.group}`);

const OWN = /(^|\.)k8s\.io$/;
const BUILT_IN = new Set(["", "apps", "batch", "autoscaling", "policy", "extensions"]);

/** The kinds by section: the usual ones, then those of the tenant's own groups, then the rest of Kubernetes. */
export function sections(resources: Resource[]): [string, Resource[]][] {
  const left = new Map(resources.map((resource) => [idOf(resource), resource]));
  const result: [string, Resource[]][] = [];
  // The same events twice help nobody.
  left.delete("events.events.k8s.io");
  for (const [title, ids] of SECTIONS) {
    const found = ids.flatMap((id) => left.get(id) ?? []);
    ids.forEach((id) => left.delete(id));
    if (found.length > 0) result.push([title, found]);
  }
  const groups = new Map<string, Resource[]>();
  const more: Resource[] = [];
  for (const resource of left.values()) {
    if (BUILT_IN.has(resource.group) || OWN.test(resource.group)) more.push(resource);
    else groups.set(resource.group, [...(groups.get(resource.group) ?? []), resource]);
  }
  const own = [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
  result.splice(result.length, 0, ...own);
  if (more.length > 0) result.push(["More of Kubernetes", more.sort((a, b) => (a.kind < b.kind ? -1 : 1))]);
  return result;
}

/** `/environments/E/resources/pods.` + `/NAMESPACE/NAME`; `-` stands for no namespace. */
export function explorerPath(environment: string, resource: Pick<Resource, "group" | "plural">, object?: { namespace?: string | undefined; name: string }): string {
  const at = `/environments/${environment}/resources/${idOf(resource)}`;
  return object ? `${at}/${encodeURIComponent(object.namespace ?? "-")}/${encodeURIComponent(object.name)}` : at;
}
