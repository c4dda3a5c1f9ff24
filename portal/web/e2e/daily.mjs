// What people do all day: sleep, wake, extend, another version, jobs that hang, logs, rules, webhooks, quotas, objects that go.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { MARKUP } from "./browser.mjs";
import { api } from "./lifecycle.mjs";

const state = (page, text) => page.locator("h1 .state", { hasText: text });

/** To sleep, awake again, and living longer. */
export async function rest({ page, origin }) {
  assert.equal((await api(page, "POST", "/api/v1/environments", { name: "sleepy", template: "blank", expiresAfter: "1h" })).status, 201);
  await page.goto(`${origin}/environments/sleepy`);
  await state(page, "Ready").waitFor();
  await page.getByRole("button", { name: "Sleep", exact: true }).click();
  await state(page, "Sleeping").waitFor();
  await page.getByText("Asleep since").waitFor();
  await page.getByRole("button", { name: "Wake", exact: true }).click();
  await state(page, "Ready").waitFor();
  const before = (await api(page, "GET", "/api/v1/environments/sleepy")).body.lifecycle.expiresAt;
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Extend" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox").fill("soon");
  assert.equal(await dialog.getByRole("button", { name: "Extend" }).getAttribute("aria-disabled"), "true");
  await dialog.getByRole("textbox").fill("2h");
  await dialog.getByRole("button", { name: "Extend" }).click();
  await dialog.waitFor({ state: "detached" });
  const after = (await api(page, "GET", "/api/v1/environments/sleepy")).body.lifecycle.expiresAt;
  assert(Date.parse(after) - Date.parse(before) > 30 * 60_000, `${before} ${after}`);
  // One that does not expire says so.
  await page.goto(`${origin}/environments/console-test`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: /^Extend/ }).getByText("It does not expire").waitFor();
  await page.keyboard.press("Escape");
}

/** The wizard makes an older version than the newest one; needs the template `note`. */
export async function version({ page, origin }) {
  await page.goto(`${origin}/create?template=note`);
  const versions = page.getByRole("combobox", { name: "Version" });
  await versions.getByRole("option", { name: "stable (now 1.1.0)" }).waitFor({ state: "attached" });
  await versions.selectOption("1.0.0");
  await page.getByRole("textbox", { name: /^Name/ }).fill("pinned");
  await page.getByRole("textbox", { name: "Command" }).getByText("vctl create pinned --template note@1.0.0").waitFor();
  await page.getByRole("button", { name: "Create environment" }).click();
  await page.waitForURL(`${origin}/environments/pinned`);
  assert.equal((await api(page, "GET", "/api/v1/environments/pinned")).body.templateVersion, "1.0.0");
}

const STUCK = {
  files: {
    "template.yaml": "apiVersion: vctl.dev/v1\nkind: Template\nname: stuck\nversion: 1.0.0\ntitle: never ready\n",
    "manifests/all.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: stuck}\nspec:\n  selector: {matchLabels: {app: stuck}}\n  template:\n    metadata: {labels: {app: stuck}}\n    spec:\n      nodeSelector: {there-is: none}\n      containers: [{name: stuck, image: \"stuck:1\"}]\n",
  },
};

/** A job that hangs is stopped, and begun anew; lists of jobs are the server's work. */
export async function jobs({ page, origin, checked }) {
  assert.equal((await api(page, "POST", "/api/v1/templates", STUCK)).status, 201);
  const { body: made } = await api(page, "POST", "/api/v1/environments", { name: "stuck", template: "stuck" });
  await page.goto(`${origin}/jobs/${made.job}`);
  await state(page, "Running").waitFor();
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Cancel job" }).click();
  await dialog.getByRole("button", { name: "Cancel job" }).click();
  await dialog.waitFor({ state: "detached" });
  await state(page, "Cancelled").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/jobs/") && !url.pathname.endsWith(made.job));
  await page.getByRole("button", { name: "Cancel job" }).waitFor();
  // The old one says why it is not begun again.
  const resumed = new URL(page.url()).pathname.split("/").at(-1);
  await page.goto(`${origin}/jobs/${made.job}`);
  const again = page.getByRole("button", { name: "Resume" });
  await page.getByText("something else was asked for since").first().waitFor({ state: "attached" });
  assert.equal(await again.getAttribute("aria-disabled"), "true");
  assert.equal((await api(page, "POST", `/api/v1/jobs/${resumed}/cancel`, {})).status, 200);
  assert.equal((await api(page, "DELETE", "/api/v1/environments/stuck")).status, 202);

  // Filters, search and order are asked of the server, page after page.
  const asked = [];
  await page.route("**/api/v1/jobs?*", (route) => {
    const url = new URL(route.request().url());
    asked.push(url.searchParams);
    url.searchParams.set("limit", "3");
    return route.continue({ url: url.href });
  });
  await page.goto(`${origin}/jobs`);
  const table = page.getByRole("table", { name: "Jobs" });
  await page.waitForFunction(() => /^\d+ jobs$/.test(document.querySelector(".table-foot")?.textContent ?? ""));
  // Not by the page: what it asks for is changed on the way.
  const all = (await (await page.request.get(`${origin}/api/v1/jobs?limit=1000`)).json()).items;
  assert(all.length > 6, `${all.length} jobs`);
  assert(asked.filter((each) => each.has("cursor")).length >= 2, "it was read to its end");
  await page.waitForFunction((count) => document.querySelector(".table-foot")?.textContent === `${count} jobs`, all.length);
  await page.getByRole("combobox", { name: "State" }).selectOption("cancelled");
  await page.waitForFunction(() => [...document.querySelectorAll("[role=row].td .state")].every((each) => each.textContent === "Cancelled"));
  await table.getByRole("link", { name: "stuck" }).first().waitFor();
  await page.getByRole("combobox", { name: "State" }).selectOption("");
  await page.getByRole("searchbox", { name: "Find jobs" }).fill("noted");
  await page.waitForFunction(() => [...document.querySelectorAll("[role=row].td a")].every((each) => each.textContent === "noted"));
  await page.getByRole("searchbox", { name: "Find jobs" }).fill("");
  await table.getByRole("columnheader", { name: "Environment" }).getByRole("button").click();
  await page.waitForFunction(() => {
    const names = [...document.querySelectorAll("[role=row].td a")].map((each) => each.textContent);
    return names.length > 3 && names.every((name, i) => i === 0 || names[i - 1] <= name);
  });
  const has = (key, value) => asked.some((each) => each.get(key) === value);
  assert(has("state", "cancelled") && has("q", "noted") && has("sort", "environment"), asked.join("\n"));
  await checked(page, "jobs-sorted");
  await page.unroute("**/api/v1/jobs?*");
}

/** Logs of several pods, searched, saved, and of the container before. The simulated worker has none: what a worker says is made up here. */
export async function logs({ page, origin, out, checked }) {
  const asked = [];
  const of = (pod, previous) => Array.from({ length: 300 }, (_, i) => `${previous ? "before" : "now"} ${pod} line ${i} ${i === 250 ? MARKUP : ""}`).join("\n") + "\n";
  await page.route("**/pods/*/log?*", (route) => {
    const url = new URL(route.request().url());
    asked.push(url);
    return route.fulfill({ contentType: "text/plain", body: of(url.pathname.split("/").at(-2), url.searchParams.get("previous") === "true") });
  });
  await page.goto(`${origin}/environments/console-test/logs`);
  const log = page.getByRole("log", { name: "Log lines" });
  await page.getByText("900 lines").waitFor();
  assert.equal(new Set(asked.map((each) => each.pathname)).size, 3, "three pods");
  assert(asked.every((each) => each.searchParams.get("follow") === "true"));
  await page.getByRole("searchbox", { name: "Find in logs" }).fill("line 250");
  await page.getByText("3 lines").waitFor();
  await log.locator("mark", { hasText: "line 250" }).first().waitFor();
  await log.getByText("onerror").first().waitFor();
  await checked(page, "logs-searched");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save", exact: true }).click()]);
  assert.equal(saved.suggestedFilename(), "console-test-default.log");
  const file = join(out, "several.log");
  await saved.saveAs(file);
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  assert(lines.length === 3 && lines.every((line) => /^web-[^ ]+: now .* line 250 /.test(line)), lines.join("\n"));
  await page.getByRole("searchbox", { name: "Find in logs" }).fill("");
  await page.getByText("Previous", { exact: true }).click();
  await log.getByText(/^before web-/).first().waitFor();
  assert(asked.some((each) => each.searchParams.get("previous") === "true" && !each.searchParams.has("follow")));
  const pods = page.getByRole("combobox", { name: "Pods" });
  await pods.selectOption({ index: 1 });
  await page.getByText("300 lines").waitFor();
  await page.unroute("**/pods/*/log?*");
}

/** What each user may have, rules for approval, and where they are told of. */
export async function rules({ page, origin, checked }) {
  const dialog = page.getByRole("dialog");
  const field = (name) => dialog.getByRole("textbox", { name });
  const done = async (verb) => {
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };
  const menu = async (label, item) => {
    await page.getByRole("button", { name: label }).click();
    await page.getByRole("menuitem", { name: item }).click();
  };

  await page.goto(`${origin}/admin/platform`);
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await field("Environments").fill("200");
  await field("CPU").fill("many");
  await dialog.locator(".error-text", { hasText: "A quantity such as 500m" }).waitFor();
  await field("CPU").fill("64");
  await field("By template").fill("team-x=20");
  await done("Change");
  await page.getByText("200 environments, 64 CPU, team-x=20, over all projects").waitFor();
  // What is empty is no limit.
  await page.getByRole("button", { name: "Change", exact: true }).click();
  for (const name of ["Environments", "CPU", "By template"]) await field(name).fill("");
  await done("Change");
  await page.getByText("no limit, over all projects").waitFor();

  await page.goto(`${origin}/admin/approval-rules`);
  await page.getByRole("button", { name: "New rule" }).click();
  await field(/^Name/).fill("large");
  await field(/^Title/).fill(MARKUP);
  await field("Environments of one person").fill("x");
  await dialog.locator(".error-text", { hasText: "A whole number" }).waitFor();
  await field("Environments of one person").fill("500");
  await field("Ends without an answer after").fill("2d");
  await dialog.getByRole("combobox", { name: "How many people" }).selectOption("2");
  await checked(page, "approval-rule-form");
  await done("Create");
  await page.getByText("500 environments of one person").waitFor();
  await page.getByText("2 of the project").waitFor();
  await page.getByText("onerror").first().waitFor();
  await menu("Actions for large", "Change");
  await field(/^Templates/).fill("team-x");
  await done("Change");
  const rule = (await api(page, "GET", "/api/v1/approval-rules/large")).body;
  assert.deepEqual([rule.templates, rule.largerThan.environments, rule.approvals, rule.answerWithin], [["team-x"], 500, 2, "2d"]);
  await menu("Actions for large", "Delete");
  await field(/^Type large/).fill("large");
  await done("Delete");
  await page.getByText("Nothing needs approval").waitFor();

  await page.goto(`${origin}/admin/webhooks`);
  await page.getByRole("button", { name: "New webhook" }).click();
  await field(/^Name/).fill("chat");
  await field(/^Address/).fill("http://127.0.0.1:9/hook");
  assert.equal(await dialog.getByRole("button", { name: "Create" }).getAttribute("aria-disabled"), "true");
  await field(/^Address/).fill("https://127.0.0.1:9/hook");
  await field(/^Events/).fill("approval.*");
  await dialog.getByRole("button", { name: "Create" }).click();
  // Its secret is shown once.
  const secret = (await dialog.getByRole("textbox", { name: "Secret" }).textContent()).trim();
  assert(secret.length >= 16);
  await done("Done");
  assert(!(await page.content()).includes(secret), "the secret is still in the page");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByRole("list", { name: "Last deliveries" }).getByRole("listitem").first().waitFor();
  await checked(page, "webhooks-tried");
  await page.getByRole("button", { name: "Delete chat" }).click();
  await field(/^Type chat/).fill("chat");
  await done("Delete");
  await page.getByText("Nobody is told").waitFor();
}

/** Objects of kinds of one's own: who owns what, what fields mean, and that they go. Needs the kind Harm, the ConfigMap `harm` and the Deployment `web`. */
export async function objects({ page, origin, checked }) {
  const at = "/api/v1/environments/console-test/kube";
  const harms = `${at}/apis/example.com/v1/namespaces/default/harms`;
  const owner = (await api(page, "POST", harms, { apiVersion: "example.com/v1", kind: "Harm", metadata: { name: "owner" }, text: MARKUP })).body;
  const reference = ({ apiVersion, kind, metadata: { name, uid } }) => [{ apiVersion, kind, name, uid, controller: true }];
  const middle = (await api(page, "POST", harms, { apiVersion: "example.com/v1", kind: "Harm", metadata: { name: "middle", ownerReferences: reference(owner) } })).body;
  assert.equal((await api(page, "POST", `${at}/api/v1/namespaces/default/configmaps`, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "leaf", ownerReferences: reference(middle) } })).status, 201);
  // Labels take no markup: the API says so.
  assert.equal((await api(page, "POST", `${at}/api/v1/namespaces/default/configmaps`, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "labelled", labels: { text: MARKUP } } })).status, 422);
  await page.goto(`${origin}/environments/console-test/resources/harms.example.com/default/owner`);
  const tree = page.locator(".tree");
  await tree.getByRole("link", { name: "middle" }).waitFor();
  await tree.locator("li li", { hasText: "middle" }).getByRole("link", { name: "leaf" }).waitFor();
  await checked(page, "owner-tree");
  await tree.getByRole("link", { name: "leaf" }).click();
  // From the other end: up to the first.
  await tree.getByRole("link", { name: "owner" }).waitFor();
  await tree.getByRole("link", { name: "middle" }).waitFor();

  // The YAML of what a tenant wrote is text.
  await page.goto(`${origin}/environments/console-test/resources/configmaps/default/harm?view=yaml`);
  await page.locator(".cm-line", { hasText: "onerror" }).first().waitFor();
  await checked(page, "harm-yaml");

  // Help: names of fields from the environment's own documents, also of kinds of one's own, and what they mean.
  await page.goto(`${origin}/environments/console-test/resources/deployments.apps/default/web?view=yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  await page.locator(".cm-line", { hasText: /^ {2}replicas: 3$/ }).first().click();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.type("minR");
  const offered = page.locator(".cm-tooltip-autocomplete");
  await offered.locator("li", { hasText: "minReadySeconds" }).waitFor();
  await checked(page, "yaml-help");
  await offered.locator("li", { hasText: "minReadySeconds" }).click();
  await page.locator(".cm-line", { hasText: /^ {2}minReadySeconds: $/ }).waitFor();
  await page.locator(".cm-line span", { hasText: /^replicas$/ }).first().hover();
  await page.locator(".cm-tooltip-hover", { hasText: /integer[^]*[Nn]umber of desired pods/ }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.goto(`${origin}/environments/console-test/resources/harms.example.com/default/owner?view=yaml`);
  await page.locator(".cm-line span", { hasText: /^text$/ }).first().hover();
  await page.locator(".cm-tooltip-hover", { hasText: "string" }).waitFor();

  // Deleted by its name, typed; what it owns goes with it.
  await page.goto(`${origin}/environments/console-test/resources/harms.example.com/default/owner`);
  await page.locator(".toolbar").getByRole("button", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByRole("button", { name: "Delete" }).getAttribute("aria-disabled"), "true");
  await dialog.getByRole("textbox", { name: /^Type owner/ }).fill("owner");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.waitForURL(`${origin}/environments/console-test/resources/harms.example.com`);
  await page.getByRole("table", { name: "harms" }).getByRole("link", { name: "owner" }).waitFor({ state: "detached" });
  await page.getByRole("table", { name: "harms" }).getByRole("link", { name: "middle" }).waitFor({ state: "detached" });
}
