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
  kind?: EnvironmentKind;
  /** Resources by the template's bindings. */
  bindings?: Record<string, string>;
  /** With whom it is shared, by the id of the user. */
  shares?: Record<string, ShareAccess>;
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

export type EnvironmentKind = "mocked" | "real";
export type ShareAccess = "admin" | "readOnly";
export type ResourceKind = "postgres" | "redis" | "mysql" | "kafka" | "s3" | "http";

/** A dependency of a template. */
export interface Binding {
  name: string;
  kind: ResourceKind;
  help?: string;
}

/** What environments can be bound to. */
export interface Resource {
  name: string;
  kind: ResourceKind;
  host: string;
  port: number;
  user: string;
  database: string;
  tls: boolean;
  /** Authorities of its own, PEM. */
  caBundle?: string;
  hasPassword: boolean;
  createdAt: string;
}

export interface ProbeResult {
  ok: boolean;
  message: string;
  millis: number;
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
  kind?: EnvironmentKind;
  bindings?: Record<string, string>;
  expiresAfter?: string;
  /** Why it is wanted: where rules ask for approval. */
  reason?: string;
}

export interface UpdateEnvironment {
  to?: string;
  /** Null takes one back to the template's default. */
  parameters?: Record<string, unknown>;
  rollback?: boolean;
  /** Why it is wanted: where rules ask for approval. */
  reason?: string;
}

export interface ObjectChange {
  change: "create" | "update" | "delete";
  kind: string;
  namespace: string;
  name: string;
  diff: string;
}

export interface UpdatePreview {
  from: string;
  to: string;
  changes: ObjectChange[];
}

export interface CreatePreview {
  environment: Environment;
  changes: ObjectChange[];
}

export interface TemplateVersion {
  name: string;
  version: string;
  digest: string;
  title: string;
  channels: string[];
  publishedAt?: string;
  publishedBy?: string;
}

export type ParameterType = "string" | "number" | "boolean" | "password" | "choice" | "text" | "multiline" | "resource";

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
  resourceKind?: ResourceKind;
}

export interface Template {
  name: string;
  version: string;
  title: string;
  description: string;
  parameters: Parameter[];
  bindings?: Binding[];
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
  key: string;
  at: string;
  actor: string;
  onBehalfOf?: string;
  source?: string;
  action: string;
  subject: string;
  project: string;
  requestId: string;
  detail: unknown;
  hash?: string;
}

/** Which entries of the trail; what is empty does not matter. */
export interface AuditFilter {
  actor: string;
  action: string;
  project: string;
  subject: string;
  since: string;
  until: string;
  q: string;
}

export interface AuditVerification {
  entries: number;
  chains: number;
  unchained: number;
  removed: number;
  breaks: number;
  first: { key: string; at: string | null; actor: string; action: string; subject: string; why: string } | null;
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
  /** Environments that are not asleep. */
  awake?: number;
  /** What is requested in environments that are awake, as a quantity of Kubernetes. */
  cpu?: string;
  memory?: string;
  /** What is claimed, asleep or awake. */
  storage?: string;
  templates?: Record<string, number>;
}

export interface ProjectSettings {
  title: string;
  members: Member[];
  allowedTemplates: string[];
  allowedImages: string[];
  allowedWorkers: string[];
  allowedResources: string[];
  quota: Quota;
  memberQuota: Quota;
  /** Of each environment: cpu, memory and storage only. */
  environmentQuota: Quota;
}

export interface Project extends ProjectSettings {
  name: string;
  createdAt: string | null;
  revision: number;
}

export interface QuotaUsage {
  quota: Quota;
  used: { environments: number; awake: number; cpu: string; memory: string; storage: string; templates: Record<string, number> };
  /** Everything that is limited for who asks, by whichever quota. */
  limits: LimitUsage[];
}

export interface LimitUsage {
  holder: "project" | "member" | "user" | "team" | "environment";
  /** Of the project or team; the id of the user. */
  name: string;
  /** `environments`, `awake`, `cpu`, `memory`, `storage` or `template NAME`. */
  what: string;
  unit: "count" | "millicores" | "bytes";
  used: number;
  limit: number;
}

export interface Team {
  name: string;
  title: string;
  users: string[];
  groups: string[];
  quota: Quota;
  revision: number;
}

export interface Role {
  name: string;
  title: string;
  rules: string[];
  builtIn: boolean;
  revision: number;
}

export interface Platform {
  members: Member[];
  userQuota: Quota;
  revision: number;
}

export interface User {
  id: string;
  issuer: string;
  name: string;
  email: string | null;
  groups: string[];
  createdAt: string;
  lastSignIn: string;
  disabled: boolean;
}

export interface Identity {
  user: string;
  actor: string;
  name: string;
  email: string | null;
  groups: string[];
  credential: string;
}

export interface Scopes {
  verbs: ("read" | "write")[];
  project?: string;
  environment?: string;
}

export interface ApiKey {
  id: string;
  name: string;
  user: string;
  scopes: Scopes;
  createdAt: string;
  expiresAt: string;
  lastUsedAt: string | null;
}

export type ApprovalKind = "create" | "update" | "role" | "breakGlass";
export type ApprovalState = "Pending" | "Approved" | "Active" | "Fulfilled" | "Denied" | "Withdrawn" | "Expired" | "Failed" | "Ended" | "Revoked";

/** A request for approval, with what became of it. */
export interface Approval {
  id: string;
  kind: ApprovalKind;
  state: ApprovalState;
  message: string;
  project: string;
  environment?: string;
  requestedBy: string;
  requestedById: string;
  reason: string;
  createdAt: string;
  expiresAt?: string;
  grantedUntil?: string;
  closedAt?: string;
  decisions: { by: string; byId: string; at: string; verdict: "approve" | "deny"; comment: string }[];
  approvalsNeeded: number;
  rules: { rule: string; revision: number; why: string }[];
  create?: CreateEnvironment;
  update?: UpdateEnvironment;
  templateVersion?: string;
  size?: { cpu?: string; memory?: string; storage?: string };
  role?: string;
  period?: string;
  job?: string;
  review?: { by: string; at: string; comment: string };
  /** What the one who reads it may do with it; why they may not decide. */
  actions: { decide: boolean; withdraw: boolean; revoke: boolean; review: boolean; whyNot: string };
  revision: number;
}

/** A rule for what needs approval; what is not said does not matter. */
export interface ApprovalRule {
  name: string;
  project?: string;
  title: string;
  projects?: string[];
  templates?: string[];
  kind?: EnvironmentKind;
  operations?: ("create" | "update")[];
  largerThan?: { cpu?: string; memory?: string; storage?: string; environments?: number };
  approvers: "project" | "platform";
  approvals: number;
  allowOwn: boolean;
  answerWithin?: string;
  grant?: string;
  revision: number;
}

/** Where requests for approval are told of; the secret is in the answer that made it only. */
export interface Webhook {
  name: string;
  url: string;
  events?: string[];
  projects?: string[];
  secret?: string;
  deliveries: { id: string; event: string; createdAt: string; state: "Pending" | "Delivered" | "Failed"; attempts: number; nextAt?: string; message: string }[];
  revision: number;
}

/** What an environment used, by steps of time; a step in which nothing was used has no point. */
export interface UsageSeries {
  environment: string;
  since: string;
  until: string;
  stepSeconds: number;
  points: { at: string; cpuNanoCores: number; memoryBytes: number; requests: number }[];
}

/** A machine on which somebody has signed in with `vctl login`. */
export interface ClientLogin {
  id: string;
  user: string;
  actor: string;
  client: string;
  createdAt: string;
  usedAt: string;
  expiresAt: string;
  current: boolean;
}

export interface Page<T> {
  items: T[];
  next?: string;
  /** How many match, on all pages. */
  total?: number;
  /** How many of these have which value, by the fields that were asked for. */
  counts?: Record<string, Record<string, number>>;
}

export interface ProblemDocument {
  status: number;
  type: string;
  detail: string;
  nearest?: string[];
  requestId: string;
  /** What is there now, where a condition was not met. */
  current?: unknown;
}

export type Change =
  | { kind: "environment"; object: Environment }
  | { kind: "environmentDeleted"; name: string }
  | { kind: "job"; object: Job }
  | { kind: "approval"; id: string; state: ApprovalState }
  | { kind: "reset" };
