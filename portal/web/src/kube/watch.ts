// A server-side table that keeps itself up to date: list once, then watch; list again when history is gone.
import { useEffect, useState } from "react";
import { Problem, json, send } from "../api/client";
import { type Resource, type TableColumn, type TableDocument, type TableRow, collectionPath, kube, lines } from "./client";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/** Rows that are read of one kind: more is for a shell. */
export const ROW_LIMIT = 20_000;

export interface LiveTable {
  columns: TableColumn[];
  rows: TableRow[];
  /** There are more than are shown. */
  more: boolean;
  loading: boolean;
  error: unknown;
}

const EMPTY: LiveTable = { columns: [], rows: [], more: false, loading: true, error: undefined };

interface WatchEvent {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: TableDocument & { code?: number; message?: string };
}

interface ListDocument {
  metadata: TableDocument["metadata"];
  items?: { metadata: TableRow["object"]["metadata"] }[];
}

/** What the server gave as a table; a server that makes none (an aggregated API) gave a list, of which names and ages are shown. */
export function asTable(document: TableDocument | ListDocument): TableDocument {
  if ("rows" in document) return document;
  const column = (name: string, format: string): TableColumn => ({ name, type: "string", format, description: "", priority: 0 });
  const rows = ("items" in document ? (document.items ?? []) : []).map((item) => ({ cells: [item.metadata.name, item.metadata.creationTimestamp ?? ""], object: { metadata: item.metadata } }));
  return { metadata: document.metadata, columnDefinitions: [column("Name", "name"), column("Created At", "")], rows };
}

const keyOf = (row: TableRow): string => row.object.metadata.uid ?? `${row.object.metadata.namespace ?? ""}/${row.object.metadata.name}`;

/** The rows after an event; the order of those that stay is kept. */
export function applied(rows: Map<string, TableRow>, event: WatchEvent): void {
  for (const row of event.object.rows) {
    if (event.type === "DELETED") rows.delete(keyOf(row));
    else rows.set(keyOf(row), row);
  }
}

export function useTable(environment: string, resource: Resource, namespace: string): LiveTable {
  const [table, setTable] = useState<LiveTable>(EMPTY);
  const { group, version, plural, namespaced } = resource;
  const watchable = resource.verbs.includes("watch");
  useEffect(() => {
    const stop = new AbortController();
    setTable(EMPTY);
    void run(environment, { group, version, plural, namespaced }, namespace, watchable, stop.signal, setTable);
    return () => stop.abort();
  }, [environment, group, version, plural, namespaced, namespace, watchable]);
  return table;
}

const wait = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

async function run(
  environment: string,
  resource: Pick<Resource, "group" | "version" | "plural" | "namespaced">,
  namespace: string,
  watchable: boolean,
  signal: AbortSignal,
  show: (change: (table: LiveTable) => LiveTable) => void,
): Promise<void> {
  const path = kube(environment, collectionPath(resource, namespace));
  let pause = 1000;
  const ended = (): boolean => signal.aborted;
  while (!ended()) {
    try {
      const rows = new Map<string, TableRow>();
      let columns: TableColumn[] = [];
      let from = "";
      let next = "";
      do {
        const page = asTable(await json<TableDocument | ListDocument>(`${path}?limit=500${next === "" ? "" : `&continue=${encodeURIComponent(next)}`}`, { headers: { accept: TABLE }, signal }));
        columns = page.columnDefinitions ?? columns;
        page.rows.forEach((row) => rows.set(keyOf(row), row));
        from = page.metadata.resourceVersion ?? "";
        next = page.metadata.continue ?? "";
        const shown = { columns, rows: [...rows.values()], more: next !== "", loading: false, error: undefined };
        show(() => shown);
      } while (next !== "" && rows.size < ROW_LIMIT);
      pause = 1000;
      if (!watchable || next !== "") await wait(10_000, signal);
      else await follow(path, from, rows, signal, show);
    } catch (error) {
      if (ended()) return;
      show((table) => ({ ...table, loading: false, error }));
      // What is refused now is asked again, ever more rarely: rights and kinds come and go.
      await wait(pause, signal);
      pause = Math.min(pause * 2, 30_000);
    }
  }
}

/** Applies what a watch tells until its history is gone; a connection that ends is taken up again where it was. */
async function follow(path: string, from: string, rows: Map<string, TableRow>, signal: AbortSignal, show: (change: (table: LiveTable) => LiveTable) => void): Promise<void> {
  let at = from;
  let due: ReturnType<typeof setTimeout> | undefined;
  const publish = (): void => {
    due = undefined;
    const shown = [...rows.values()];
    show((table) => ({ ...table, rows: shown, error: undefined }));
  };
  try {
    while (!signal.aborted) {
      const response = await send(`${path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=${encodeURIComponent(at)}`, { headers: { accept: TABLE }, signal });
      if (!response.body) return;
      for await (const line of lines(response.body)) {
        if (line === "") continue;
        const event = JSON.parse(line) as WatchEvent;
        if (event.type === "ERROR") {
          if (event.object.code === 410) return;
          throw new Problem({ status: event.object.code ?? 500, type: "watch", detail: event.object.message ?? "The watch has ended", requestId: "" });
        }
        at = event.object.rows[0]?.object.metadata.resourceVersion ?? event.object.metadata.resourceVersion ?? at;
        if (event.type === "BOOKMARK") continue;
        applied(rows, event);
        // A burst is one change of the screen.
        due ??= setTimeout(publish, 120);
      }
    }
  } finally {
    clearTimeout(due);
  }
}
