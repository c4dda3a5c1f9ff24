// What is asked of the portal, by the key it is cached under.
import { queryOptions } from "@tanstack/react-query";
import { json } from "./client";
import type {
  ApiKey,
  Approval,
  ApprovalRule,
  AuditEntry,
  AuditFilter,
  ClientLogin,
  Environment,
  Identity,
  Job,
  Page,
  Platform,
  Project,
  QuotaUsage,
  Resource,
  Role,
  ServerStatus,
  Session,
  Team,
  Template,
  TemplateVersion,
  UsageSeries,
  User,
  Webhook,
  Worker,
} from "./types";

const base = "/api/v1";

/** A list to its end, page by page. */
async function all<T>(path: string, signal: AbortSignal): Promise<T[]> {
  const items: T[] = [];
  let next: string | undefined;
  do {
    const page: Page<T> = await json<Page<T>>(next === undefined ? path : `${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(next)}`, { signal });
    items.push(...page.items);
    next = page.next ?? undefined;
  } while (next !== undefined);
  return items;
}

export const environmentPath = (name: string): string => `${base}/environments/${encodeURIComponent(name)}`;

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: ({ signal }) => json<Session>(`${base}/session`, { signal }),
  staleTime: 5 * 60_000,
});

/** So often pods are counted again, in milliseconds: changes of them are no events. */
export const ENVIRONMENTS_AGAIN = 15_000;

/** How many environments there are, of which phases and templates. */
export const environmentsQuery = queryOptions({
  queryKey: ["environments", "summary"],
  queryFn: ({ signal }) => json<Page<Environment>>(`${base}/environments?limit=1&counts=phase&counts=template`, { signal }),
  refetchInterval: 60_000,
});

/** Whether one may see an environment of this name. */
export const takenQuery = (name: string) =>
  queryOptions({
    queryKey: ["environments", "named", name],
    queryFn: async ({ signal }) => (await json<Page<Environment>>(`${base}/environments?limit=1&name=${encodeURIComponent(name)}`, { signal })).items.length > 0,
    enabled: name !== "",
  });

export const environmentQuery = (name: string) =>
  queryOptions({
    queryKey: ["environment", name],
    queryFn: ({ signal }) => json<Environment>(environmentPath(name), { signal }),
    refetchInterval: 5_000,
  });

export const templatesQuery = queryOptions({
  queryKey: ["templates"],
  queryFn: ({ signal }) => all<Template>(`${base}/templates`, signal),
});

export const templateQuery = (name: string) =>
  queryOptions({
    queryKey: ["template", name],
    queryFn: ({ signal }) => json<Template>(`${base}/templates/${encodeURIComponent(name)}`, { signal }),
  });

/** Most jobs of a time line. */
export const JOBS = 200;

/** The last jobs of an environment, newest first; the page of jobs has all of them. */
export const jobsQuery = (environment: string) =>
  queryOptions({
    queryKey: ["jobs", environment],
    queryFn: async ({ signal }) => (await json<Page<Job>>(`${base}/jobs?environment=${encodeURIComponent(environment)}&limit=${JOBS}`, { signal })).items,
  });

export const jobQuery = (id: string) =>
  queryOptions({ queryKey: ["job", id], queryFn: ({ signal }) => json<Job>(`${base}/jobs/${encodeURIComponent(id)}`, { signal }) });

export const projectPath = (name: string): string => `${base}/projects/${encodeURIComponent(name)}`;

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal }) => all<Project>(`${base}/projects`, signal),
});

export const usageQuery = (project: string) =>
  queryOptions({ queryKey: ["usage", project], queryFn: ({ signal }) => json<QuotaUsage>(`${projectPath(project)}/usage`, { signal }), refetchInterval: 30_000 });

const list = <T>(path: string) => queryOptions({ queryKey: [path], queryFn: ({ signal }) => all<T>(`${base}/${path}`, signal) });

export const rolesQuery = list<Role>("roles");
export const teamsQuery = list<Team>("teams");
export const usersQuery = list<User>("users");
export const resourcesQuery = list<Resource>("resources");
export const platformQuery = queryOptions({ queryKey: ["platform"], queryFn: ({ signal }) => json<Platform>(`${base}/platform`, { signal }) });
export const identityQuery = queryOptions({ queryKey: ["identity"], queryFn: ({ signal }) => json<Identity>(`${base}/identity`, { signal }) });

export const apiKeysQuery = (everybody: boolean) =>
  queryOptions({
    queryKey: ["api-keys", everybody],
    queryFn: ({ signal }) => all<ApiKey>(`${base}/api-keys${everybody ? "?all=true" : ""}`, signal),
  });

export const loginsQuery = list<ClientLogin>("logins");

export const templateVersionsQuery = (name: string) =>
  queryOptions({
    queryKey: ["template-versions", name],
    queryFn: ({ signal }) => all<TemplateVersion>(`${base}/templates/${encodeURIComponent(name)}/versions`, signal),
  });

/** Where permissions are asked for: in a project, with an environment, or (neither) on the platform. */
export interface Place {
  project?: string;
  environment?: string;
}

export const permissionsQuery = ({ project, environment }: Place) =>
  queryOptions({
    queryKey: ["permissions", project ?? "", environment ?? ""],
    queryFn: async ({ signal }) => {
      const at = project !== undefined ? `?project=${encodeURIComponent(project)}` : environment !== undefined ? `?environment=${encodeURIComponent(environment)}` : "";
      return (await json<{ permissions: string[] }>(`${base}/permissions${at}`, { signal })).permissions;
    },
    staleTime: 30_000,
  });

/** How many requests for approval wait for who is signed in, as it is shown; nothing when there are none. */
export const waitingQuery = queryOptions({
  queryKey: ["approvals-waiting"],
  queryFn: async ({ signal }) => {
    const { items, next } = await json<Page<Approval>>(`${base}/approvals?decidable=true&limit=99`, { signal });
    return items.length === 0 ? null : next == null ? String(items.length) : `${items.length}+`;
  },
  refetchInterval: 30_000,
});

export const approvalQuery = (id: string) =>
  queryOptions({
    queryKey: ["approval", id],
    queryFn: ({ signal }) => json<Approval>(`${base}/approvals/${encodeURIComponent(id)}`, { signal }),
    refetchInterval: 4_000,
  });

export const approvalRulesQuery = list<ApprovalRule>("approval-rules");

export const webhooksQuery = list<Webhook>("webhooks");

/** What an environment used: `since` is how long ago, such as `24h`; a step is whole minutes. */
export const seriesQuery = (environment: string, since: string, step: string) =>
  queryOptions({
    queryKey: ["series", environment, since, step],
    queryFn: ({ signal }) => json<UsageSeries>(`${environmentPath(environment)}/usage?since=${since}&step=${step}`, { signal }),
    refetchInterval: 30_000,
  });

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: ({ signal }) => all<Worker>(`${base}/workers`, signal),
  refetchInterval: 10_000,
});

export const statusQuery = queryOptions({
  queryKey: ["status"],
  queryFn: ({ signal }) => json<ServerStatus>(`${base}/status`, { signal }),
  refetchInterval: 10_000,
});

/** The filter as the server takes it. */
export function auditQuery(filter: AuditFilter): URLSearchParams {
  return new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "") as [string, string][]);
}

export async function auditPage(filter: AuditFilter, after: string, signal: AbortSignal): Promise<Page<AuditEntry>> {
  const query = auditQuery(filter);
  query.set("limit", "200");
  if (after !== "") query.set("after", after);
  return json<Page<AuditEntry>>(`${base}/audit?${query.toString()}`, { signal });
}
