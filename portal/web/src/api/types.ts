// The types of api/src/rest.rs, as they are on the wire.

export type Phase = "Creating" | "Ready" | "Failed" | "Deleting" | "Sleeping" | "Waking" | "Updating" | "PendingApproval";

export interface PodCounts {
  ready: number;
  total: number;
}

export interface Environment {
  name: string;
  uid: string;
  project?: string;
  template: string;
  templateVersion: string;
  parameters: Record<string, unknown>;
  phase: Phase;
  message: string;
  createdAt: string;
  readyAt: string | null;
  server: string;
  kubernetesVersion: string;
  owner: string;
  job: string | null;
  pods: PodCounts;
  revision: number;
  lifecycle?: Lifecycle;
  /** The newest stable version of its template, when it is newer. */
  newerVersion?: string;
}

/** What happens to an environment at which time. */
export interface Lifecycle {
  sleep?: { afterInactivity?: string; schedule?: string; wakeSchedule?: string; timeZone?: string };
  sleepsAt?: string;
  wakesAt?: string;
  asleepSince?: string;
  lastRequestAt?: string;
  expiresAt?: string;
  expiryWarnedAt?: string;
}

export interface CreateEnvironment {
  name: string;
  template: string;
  parameters: Record<string, unknown>;
  kubernetesVersion?: string;
  project?: string;
}

export type ParameterType = "string" | "number" | "boolean" | "password" | "choice" | "text" | "multiline";

export interface Parameter {
  name: string;
  type: ParameterType;
  title?: string;
  section?: string;
  help: string;
  required: boolean;
  default?: unknown;
  choices?: string[];
  minimum?: number;
  maximum?: number;
  integer?: boolean;
  step?: number;
  pattern?: string;
}

export interface Template {
  name: string;
  version: string;
  title: string;
  description: string;
  parameters: Parameter[];
}

export type JobState = "pending" | "running" | "succeeded" | "failed" | "cancelled";

export interface Step {
  name: string;
  state: JobState;
  startedAt: string | null;
  finishedAt: string | null;
  message: string;
}

export interface Job {
  id: string;
  environment: string;
  operation: string;
  state: JobState;
  attempt: number;
  steps: Step[];
  createdAt: string;
  finishedAt: string | null;
  error: string;
  log?: { at: string; step: string; message: string }[];
  revision?: number;
}

export interface Worker {
  name: string;
  kind: string;
  connected: boolean;
  lastSeen: string | null;
  pods: number;
  cpuMillis: number;
  memoryBytes: number;
  runtime: string;
}

export interface ServerStatus {
  version: string;
  pid: number;
  listen: string;
  startedAt: string;
  environments: number;
  workers: Worker[];
  residentBytes: number | null;
}

export interface AuditEntry {
  id: number;
  at: string;
  actor: string;
  action: string;
  subject: string;
  requestId: string;
  detail: unknown;
}

export interface Session {
  actor: string;
  administrator: boolean;
  csrfToken?: string;
  serverVersion: string;
}

export type MemberKind = "user" | "group" | "team";

export interface Member {
  kind: MemberKind;
  name: string;
  role: string;
}

export interface Quota {
  environments?: number;
  templates?: Record<string, number>;
}

export interface ProjectSettings {
  title: string;
  members: Member[];
  allowedTemplates: string[];
  allowedImages: string[];
  quota: Quota;
  memberQuota: Quota;
}

export interface Project extends ProjectSettings {
  name: string;
  createdAt: string | null;
  revision: number;
}

export interface QuotaUsage {
  quota: Quota;
  used: { environments: number; templates: Record<string, number> };
}

export interface Page<T> {
  items: T[];
  next?: string;
}

export interface ProblemDocument {
  status: number;
  type: string;
  detail: string;
  nearest?: string[];
  requestId: string;
}

export type Change =
  | { kind: "Environment"; object: Environment }
  | { kind: "EnvironmentDeleted"; name: string }
  | { kind: "Job"; object: Job }
  | { kind: "Reset" };
