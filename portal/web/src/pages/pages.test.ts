import { expect, test } from "vitest";
import type { AuditEntry, Environment, Job, Parameter, Template, TemplateVersion } from "../api/types";
import { lineKind } from "../ui/diff";
import { allows } from "./admin/roles";
import { changesOf } from "./audit-entry";
import { command, versionOptions } from "./create";
import { happenings } from "./environment/activity";
import { changedParameters, collisions, updateCommand } from "./environment/update";
import { columnsOf, coresText } from "./environment/usage";
import { forwardCommand } from "./environment/use";
import { whyNoCancel, whyNoResume } from "./job-actions";
import { quotaOf, quotaProblem, quotaText, quotaTexts } from "./quota";

const parameter = (name: string, type: Parameter["type"], value?: unknown): Parameter => ({ name, type, help: "", required: false, ...(value === undefined ? {} : { default: value }) });
const environment = { name: "shop", parameters: { replicas: 2, greeting: "hello", tls: true } } as unknown as Environment;

test("an update says only what is to be different", () => {
  const parameters = [parameter("replicas", "number", 1), parameter("greeting", "string"), parameter("tls", "boolean"), parameter("secret", "password")];
  expect(changedParameters(environment, parameters, { replicas: "2", greeting: "", secret: "" }), "an empty password stays as it is").toEqual({ greeting: null });
  const changed = changedParameters(environment, parameters, { replicas: "3", tls: "false", secret: "hunter2" });
  expect(changed).toEqual({ replicas: 3, tls: false, secret: "hunter2" });
  expect(updateCommand(environment, parameters, { parameters: { ...changed, greeting: null } })).toBe("vctl set shop replicas=3 tls=false secret=PASSWORD greeting=");
  expect(updateCommand(environment, parameters, { to: "2.0.0", parameters: { replicas: 3 } })).toBe("vctl upgrade shop --to 2.0.0 --set replicas=3");
});

test("an update of what somebody else has changed meanwhile is a question", () => {
  const parameters = [parameter("replicas", "number", 1), parameter("greeting", "string")];
  const now = (changed: Record<string, unknown>): Environment => ({ ...environment, parameters: { ...environment.parameters, ...changed } });
  const texts = { replicas: "3" };
  expect(collisions(environment, now({ greeting: "theirs" }), parameters, texts), "another parameter").toEqual([]);
  expect(collisions(environment, now({ replicas: 3 }), parameters, texts), "the same change").toEqual([]);
  expect(collisions(environment, now({ replicas: 5 }), parameters, texts)).toMatchObject([{ path: ["replicas"], base: 2, mine: 3, theirs: 5 }]);
  expect(collisions(environment, now({ replicas: 5 }), parameters, {}), "what was not touched").toEqual([]);
});

test("the command of the wizard has what the form has", () => {
  const template: Template = { name: "web", version: "1.0.0", title: "", description: "", parameters: [parameter("greeting", "string", "hello")] };
  expect(command("", undefined, {})).toBe("vctl create NAME --template TEMPLATE");
  expect(command("shop", template, { greeting: "it's" }, { project: "web", expires: "7d", kind: "real", bindings: { db: "orders", cache: "" } })).toBe(
    `vctl create shop --template web --project web --expires-after 7d --kind real --bind db=orders --bind cache=RESOURCE --set 'greeting=it'\\''s'`,
  );
});

test("the wizard offers channels and versions", () => {
  const version = (name: string, ...channels: string[]) => ({ name: "web", version: name, channels }) as TemplateVersion;
  const all = [version("2.0.0-rc.1", "beta"), version("1.1.0", "stable", "beta"), version("1.0.0", "stable")];
  expect(versionOptions(all, "").map((each) => `${each.value}: ${each.label}`)).toEqual([": stable (now 1.1.0)", "beta: beta (now 2.0.0-rc.1)", "2.0.0-rc.1: 2.0.0-rc.1 (beta)", "1.1.0: 1.1.0 (stable, beta)", "1.0.0: 1.0.0 (stable)"]);
  expect(versionOptions(all, "0.9.0").at(-1)).toEqual({ value: "0.9.0", label: "0.9.0" });
  expect(versionOptions([], "")).toHaveLength(1);
});

test("ports of services are forwarded to ports that everybody may open", () => {
  expect(forwardCommand("shop", { name: "web", namespace: "default", port: 80 })).toBe("vctl connect shop -- kubectl port-forward service/web 8080:80");
  expect(forwardCommand("shop", { name: "db", namespace: "data", port: 5432 })).toBe("vctl connect shop -- kubectl port-forward --namespace data service/db 5432:5432");
});

test("jobs say why they cannot be stopped or begun anew", () => {
  const job = (more: Partial<Job>) => ({ id: "1", environment: "shop", operation: "update", state: "running", ...more }) as Job;
  expect(whyNoCancel(job({}))).toBeUndefined();
  expect(whyNoCancel(job({ state: "failed" }))).toContain("ended");
  expect(whyNoCancel(job({ operation: "delete" }))).toContain("deletion");
  const failed = job({ state: "failed" });
  expect(whyNoResume(failed, { job: "1" } as Environment)).toBeUndefined();
  expect(whyNoResume(failed, { job: "2" } as Environment)).toContain("something else");
  expect(whyNoResume(failed, null)).toContain("gone");
  expect(whyNoResume(job({ state: "succeeded" }), undefined)).toContain("nothing to resume");
  expect(whyNoResume(job({ state: "cancelled", operation: "rotate-ca" }), undefined)).toContain("again");
});

test("what happened is told newest first", () => {
  const job = { id: "1", createdAt: "2026-01-01T00:00:01Z" } as Job;
  const entry = (key: string, at: string) => ({ key, at }) as AuditEntry;
  expect(happenings([job], [entry("a", "2026-01-01T00:00:02Z"), entry("b", "2026-01-01T00:00:00Z")]).map((each) => each.id)).toEqual(["entry a", "job 1", "entry b"]);
});

test("changes of an entry are read, other details are not mistaken for them", () => {
  expect(changesOf({ changes: [{ path: "/title", before: "a", after: "b" }, "odd", { before: 1 }] })).toEqual([{ path: "/title", before: "a", after: "b" }]);
  for (const other of [null, "changes", { changes: "x" }, {}]) expect(changesOf(other)).toEqual([]);
});

test("rules of roles name what the server says they name", () => {
  const of = (rule: string) => ["jobs.get", "jobs.list", "audit.list"].filter((permission) => allows(rule, permission));
  expect(of("*")).toHaveLength(3);
  expect(of("jobs.*")).toEqual(["jobs.get", "jobs.list"]);
  expect(of("*.list")).toEqual(["jobs.list", "audit.list"]);
  expect(of("jobs.get")).toEqual(["jobs.get"]);
  expect(of("jobs")).toEqual([]);
});

test("quotas are written and read back", () => {
  const quota = { environments: 3, templates: { "team-x": 2, blank: 1 } };
  expect(quotaOf(quotaTexts(quota))).toEqual(quota);
  expect(quotaOf(quotaTexts({}))).toEqual({});
  const amounts = { awake: 1, cpu: "1500m", memory: "16Gi", storage: "1.5Ti" };
  expect(quotaOf(quotaTexts(amounts))).toEqual(amounts);
  expect(quotaText(amounts)).toBe("1 awake, 1500m CPU, 16Gi memory, 1.5Ti storage");
  const later = { awake: 1, gpus: 4 };
  expect(quotaOf(quotaTexts(later)), "a limit of a later server").toEqual(later);
  expect(quotaText({})).toBe("no limit");
  const none = quotaTexts({});
  expect(quotaProblem(none)).toBeUndefined();
  expect(quotaProblem({ ...none, environments: "x" })).toBeDefined();
  expect(quotaProblem({ ...none, memory: "16 GB" })).toContain("16Gi");
  expect(quotaProblem({ ...none, templates: "team-x:2" })).toContain("team-x:2");
});

test("lines of a diff are told apart by their first characters", () => {
  expect(["--- a", "+++ b", "@@ -1 +1 @@", "-x", "+x", " x", ""].map(lineKind)).toEqual(["place", "place", "place", "removed", "added", "", ""]);
});

test("steps without a sample are gaps", () => {
  const point = (at: string) => ({ at, cpuNanoCores: 5e8, memoryBytes: 1024, requests: 3 });
  const series = { environment: "shop", since: "2026-01-01T00:00:00Z", until: "2026-01-01T00:04:00Z", stepSeconds: 60, points: [point("2026-01-01T00:00:00Z"), point("2026-01-01T00:03:00Z")] };
  const columns = columnsOf(series);
  expect(columns.times.map((at) => at - (columns.times[0] ?? 0))).toEqual([0, 60, 120, 180]);
  expect(columns.cpu).toEqual([0.5, null, null, 0.5]);
  expect(columns.requests).toEqual([3, null, null, 3]);
  expect(columnsOf({ ...series, until: "2036-01-01T00:00:00Z" }).times, "a server that says odd things").toHaveLength(1440);
});

test("processors are written as Kubernetes writes them", () => {
  expect([0, 0.0123, 0.25, 1.5, 12].map(coresText)).toEqual(["0", "12 m", "0.25", "1.5", "12"]);
});
