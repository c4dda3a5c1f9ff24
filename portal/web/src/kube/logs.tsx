// Logs of one or several pods: followed, searched, saved.
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { json, send } from "../api/client";
import { download } from "../lib/download";
import { plural } from "../lib/format";
import { useQueryValue } from "../lib/router";
import { Button, Choice, Search, Switch } from "../ui/controls";
import { Empty, ErrorNote, Loaded } from "../ui/feedback";
import { type KubeObject, kube, lines, namespacesQuery } from "./client";

/** Lines that are kept of all pods together. */
const KEEP = 20_000;
/** Pods that are followed at once: each is a connection. */
export const MOST_PODS = 20;

export interface LogLine {
  id: number;
  from: string;
  text: string;
}

export function containersOf(pod: KubeObject): string[] {
  const spec = pod.spec as { initContainers?: { name: string }[]; containers?: { name: string }[]; ephemeralContainers?: { name: string }[] } | undefined;
  return [...(spec?.containers ?? []), ...(spec?.initContainers ?? []), ...(spec?.ephemeralContainers ?? [])].map((each) => each.name);
}

/** Colours and cursor movements of a terminal are no text. */
export function withoutEscapes(text: string): string {
  return text.replaceAll(/\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g, "");
}

/** The page of an environment: pods by namespace and name. */
export default function Logs({ environment }: { environment: string }) {
  const [namespace, setNamespace] = useQueryValue("namespace", "default");
  const [wanted, setWanted] = useQueryValue("pod");
  const namespaces = useQuery(namespacesQuery(environment));
  const pods = useQuery({
    queryKey: ["kube", environment, "pods", namespace],
    queryFn: async ({ signal }) => (await json<{ items: KubeObject[] }>(kube(environment, `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?limit=500`), { signal })).items,
    refetchInterval: 5_000,
  });
  return (
    <Loaded query={pods}>
      {(list) => {
        const shown = list.filter((pod) => pod.metadata.name.startsWith(wanted)).slice(0, MOST_PODS);
        return (
          <LogView environment={environment} namespace={namespace} pods={shown}>
            <Choice label="Namespace" value={namespace} onChange={setNamespace} options={[...new Set([namespace, ...(namespaces.data ?? [])])].map((each) => ({ value: each, label: each }))} />
            <Choice label="Pods" value={wanted} onChange={setWanted} options={[{ value: "", label: list.length > MOST_PODS ? `First ${MOST_PODS} pods` : "All pods" }, ...list.map((pod) => ({ value: pod.metadata.name, label: pod.metadata.name }))]} />
          </LogView>
        );
      }}
    </Loaded>
  );
}

export function LogView({ environment, namespace, pods, children }: { environment: string; namespace: string; pods: KubeObject[]; children?: ReactNode }) {
  const [container, setContainer] = useState("");
  const [previous, setPrevious] = useState(false);
  const [follow, setFollow] = useState(true);
  const [text, setText] = useState("");
  const containers = useMemo(() => [...new Set(pods.flatMap(containersOf))], [pods]);
  const sources = pods.flatMap((pod) => containersOf(pod).filter((each) => (container === "" ? true : each === container)).slice(0, container === "" ? 1 : undefined).map((each) => `${pod.metadata.name}/${each}`));
  const key = sources.join(" ");
  const { all, errors, ended } = useLines(environment, namespace, key, previous, follow);
  const wanted = text.toLowerCase();
  const shown = useMemo(() => (wanted === "" ? all : all.filter((line) => line.text.toLowerCase().includes(wanted))), [all, wanted]);
  const several = sources.length > 1;
  const save = (): void => download(`${environment}-${pods.length === 1 ? (pods[0]?.metadata.name ?? "pod") : namespace}.log`, shown.map((line) => (several ? `${line.from}: ${line.text}` : line.text)).join("\n") + "\n", "text/plain");
  return (
    <div className="stack tight">
      <div className="toolbar">
        {children}
        {containers.length > 1 && <Choice label="Container" value={container} onChange={setContainer} options={[{ value: "", label: "First container" }, ...containers.map((each) => ({ value: each, label: each }))]} />}
        <Search label="Find in logs" value={text} onChange={setText} />
        <Switch selected={follow} onChange={setFollow}>
          Follow
        </Switch>
        <Switch selected={previous} onChange={setPrevious}>
          Previous
        </Switch>
        <span className="spring" />
        <Button icon="download" disabledReason={shown.length === 0 ? "There are no lines to save" : undefined} onPress={save}>
          Save
        </Button>
      </div>
      {errors.map((error) => (
        <ErrorNote key={error} error={new Error(error)} />
      ))}
      {sources.length === 0 ? <Empty icon="logs" title="No pods" /> : shown.length === 0 ? <Empty icon="logs" title={all.length > 0 ? "Nothing matches" : ended ? "No lines" : "Waiting for lines"} /> : <Lines list={shown} several={several} follow={follow} find={wanted} />}
      <p className="faint" role="status">
        {plural(shown.length, "line")}
        {all.length >= KEEP ? `, the last ${KEEP.toLocaleString("en")} are kept` : ""}
      </p>
    </div>
  );
}

/** The lines of these containers (`pod/container`, separated by spaces), as they come. */
function useLines(environment: string, namespace: string, key: string, previous: boolean, follow: boolean): { all: LogLine[]; errors: string[]; ended: boolean } {
  const [all, setAll] = useState<LogLine[]>([]);
  const [errors, setErrors] = useState<string[]>([]);
  const [ended, setEnded] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    let next = 1;
    let buffer: LogLine[] = [];
    let due: ReturnType<typeof setTimeout> | undefined;
    setAll([]);
    setErrors([]);
    setEnded(false);
    const publish = (): void => {
      due = undefined;
      const fresh = buffer;
      buffer = [];
      setAll((before) => [...before, ...fresh].slice(-KEEP));
    };
    const read = async (source: string): Promise<void> => {
      const [pod = "", container = ""] = source.split("/");
      try {
        const query = `container=${encodeURIComponent(container)}&tailLines=2000${follow && !previous ? "&follow=true" : ""}${previous ? "&previous=true" : ""}`;
        const response = await send(kube(environment, `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log?${query}`), { signal: stop.signal, headers: { accept: "*/*" } });
        if (!response.body) return;
        for await (const line of lines(response.body)) {
          buffer.push({ id: next++, from: source, text: withoutEscapes(line) });
          // A burst is one change of the screen.
          due ??= setTimeout(publish, 80);
        }
      } catch (error) {
        if (!stop.signal.aborted) setErrors((before) => [...before, `${source}: ${error instanceof Error ? error.message : String(error)}`].slice(-3));
      }
    };
    void Promise.all(key.split(" ").filter(Boolean).map(read)).then(() => {
      if (!stop.signal.aborted) setEnded(true);
    });
    return () => {
      stop.abort();
      clearTimeout(due);
    };
  }, [environment, namespace, key, previous, follow]);
  return { all, errors, ended };
}

function Lines({ list, several, follow, find }: { list: LogLine[]; several: boolean; follow: boolean; find: string }) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: list.length, getScrollElement: () => box.current, estimateSize: () => 19, overscan: 20, getItemKey: (index) => list[index]?.id ?? index });
  const end = useRef(true);
  useEffect(() => {
    if (follow && end.current && list.length > 0) virtual.scrollToIndex(list.length - 1, { align: "end" });
  }, [list.length, follow, virtual]);
  const scrolled = (): void => {
    const element = box.current;
    if (element) end.current = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
  };
  return (
    <div ref={box} className="log log-view" role="log" aria-label="Log lines" aria-live="off" tabIndex={0} onScroll={scrolled}>
      <div className="virtual" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const line = list[item.index];
          if (!line) return null;
          return (
            <div key={item.key} ref={virtual.measureElement} data-index={item.index} className="line" style={{ transform: `translateY(${item.start}px)` }}>
              {several && <span className="from">{line.from.split("/")[0]}</span>}
              <span>
                <Marked text={line.text} find={find} />
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Marked({ text, find }: { text: string; find: string }) {
  const at = find === "" ? -1 : text.toLowerCase().indexOf(find);
  if (at < 0) return <>{text === "" ? " " : text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + find.length)}</mark>
      {text.slice(at + find.length)}
    </>
  );
}
