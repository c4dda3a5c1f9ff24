// How to work with an environment from one's own machine: a shell, the kubeconfig, its services.
import { useQuery } from "@tanstack/react-query";
import { json } from "../../api/client";
import type { Environment } from "../../api/types";
import { type KubeObject, kube } from "../../kube/client";
import { shell } from "../../lib/format";
import { Copy } from "../../ui/controls";
import { Panel } from "../../ui/page";

/** Services that are shown with a command of their own. */
const SHOWN = 8;

interface Service extends KubeObject {
  spec?: { ports?: { port: number; name?: string; protocol?: string }[] };
}

/** A port of one's own machine for a port of a service: ports below 1024 are the system's. */
export const localPort = (port: number): number => (port < 1024 ? 8000 + port : port);

export function forwardCommand(environment: string, service: { name: string; namespace: string; port: number }): string {
  const namespace = service.namespace === "default" ? "" : ` --namespace ${shell(service.namespace)}`;
  return `vctl connect ${shell(environment)} -- kubectl port-forward${namespace} service/${shell(service.name)} ${localPort(service.port)}:${service.port}`;
}

export function Use({ environment }: { environment: Environment }) {
  const { name } = environment;
  const services = useQuery({
    queryKey: ["kube", name, "services"],
    queryFn: async ({ signal }) => {
      const list = await json<{ items: Service[] }>(kube(name, "/api/v1/services?limit=200"), { signal });
      return list.items.flatMap(({ metadata, spec }) => {
        if (metadata.name === "kubernetes" && metadata.namespace === "default") return [];
        // kubectl forwards TCP only.
        return (spec?.ports ?? []).filter((port) => (port.protocol ?? "TCP") === "TCP").map((port) => ({ name: metadata.name, namespace: metadata.namespace ?? "default", port: port.port }));
      });
    },
    enabled: environment.phase === "Ready",
    refetchInterval: 15_000,
  });
  const found = services.data ?? [];
  return (
    <Panel title="Use it">
      <div className="stack">
        <div className="stack tight">
          <h3>A shell with kubectl set up</h3>
          <Copy label="vctl connect" text={`vctl connect ${name} -- bash`} />
        </div>
        <div className="stack tight">
          <h3>Look around</h3>
          <Copy label="kubectl get all" text={`vctl connect ${name} -- kubectl get all --all-namespaces`} />
        </div>
        <div className="stack tight">
          <h3>Reach a service from this machine</h3>
          {found.length === 0 ? (
            <Copy label="kubectl port-forward" text={`vctl connect ${name} -- kubectl port-forward service/SERVICE 8080:80`} />
          ) : (
            found.slice(0, SHOWN).map((each) => (
              <div key={`${each.namespace}/${each.name}/${each.port}`} className="stack tight">
                <span className="soft">
                  {each.namespace}/{each.name}, then at <span className="mono">127.0.0.1:{localPort(each.port)}</span>
                </span>
                <Copy label={`kubectl port-forward ${each.name} ${each.port}`} text={forwardCommand(name, each)} />
              </div>
            ))
          )}
          {found.length > SHOWN && <p className="faint">{found.length - SHOWN} more ports are in Resources, under Service.</p>}
        </div>
        <div className="stack tight">
          <h3>Keep its kubeconfig</h3>
          <Copy label="vctl kubeconfig" text={`vctl kubeconfig ${name} > ${name}.kubeconfig`} />
        </div>
      </div>
    </Panel>
  );
}
