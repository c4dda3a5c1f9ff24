import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { apply, withJobInPages } from "./live";
import type { Pages, Query } from "./paged";
import type { Environment, Job } from "./types";

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

const names = (cache: QueryClient): string[] => cache.getQueryData<Environment[]>(["environments"])?.map((e) => `${e.name} ${e.phase}`) ?? [];

test("events keep the list as it is on the server", () => {
  const cache = new QueryClient();
  apply(cache, { kind: "environment", object: environment("early") });
  expect(names(cache), "what was never asked for is not made up").toEqual([]);
  cache.setQueryData(["environments"], [environment("b", { pods: { ready: 2, total: 3 }, revision: 5 })]);
  apply(cache, { kind: "environment", object: environment("a") });
  apply(cache, { kind: "environment", object: environment("b", { phase: "Ready", revision: 6 }) });
  expect(names(cache)).toEqual(["a Creating", "b Ready"]);
  expect(cache.getQueryData<Environment[]>(["environments"])?.[1]?.pods, "events have no pod counts").toEqual({ ready: 2, total: 3 });
  apply(cache, { kind: "environment", object: environment("b", { phase: "Creating", revision: 5 }) });
  expect(names(cache), "an event that is older than what is known").toEqual(["a Creating", "b Ready"]);
  apply(cache, { kind: "environmentDeleted", name: "a" });
  expect(names(cache)).toEqual(["b Ready"]);
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
  const stale = (key: unknown[]): boolean | undefined => cache.getQueryState(key)?.isInvalidated;
  expect([stale(["approvals", { view: "mine" }]), stale(["approval", "1"]), stale(["approval", "2"])]).toEqual([true, true, false]);
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
