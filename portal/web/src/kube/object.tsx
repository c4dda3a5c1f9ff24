// One object: its state, events and owners; its YAML, to edit with a dry run before; logs and a terminal for pods.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, Suspense, lazy, useState } from "react";
import { Problem } from "../api/client";
import { moment } from "../lib/format";
import { Link, navigate, useQueryValue } from "../lib/router";
import { Button, Choice, Switch } from "../ui/controls";
import { Confirm } from "../ui/dialog";
import { Age, Empty, Loaded, Skeleton, State, toast } from "../ui/feedback";
import { Facts, Panel } from "../ui/page";
import { type KubeObject, type Resource, eventsQuery, objectQuery, remove } from "./client";
import { explorerPath } from "./kinds";
import { LogView, containersOf } from "./logs";
import { Owners } from "./owners";
import { toneOf } from "./tone";

const Editor = lazy(() => import("./edit"));
const Terminal = lazy(() => import("./terminal"));

export interface ObjectPageProps {
  environment: string;
  resource: Resource;
  resources: Resource[];
  namespace: string;
  name: string;
}

export function ObjectPage({ environment, resource, resources, namespace, name }: ObjectPageProps) {
  const query = useQuery(objectQuery(environment, resource, namespace, name));
  const [view, setView] = useQueryValue("view");
  const [deleting, setDeleting] = useState(false);
  const cache = useQueryClient();
  const pod = resource.group === "" && resource.plural === "pods";
  const views = [["", "Overview"], ["yaml", "YAML"], ...(pod ? [["logs", "Logs"], ["terminal", "Terminal"]] : [])] as [string, string][];
  if (query.error instanceof Problem && query.error.status === 404) {
    return (
      <Empty icon="search" title={`${resource.kind} ${name} is gone`}>
        <Link to={explorerPath(environment, resource)}>All {resource.plural}</Link>
      </Empty>
    );
  }
  const cannot = resource.verbs.includes("delete") ? (query.data?.metadata.deletionTimestamp === undefined ? undefined : "It is being deleted") : "This kind cannot be deleted";
  return (
    <div className="stack tight">
      <nav className="crumbs" aria-label="Object">
        <Link to={explorerPath(environment, resource)}>{resource.plural}</Link>
        {namespace !== "" && (
          <>
            <span aria-hidden="true">/</span>
            <span>{namespace}</span>
          </>
        )}
      </nav>
      <div className="toolbar">
        <h2 className="object-name">
          {name} {query.data?.metadata.deletionTimestamp !== undefined && <State tone="busy">Terminating</State>}
        </h2>
        <span className="spring" />
        <div className="group" role="group" aria-label="View">
          {views.map(([id, label]) => (
            <Button key={id} pressed={view === id} onPress={() => setView(id)}>
              {label}
            </Button>
          ))}
        </div>
        <Button kind="danger" icon="trash" disabledReason={cannot} onPress={() => setDeleting(true)}>
          Delete
        </Button>
      </div>
      <Loaded query={query}>
        {(object) => (
          <Suspense fallback={<Skeleton />}>
            {view === "" && <Overview environment={environment} resource={resource} resources={resources} namespace={namespace} object={object} />}
            {view === "yaml" && <Editor environment={environment} resource={resource} namespace={namespace} object={object} />}
            {view === "logs" && pod && <LogView environment={environment} namespace={namespace} pods={[object]} />}
            {view === "terminal" && pod && <PodTerminal environment={environment} namespace={namespace} pod={object} />}
          </Suspense>
        )}
      </Loaded>
      {deleting && (
        <Confirm
          title={`Delete ${resource.kind} ${name}?`}
          typed={name}
          verb="Delete"
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            await remove(environment, resource, namespace, name);
            toast(`${resource.kind} ${name} is being deleted`);
            void cache.invalidateQueries({ queryKey: ["kube", environment, "object"] });
            navigate(explorerPath(environment, resource));
          }}
        >
          What it owns goes with it.
        </Confirm>
      )}
    </div>
  );
}

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

function Overview({ environment, resource, resources, namespace, object }: Omit<ObjectPageProps, "name"> & { object: KubeObject }) {
  const { metadata } = object;
  const status = object.status as { conditions?: Condition[]; phase?: string; containerStatuses?: { name: string; ready: boolean; restartCount: number; image: string; state: Record<string, { reason?: string; message?: string; startedAt?: string }> }[] } | undefined;
  const labels = Object.entries(metadata.labels ?? {});
  const facts: [string, ReactNode][] = [];
  if (status?.phase !== undefined) facts.push(["Phase", <State key="phase" tone={toneOf(status.phase) ?? "idle"}>{status.phase}</State>]);
  if (metadata.creationTimestamp !== undefined) facts.push(["Created", <span key="created">{moment(metadata.creationTimestamp)} (<Age time={metadata.creationTimestamp} />)</span>]);
  if (labels.length > 0) facts.push(["Labels", <span key="labels" className="chips">{labels.map(([key, value]) => <span key={key} className="badge">{value === "" ? key : `${key}=${value}`}</span>)}</span>]);
  facts.push(["UID", <span key="uid" className="mono faint">{metadata.uid ?? ""}</span>]);
  const data = object.data as Record<string, string> | undefined;
  return (
    <div className="two">
      <div className="stack">
        {status?.containerStatuses && status.containerStatuses.length > 0 && (
          <Panel title="Containers">
            <ul className="stack tight">
              {status.containerStatuses.map((each) => {
                const [state = "waiting", detail] = Object.entries(each.state)[0] ?? [];
                return (
                  <li key={each.name} className="container-row">
                    <State tone={each.ready ? "good" : state === "terminated" ? "idle" : "busy"}>{each.name}</State>
                    <span className="soft">{detail?.reason ?? state}</span>
                    <span className="faint ellipsis mono">{each.image}</span>
                    <span className="faint number">{each.restartCount} restarts</span>
                  </li>
                );
              })}
            </ul>
          </Panel>
        )}
        {status?.conditions && status.conditions.length > 0 && (
          <Panel title="Conditions">
            <ul className="stack tight">
              {status.conditions.map((each) => (
                <li key={each.type} className="condition">
                  <State tone={each.status === "True" ? "good" : each.status === "False" ? "idle" : "busy"}>{each.type}</State>
                  <span className="soft">{[each.reason, each.message].filter(Boolean).join(": ") || each.status}</span>
                </li>
              ))}
            </ul>
          </Panel>
        )}
        {data !== undefined && resource.group === "" && (resource.plural === "secrets" || resource.plural === "configmaps") && <Data data={data} secret={resource.plural === "secrets"} />}
        <Events environment={environment} namespace={namespace} uid={metadata.uid ?? ""} />
      </div>
      <div className="stack">
        <Panel title="Facts">
          <Facts items={facts} />
        </Panel>
        <Owners environment={environment} resource={resource} resources={resources} object={object} />
      </div>
    </div>
  );
}

function Data({ data, secret }: { data: Record<string, string>; secret: boolean }) {
  const [shown, setShown] = useState(false);
  return (
    <Panel title="Data" actions={secret ? <Switch selected={shown} onChange={setShown}>Show values</Switch> : undefined}>
      <dl className="stack tight">
        {Object.entries(data).map(([key, value]) => (
          <div key={key} className="stack tight">
            <dt className="mono">{key}</dt>
            <dd>
              <pre className="log plain" tabIndex={0}>{!secret ? value : shown ? plain(value) : `${Math.floor((value.length * 3) / 4)} bytes, hidden`}</pre>
            </dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

/** The text of base64; what is no text stays as it is. */
function plain(value: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(value), (c) => c.charCodeAt(0)));
  } catch {
    return value;
  }
}

function Events({ environment, namespace, uid }: { environment: string; namespace: string; uid: string }) {
  const query = useQuery({ ...eventsQuery(environment, namespace, uid), enabled: uid !== "" });
  return (
    <Panel title="Events">
      <Loaded query={query} rows={2}>
        {(events) =>
          events.length === 0 ? (
            <p className="faint">None in the last hour.</p>
          ) : (
            <ul className="stack tight">
              {events.map((event) => (
                <li key={event.metadata.uid ?? event.metadata.name} className="condition">
                  <State tone={event.type === "Warning" ? "bad" : "good"}>{typeof event.reason === "string" ? event.reason : ""}</State>
                  <span className="soft">
                    {typeof event.message === "string" ? event.message : ""} <span className="faint">{typeof event.lastTimestamp === "string" && <Age time={event.lastTimestamp} />}</span>
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}

function PodTerminal({ environment, namespace, pod }: { environment: string; namespace: string; pod: KubeObject }) {
  const containers = containersOf(pod);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [shell, setShell] = useState("sh");
  const phase = (pod.status as { phase?: string } | undefined)?.phase;
  if (phase !== "Running") return <Empty icon="terminal" title={`The pod is ${phase ?? "not running"}`}>A terminal opens once it runs.</Empty>;
  return (
    <div className="stack tight">
      <div className="toolbar">
        <Choice label="Container" value={container} onChange={setContainer} options={containers.map((each) => ({ value: each, label: each }))} />
        <Choice label="Shell" value={shell} onChange={setShell} options={["sh", "bash", "ash"].map((each) => ({ value: each, label: each }))} />
      </div>
      <Terminal key={`${container}/${shell}`} environment={environment} namespace={namespace} pod={pod.metadata.name} container={container} command={[shell]} />
    </div>
  );
}
