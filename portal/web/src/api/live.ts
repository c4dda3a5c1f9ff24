// Server-sent events feed the cache: what has changed is on the screen without asking again.
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import type { Pages, Query } from "./paged";
import type { Change, Environment, Job } from "./types";

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

/** An environment of an event takes the place of the one that is shown; events have no pod counts. */
export function withEnvironment(list: Environment[] | undefined, changed: Environment): Environment[] | undefined {
  if (!list) return undefined;
  const at = list.findIndex((e) => e.name === changed.name);
  const before = list[at];
  if (!before) return [...list, changed].sort((a, b) => (a.name < b.name ? -1 : 1));
  if (before.uid === changed.uid && before.revision > changed.revision) return list;
  return list.with(at, { ...changed, pods: before.uid === changed.uid ? before.pods : changed.pods });
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
      cache.setQueryData<Environment[]>(["environments"], (list) => withEnvironment(list, change.object));
      cache.setQueryData<Environment>(["environment", change.object.name], (known) => (known ? withEnvironment([known], change.object)?.[0] : undefined));
      break;
    case "environmentDeleted":
      cache.setQueryData<Environment[]>(["environments"], (list) => list?.filter((e) => e.name !== change.name));
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
