import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { apply, withJobInPages } from "./live";
import type { Pages, Query } from "./paged";
import type { Environment, Job } from "./types";
import { type WindowPage, pagesOf, rowsOf } from "./window";

const environment = (name: string, more: Partial<Environment> = {}): Environment => ({
  name,
  uid: `uid-${name}`,
  template: "blank",
  templateVersion: "1.0.0",
  parameters: {},
  phase: "Creating",
  message: "",
  createdAt: "2026-01-01T00:00:00Z",
  readyAt: null,
  server: "",
  kubernetesVersion: "v1.36.0",
  owner: "somebody",
  job: null,
  pods: { ready: 0, total: 0 },
  revision: 1,
  ...more,
});

/** A list of environments of which page 0 and page 7 were read. */
function listed(asked: object, first: Environment[], eighth: Environment[] = []): QueryClient {
  const cache = new QueryClient();
  const page = (items: Environment[], number: number): void => void cache.setQueryData(["environments", "page", asked, number], { items, total: 900, first: number * 100 });
  page(first, 0);
  page(eighth, 7);
  return cache;
}
const pageOf = (cache: QueryClient, asked: object, number: number) => cache.getQueryData<WindowPage<Environment>>(["environments", "page", asked, number]);
const names = (cache: QueryClient, asked: object, number = 0): string[] => pageOf(cache, asked, number)?.items.map((e) => `${e.name} ${e.phase}`) ?? [];
const stale = (cache: QueryClient, key: unknown[]): boolean | undefined => cache.getQueryState(key)?.isInvalidated;

test("an event changes what is in sight at once, and never to what is older", () => {
  const asked = { sort: "name" };
  const cache = listed(asked, [environment("a")], [environment("b", { pods: { ready: 2, total: 3 }, revision: 5 })]);
  apply(cache, { kind: "environment", object: environment("b", { phase: "Ready", revision: 6 }) });
  expect(names(cache, asked, 7)).toEqual(["b Ready"]);
  expect(pageOf(cache, asked, 7)?.items[0]?.pods, "events have no pod counts").toEqual({ ready: 2, total: 3 });
  apply(cache, { kind: "environment", object: environment("b", { phase: "Creating", revision: 5 }) });
  expect(names(cache, asked, 7), "an event that is older than what is known").toEqual(["b Ready"]);
  apply(cache, { kind: "environment", object: environment("aa") });
  expect(names(cache, asked), "where it belongs is the server's to say").toEqual(["a Creating"]);
  apply(cache, { kind: "environmentDeleted", name: "b" });
  expect([names(cache, asked), names(cache, asked, 7)]).toEqual([["a Creating"], []]);
  expect([0, 7].map((page) => pageOf(cache, asked, page)?.total)).toEqual([899, 899]);
});

test("lists are read again after events: at once, and then once in a while", () => {
  vi.useFakeTimers();
  const cache = listed({}, [environment("a")]);
  const key = ["environments", "page", {}, 0];
  const summary = (total: number): void => void cache.setQueryData(["environments", "summary"], { items: [], total });
  const read = (): void => void cache.setQueryData(key, pageOf(cache, {}, 0));
  const event = (): void => apply(cache, { kind: "environment", object: environment("new") });
  event();
  expect(stale(cache, key), "at once").toBe(true);
  summary(20);
  read();
  event();
  event();
  expect(stale(cache, key), "not for each of them").toBe(false);
  vi.advanceTimersByTime(1_000);
  expect(stale(cache, key), "but for the last one too").toBe(true);
  summary(10_000);
  read();
  event();
  vi.advanceTimersByTime(1_000);
  expect(stale(cache, key), "where there are many, others change all the time").toBe(false);
  vi.advanceTimersByTime(4_000);
  expect(stale(cache, key)).toBe(true);
  vi.useRealTimers();
});

test("rows that were not read are holes; one that two pages have is there once", () => {
  const page = (first: number, ...items: string[]) => ({ items, first });
  const id = (row: string) => row;
  expect(rowsOf(5, [page(0, "a", "b"), undefined, page(3, "d")], id)).toEqual(["a", "b", undefined, "d", undefined]);
  // Something before it was deleted between the two answers.
  expect(rowsOf(4, [page(0, "a", "c"), page(2, "c", "d")], id)).toEqual(["a", "c", undefined, "d"]);
  expect(rowsOf(1, [page(0, "a", "b")], id)).toEqual(["a"]);
  expect(pagesOf(0, 30, 10_000), "the first one is read anyway").toEqual([]);
  expect(pagesOf(60, 90, 10_000)).toEqual([1]);
  expect(pagesOf(5_000, 5_050, 10_000)).toEqual([49, 50, 51]);
  expect(pagesOf(9_950, 10_000, 10_000)).toEqual([99]);
  expect(pagesOf(5_000, 5_050, 90), "the list has become shorter").toEqual([]);
});

test("a job takes its place in every list it belongs to", () => {
  const job = (state: Job["state"], revision: number): Job => ({ id: "1", environment: "a", operation: "create", state, attempt: 1, steps: [], createdAt: "", finishedAt: null, error: "", revision });
  const cache = new QueryClient();
  cache.setQueryData(["jobs", "a"], [job("pending", 1)]);
  const pages = (asked: object): unknown[] => ["job-pages", { sort: "-id", ...asked }];
  for (const asked of [{}, { state: "running" }, { state: "pending" }, { q: "B" }, { sort: "environment" }]) cache.setQueryData(pages(asked), { pages: [{ items: [] }], pageParams: [""] });
  cache.setQueryData(pages({ state: "pending" }), { pages: [{ items: [job("pending", 1)] }], pageParams: [""] });
  apply(cache, { kind: "job", object: job("running", 2) });
  apply(cache, { kind: "job", object: job("pending", 1) });
  expect(cache.getQueryData<Job[]>(["jobs", "a"])?.map((j) => j.state)).toEqual(["running"]);
  const shown = (asked: object): string[] => cache.getQueryData<Pages<Job>>(pages(asked))?.pages.flatMap((page) => page.items.map((j) => j.state)) ?? [];
  expect([shown({}), shown({ state: "running" })]).toEqual([["running"], ["running"]]);
  expect(shown({ state: "pending" }), "it waits no more").toEqual([]);
  expect(shown({ q: "B" }), "another environment").toEqual([]);
  expect(shown({ sort: "environment" }), "its place is the server's to say").toEqual([]);
  expect(cache.getQueryData<Job>(["job", "1"])?.state).toBe("running");
});

test("what is shown of approvals is read again when one of them has changed", () => {
  const cache = new QueryClient();
  for (const key of [["approvals", { view: "mine" }], ["approval", "1"], ["approval", "2"]]) cache.setQueryData(key, []);
  apply(cache, { kind: "approval", id: "1", state: "Approved" });
  expect([stale(cache, ["approvals", { view: "mine" }]), stale(cache, ["approval", "1"]), stale(cache, ["approval", "2"])]).toEqual([true, true, false]);
});

test("a job that is told late stands where it belongs", () => {
  const job = (id: string, more: Partial<Job> = {}): Job => ({ id, environment: "a", operation: "create", state: "failed", attempt: 1, steps: [], createdAt: "", finishedAt: null, error: "", revision: 1, ...more });
  const ids = (asked: Query, rows: Job[][], next: string | undefined, told: Job): string[][] | undefined => {
    const pages = rows.map((items, at) => ({ items, ...(at < rows.length - 1 ? { next: "more" } : next === undefined ? {} : { next }) }));
    return withJobInPages({ pages, pageParams: rows.map(() => "") }, told, asked)?.pages.map((page) => page.items.map((each) => each.id));
  };
  const [newest, page] = [{ sort: "-id" }, [[job("9"), job("7")], [job("4")]]];
  expect(ids(newest, page, undefined, job("8")), "between two").toEqual([["9", "8", "7"], ["4"]]);
  expect(ids(newest, page, undefined, job("5")), "between two pages").toEqual([["9", "7"], ["5", "4"]]);
  expect(ids(newest, page, undefined, job("3")), "behind the last of all").toEqual([["9", "7"], ["4", "3"]]);
  expect(ids(newest, page, "more", job("3")), "on a page that was not read yet").toEqual([["9", "7"], ["4"]]);
  expect(ids(newest, [[]], undefined, job("3")), "the first").toEqual([["3"]]);
  const searched = { sort: "-id", q: "billing" };
  expect(ids(searched, page, undefined, job("7", { revision: 2 })), "the server found it by its project").toEqual([["9", "7"], ["4"]]);
  expect(ids(searched, page, undefined, job("8", { error: "Billing is down" })), "what it shows is searched here").toEqual([["9", "8", "7"], ["4"]]);
  expect(ids({ ...searched, state: "failed" }, page, undefined, job("7", { revision: 2, state: "running" })), "wanted no more").toEqual([["9"], ["4"]]);
});
