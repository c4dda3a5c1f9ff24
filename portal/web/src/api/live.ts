// Server-sent events feed the cache: what has changed is on the screen without asking again.
import { type QueryClient, type QueryKey, hashKey } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import type { Pages, Query } from "./paged";
import type { Change, Environment, Job, Page } from "./types";
import type { WindowPage } from "./window";

export type LiveState = "connecting" | "live" | "lost";

let state: LiveState = "connecting";
const listeners = new Set<() => void>();

function become(next: LiveState): void {
  if (state === next) return;
  state = next;
  listeners.forEach((listener) => {
    listener();
  });
}

export function useLive(): LiveState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}

/** An environment of an event takes the place of the one that is shown, unless that is newer; events have no pod counts. */
export function newer(before: Environment, changed: Environment): Environment {
  if (before.uid === changed.uid && before.revision > changed.revision) return before;
  return { ...changed, pods: before.uid === changed.uid ? before.pods : changed.pods };
}

type EnvironmentPages = [QueryKey, WindowPage<Environment> | undefined][];
const environmentPages = (cache: QueryClient): EnvironmentPages => cache.getQueriesData<WindowPage<Environment>>({ queryKey: ["environments", "page"] });

/** In each page that has it an environment is as the event says, at once; where it belongs now the server is asked. */
function withEnvironment(cache: QueryClient, changed: Environment): void {
  for (const [key, page] of environmentPages(cache)) {
    const at = page?.items.findIndex((each) => each.name === changed.name) ?? -1;
    const before = page?.items[at];
    if (!page || !before) continue;
    const after = newer(before, changed);
    if (after !== before) cache.setQueryData(key, { ...page, items: page.items.with(at, after) });
  }
}

/** An environment that is gone leaves the page that has it; those behind it are moved up when the server was asked. */
function withoutEnvironment(cache: QueryClient, name: string): void {
  const has = (page: WindowPage<Environment> | undefined): boolean => page?.items.some((each) => each.name === name) === true;
  const lists = new Set(environmentPages(cache).flatMap(([key, page]) => (has(page) ? [hashKey([key[2]])] : [])));
  for (const [key, page] of environmentPages(cache)) {
    if (!page || !lists.has(hashKey([key[2]]))) continue;
    cache.setQueryData(key, { ...page, items: page.items.filter((each) => each.name !== name), total: Math.max(0, (page.total ?? 1) - 1) });
  }
}

/** When lists of environments were read again because of events, and when they will be; where there are many, others change all the time. */
const reading = new WeakMap<QueryClient, { at: number; timer?: ReturnType<typeof setTimeout> }>();
const MANY = 1000;

/** Reads what is in sight of environments again, at once or a while after the last time: how many there are, and in which order, the server says. */
function readAgain(cache: QueryClient): void {
  const last = reading.get(cache);
  if (last?.timer !== undefined) return;
  const total = cache.getQueryData<Page<Environment>>(["environments", "summary"])?.total ?? 0;
  const due = (last?.at ?? -Infinity) + (total > MANY ? 5_000 : 1_000);
  const read = (): void => {
    reading.set(cache, { at: Date.now() });
    // Pages that nobody looks at wait until somebody does.
    const unseen = typeof document !== "undefined" && document.hidden;
    void cache.invalidateQueries({ queryKey: ["environments"], refetchType: unseen ? "none" : "active" });
  };
  const wait = due - Date.now();
  if (wait <= 0) read();
  else reading.set(cache, { at: last?.at ?? 0, timer: setTimeout(read, wait) });
}

/** A job of an event: in its place, or first, since lists are newest first. */
export function withJob(list: Job[] | undefined, changed: Job): Job[] | undefined {
  if (!list) return undefined;
  const at = list.findIndex((j) => j.id === changed.id);
  const before = list[at];
  if (!before) return [changed, ...list];
  return (before.revision ?? 0) > (changed.revision ?? 0) ? list : list.with(at, changed);
}

/** Whether a job is in a list that was asked for so, as far as can be told here: the server searches a text in its project, too. */
function wanted(job: Job, { state = "", operation = "", environment = "", q = "" }: Query): "yes" | "no" | "unknown" {
  const is = (asked: string, value: string): boolean => asked === "" || asked.toLowerCase() === value.toLowerCase();
  if (!is(state, job.state) || !is(operation, job.operation) || !is(environment, job.environment)) return "no";
  const shown = [job.id, job.environment, job.operation, job.state, job.error].join("\n").toLowerCase();
  return shown.includes(q.toLowerCase()) ? "yes" : "unknown";
}

/**
 * A job of an event in the pages of a list: in its place, gone when it is not wanted there any more, among the others by its id when the
 * newest come first. One that belongs to a page that was not read yet is left to it.
 */
export function withJobInPages(pages: Pages<Job> | undefined, changed: Job, asked: Query): Pages<Job> | undefined {
  if (!pages) return undefined;
  const known = pages.pages.flatMap((page) => page.items).find((each) => each.id === changed.id);
  if (known && (known.revision ?? 0) > (changed.revision ?? 0)) return pages;
  const fits = wanted(changed, asked);
  if (known) {
    const items = (list: Job[]): Job[] => list.flatMap((each) => (each.id !== changed.id ? [each] : fits === "no" ? [] : [changed]));
    return { ...pages, pages: pages.pages.map((page) => ({ ...page, items: items(page.items) })) };
  }
  if (fits !== "yes" || asked.sort !== "-id") return pages;
  const before = pages.pages.findIndex((page) => page.items.some((each) => each.id < changed.id));
  const at = before === -1 ? pages.pages.length - 1 : before;
  const page = pages.pages[at];
  if (!page || (before === -1 && page.next)) return pages;
  const place = before === -1 ? page.items.length : page.items.findIndex((each) => each.id < changed.id);
  return { ...pages, pages: pages.pages.with(at, { ...page, items: page.items.toSpliced(place, 0, changed) }) };
}

export function apply(cache: QueryClient, change: Change): void {
  switch (change.kind) {
    case "environment":
      withEnvironment(cache, change.object);
      cache.setQueryData<Environment>(["environment", change.object.name], (known) => (known ? newer(known, change.object) : undefined));
      readAgain(cache);
      break;
    case "environmentDeleted":
      withoutEnvironment(cache, change.name);
      readAgain(cache);
      void cache.invalidateQueries({ queryKey: ["environment", change.name] });
      break;
    case "job": {
      const known = cache.getQueryData<Job>(["job", change.object.id]);
      if (known && (known.revision ?? 0) > (change.object.revision ?? 0)) break;
      cache.setQueryData(["job", change.object.id], change.object);
      cache.setQueryData<Job[]>(["jobs", change.object.environment], (list) => withJob(list, change.object));
      for (const [key, pages] of cache.getQueriesData<Pages<Job>>({ queryKey: ["job-pages"] })) {
        const next = withJobInPages(pages, change.object, key[1] as Query);
        if (next !== pages) cache.setQueryData(key, next);
      }
      break;
    }
    case "approval":
      for (const key of ["approvals", "approvals-waiting"]) void cache.invalidateQueries({ queryKey: [key] });
      void cache.invalidateQueries({ queryKey: ["approval", change.id] });
      break;
    case "reset":
      void cache.invalidateQueries();
      break;
  }
}

/** Listens from now on, for as long as the page is open; the browser connects again by itself. */
export function listen(cache: QueryClient): () => void {
  const source = new EventSource("/api/v1/events");
  let interrupted = false;
  const opened = (): void => {
    become("live");
    // What happened meanwhile is told by Last-Event-ID, but pod counts are not.
    if (interrupted) void cache.invalidateQueries();
    interrupted = false;
  };
  const failed = (): void => {
    interrupted = true;
    become("lost");
    // A closed source has been refused: the session may have ended, which the next request tells.
    if (source.readyState === EventSource.CLOSED) void cache.invalidateQueries({ queryKey: ["session"] });
  };
  const changed = (event: MessageEvent<string>): void => apply(cache, JSON.parse(event.data) as Change);
  source.addEventListener("open", opened);
  source.addEventListener("error", failed);
  source.addEventListener("change", changed);
  return () => source.close();
}
