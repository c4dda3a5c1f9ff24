// What is asked of the portal, by the key it is cached under.
import { queryOptions } from "@tanstack/react-query";
import { json } from "./client";
import type { AuditEntry, Environment, Job, Page, Project, QuotaUsage, ServerStatus, Session, Template, Worker } from "./types";

const base = "/api/v1";
export const environmentPath = (name: string): string => `${base}/environments/${encodeURIComponent(name)}`;

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => json<Session>(`${base}/session`, { signal }),
  staleTime: 5 * 60_000,
});

/** All environments. Changes come as events; pod counts do not, so the list is read again from time to time. */
export const environmentsQuery = queryOptions({
  queryKey: ["environments"],
  queryFn: async ({ signal }) => (await json<Page<Environment>>(`${base}/environments`, { signal })).items,
  refetchInterval: (query) => ((query.state.data?.length ?? 0) > 500 ? 120_000 : 15_000),
});

export const environmentQuery = (name: string) =>
  queryOptions({
    queryKey: ["environment", name],
    queryFn: ({ signal }) => json<Environment>(environmentPath(name), { signal }),
    refetchInterval: 5_000,
  });

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: async ({ signal }) => (await json<Page<Template>>(`${base}/templates`, { signal })).items,
});

export const templateQuery = (name: string) =>
  queryOptions({
    queryKey: ["template", name],
    queryFn: ({ signal }) => json<Template>(`${base}/templates/${encodeURIComponent(name)}`, { signal }),
  });

export const jobsQuery = (environment?: string) =>
  queryOptions({
    queryKey: ["jobs", environment ?? ""],
    queryFn: async ({ signal }) => {
      const filter = environment === undefined ? "" : `environment=${encodeURIComponent(environment)}&`;
      return (await json<Page<Job>>(`${base}/jobs?${filter}limit=200`, { signal })).items;
    },
  });

export const jobQuery = (id: string) =>
  queryOptions({ queryKey: ["job", id], queryFn: ({ signal }) => json<Job>(`${base}/jobs/${encodeURIComponent(id)}`, { signal }) });

export const projectPath = (name: string): string => `${base}/projects/${encodeURIComponent(name)}`;

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: async ({ signal }) => (await json<Page<Project>>(`${base}/projects`, { signal })).items,
});

export const usageQuery = (project: string) =>
  queryOptions({ queryKey: ["usage", project], queryFn: ({ signal }) => json<QuotaUsage>(`${projectPath(project)}/usage`, { signal }), refetchInterval: 30_000 });

export const rolesQuery = queryOptions({
  queryKey: ["roles"],
  queryFn: async ({ signal }) => (await json<Page<{ name: string }>>(`${base}/roles`, { signal })).items.map((role) => role.name),
});

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: async ({ signal }) => (await json<Page<Worker>>(`${base}/workers`, { signal })).items,
  refetchInterval: 10_000,
});

export const statusQuery = queryOptions({
  queryKey: ["status"],
  queryFn: ({ signal }) => json<ServerStatus>(`${base}/status`, { signal }),
  refetchInterval: 10_000,
});

export async function auditPage(after: string, signal: AbortSignal): Promise<Page<AuditEntry>> {
  const from = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
  return json<Page<AuditEntry>>(`${base}/audit?limit=200${from}`, { signal });
}
