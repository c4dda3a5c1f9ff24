// Drives the console as a person does, in Debian's Chromium: signs in, makes an environment, sees it become ready, looks into it, and
// checks every page at two widths in two colour schemes with axe-core. Run by tests/tests/e2e/console.rs.
//
//   VCTL_LINK   sign-in link      VCTL_OUT   directory for screenshots, downloads and figures
import assert from "node:assert/strict";
import { join } from "node:path";
import { administer, audit } from "./administer.mjs";
import { COLOURS, MARKUP, drive } from "./browser.mjs";
import * as daily from "./daily.mjs";
import { crowd, firstScripts, painted, scrolled } from "./figures.mjs";
import { api, lifecycle, releases, usage } from "./lifecycle.mjs";
import { lists } from "./lists.mjs";
import { harmless, unframed } from "./safety.mjs";
import { twoPeople } from "./two-people.mjs";

const link = process.env.VCTL_LINK;
const out = process.env.VCTL_OUT;
assert(link && out, "VCTL_LINK and VCTL_OUT are needed");
const origin = new URL(link).origin;

await drive("figures", out, async ({ open, checked, harmed, part, figures }) => {
const { context, page } = await open([origin], { viewport: { width: 1440, height: 900 }, colorScheme: "light" });

// Without a session there is a page that says how to sign in, and nothing else.
const stranger = await page.goto(`${origin}/environments/x`);
assert.equal(stranger.status(), 401);
await checked(page, "sign-in");

await page.goto(link);
await page.waitForURL(`${origin}/`);
await page.getByRole("heading", { name: "Environments", exact: true }).waitFor();
await page.getByRole("status").filter({ hasText: "Live" }).first().waitFor();
await checked(page, "no-environments");

// The wizard says what is wrong before the server is asked.
await page.getByRole("link", { name: "New environment" }).first().click();
await page.getByRole("radio", { name: /blank/ }).check({ force: true });
const name = page.getByRole("textbox", { name: /^Name/ });
await name.fill("My Env");
await page.getByText("Begin with a lower-case letter").waitFor();
await name.fill("console-test");
const asked = Date.now();
await page.getByRole("button", { name: "Create environment" }).click();
await page.waitForURL(`${origin}/environments/console-test`);
// Live: nothing is reloaded.
await page.locator("h1 .state.good", { hasText: "Ready" }).waitFor();
const ready = Date.now() - asked;
await page.locator(".step.succeeded").first().waitFor();

// The kubeconfig comes as a file.
const [downloaded] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Kubeconfig", exact: true }).click()]);
assert.equal(downloaded.suggestedFilename(), "console-test.kubeconfig");
await downloaded.saveAs(join(out, "console-test.kubeconfig"));

await part("lists", async () => {
  const { context: other, page: view } = await open([origin], { viewport: { width: 1440, height: 900 }, storageState: await context.storageState() });
  await lists({ page: view, origin });
  await other.close();
});

// Something to look at, made through the environment's own API with the session of the browser.
const made = await page.evaluate(async () => {
  const { csrfToken } = await (await fetch("/api/v1/session")).json();
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", labels: { note: "x" } },
    spec: { replicas: 2, selector: { matchLabels: { app: "web" } }, template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "web", image: "web:1" }] } } },
  };
  const to = "/api/v1/environments/console-test/kube/apis/apps/v1/namespaces/default/deployments";
  const post = (headers) => fetch(to, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(deployment) });
  return { forged: (await post({})).status, real: (await post({ "x-csrf-token": csrfToken })).status };
});
assert.deepEqual(made, { forged: 403, real: 201 });

// The explorer is live too.
await page.goto(`${origin}/environments/console-test`);
await page.getByRole("navigation", { name: "Environment", exact: true }).getByRole("link", { name: "Resources" }).click();
const pods = page.getByRole("table", { name: "pods" });
await pods.getByRole("cell", { name: "Running" }).nth(1).waitFor();
await page.getByRole("navigation", { name: "Kinds" }).getByRole("link", { name: "Deployment" }).click();
await page.getByRole("table", { name: "deployments" }).getByRole("link", { name: "web" }).click();
await page.getByText("Owned by and owner of").waitFor();
await page.locator(".tree a", { hasText: /^web-.*-/ }).first().waitFor();

// Its YAML: a change is shown by the server before it is made.
await page.getByRole("button", { name: "YAML" }).click();
await page.getByRole("button", { name: "Edit" }).click();
await page.getByRole("textbox", { name: "YAML of web" }).waitFor();
await page.locator(".cm-line", { hasText: /^ {2}replicas: 2$/ }).first().click();
await page.keyboard.press("End");
await page.keyboard.press("Backspace");
await page.keyboard.type("3");
// Somebody else is faster: both changes are in what is reviewed.
const deployment = "/api/v1/environments/console-test/kube/apis/apps/v1/namespaces/default/deployments/web";
const { body: theirs } = await api(page, "GET", deployment);
theirs.metadata.labels.note = "theirs";
assert.equal((await api(page, "PUT", deployment, theirs)).status, 200);
await page.getByRole("button", { name: "Bring your changes to the newest" }).click();
await page.locator(".cm-line", { hasText: /^ {4}note: theirs$/ }).first().waitFor();
await page.locator(".cm-line", { hasText: /^ {2}replicas: 3$/ }).first().waitFor();
await page.getByRole("button", { name: "Review changes" }).click();
await page.getByRole("heading", { name: "What the server would store" }).waitFor();
await page.locator(".dialog .editor").waitFor();
await checked(page, "yaml-diff");
await page.getByRole("button", { name: "Apply" }).click();
await page.getByText("Deployment web was changed").waitFor();
await page.goto(`${origin}/environments/console-test/resources/pods`);
await pods.getByRole("cell", { name: "Running" }).nth(2).waitFor();
const pod = await pods.getByRole("link").first().getAttribute("href");

// What a tenant writes is text wherever it is shown: in annotations, data, events, columns of kinds of its own.
const harmful = await page.evaluate(async (text) => {
  const { csrfToken } = await (await fetch("/api/v1/session")).json();
  const at = "/api/v1/environments/console-test/kube";
  const post = async (path, object) => (await fetch(at + path, { method: "POST", headers: { "content-type": "application/json", "x-csrf-token": csrfToken }, body: JSON.stringify(object) })).status;
  const crd = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "harms.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "harms", singular: "harm", kind: "Harm" },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object", properties: { text: { type: "string" } } } }, additionalPrinterColumns: [{ name: text, type: "string", jsonPath: ".text" }] }],
    },
  };
  return [
    await post("/api/v1/namespaces/default/configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "harm", annotations: { text } }, data: { [`text`]: text } }),
    await post("/api/v1/namespaces/default/events", { apiVersion: "v1", kind: "Event", metadata: { name: "harm" }, involvedObject: { apiVersion: "v1", kind: "ConfigMap", name: "harm", namespace: "default" }, reason: text, message: text, type: "Warning" }),
    await post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd),
  ];
}, MARKUP);
assert.deepEqual(harmful, [201, 201, 201]);
await page.goto(`${origin}/environments/console-test/resources/configmaps/default/harm`);
await page.getByText("onerror").first().waitFor();
await checked(page, "harm-configmap");
await page.goto(`${origin}/environments/console-test/resources/events`);
await page.getByText("onerror").first().waitFor();
await checked(page, "harm-events");

await part("administration", () => administer({ page, origin }));
await part("audit-trail", () => audit({ page, origin, out, checked }));
await part("two-people", async () => {
  const { context: another, page: other } = await open([origin], { viewport: { width: 1440, height: 900 }, storageState: await context.storageState() });
  await twoPeople({ page, other, origin, checked });
  await another.close();
});
await part("lifecycle", () => lifecycle({ page, origin, checked }));
await part("rest", () => daily.rest({ page, origin }));
await part("version", () => daily.version({ page, origin }));
await part("jobs", () => daily.jobs({ page, origin, checked }));
await part("logs", () => daily.logs({ page, origin, out, checked }));
await part("rules", () => daily.rules({ page, origin, checked }));
await part("objects", () => daily.objects({ page, origin, checked }));
await part("usage", () => usage({ page, origin, checked }));
await part("helm", () => releases({ page, origin, checked, kubeconfig: join(out, "console-test.kubeconfig"), out }));

// Navigating the browser to the API of an environment shows nothing: what is in there is a tenant's.
const raw = await page.goto(`${origin}/api/v1/environments/console-test/kube/api/v1/pods`);
assert.equal(raw.status(), 403);

// The keyboard alone: skip link first, then the navigation; Escape closes a dialog and the focus goes back.
await page.goto(`${origin}/environments/console-test`);
const remove = page.getByRole("button", { name: "Delete" });
await remove.waitFor();
await page.keyboard.press("Tab");
assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to content");
await remove.focus();
await page.keyboard.press("Enter");
await page.getByRole("dialog").waitFor();
assert.equal(await page.getByRole("dialog").getByRole("button", { name: "Delete" }).getAttribute("aria-disabled"), "true");
await page.keyboard.press("Escape");
await page.getByRole("dialog").waitFor({ state: "detached" });
await page.waitForFunction(() => document.activeElement?.textContent?.trim() === "Delete");

// Every page, at both widths, light and dark.
const job = await page.evaluate(async () => (await (await fetch("/api/v1/environments/console-test")).json()).job);
const state = await context.storageState();
const PAGES = [
  ["environments", "/", "Environments"],
  ["environments-table", "/?view=table", "Environments"],
  ["create", "/create?template=team-x", "New environment"],
  ["environment", "/environments/console-test", "console-test"],
  ["activity", "/environments/console-test/activity", "console-test"],
  ["resources", "/environments/console-test/resources", "console-test"],
  ["pod", pod, "console-test"],
  ["yaml", `${pod}?view=yaml`, "console-test"],
  ["logs", "/environments/console-test/logs", "console-test"],
  ["usage-now", "/environments/console-test/usage", "console-test"],
  ["helm", "/environments/console-test/helm", "console-test"],
  ["update", "/environments/noted/update", "noted"],
  ["noted-activity", "/environments/noted/activity", "noted"],
  ["account", "/account", "Account"],
  ["admin-users", "/admin/users", "Administration"],
  ["admin-teams", "/admin/teams", "Administration"],
  ["admin-roles", "/admin/roles", "Administration"],
  ["admin-platform", "/admin/platform", "Administration"],
  ["admin-approval-rules", "/admin/approval-rules", "Administration"],
  ["admin-webhooks", "/admin/webhooks", "Administration"],
  ["approvals", "/approvals?view=all", "Approvals"],
  ["admin-resources", "/admin/resources", "Administration"],
  ["templates", "/templates", "Templates"],
  ["projects", "/projects", "Projects"],
  ["jobs", "/jobs", "Jobs"],
  ["job", `/jobs/${job}`, "create console-test"],
  ["audit", "/audit", "Audit"],
  ["workers", "/workers", "Workers"],
  ["settings", "/settings", "Server"],
  ["not-found", "/environments/nothing-here", "nothing-here"],
];
const COLOURFUL = new Set(["environments", "create", "environment", "resources", "yaml", "audit", "helm", "update", "noted-activity", "projects"]);
for (const [width, height] of [[1440, 900], [360, 740]]) {
  for (const colorScheme of ["light", "dark"]) {
    const { context: other, page: view } = await open([origin], { viewport: { width, height }, colorScheme, storageState: state });
    // Every page once at each width, once in each scheme; the colours of the others where there are most of them.
    const whole = (width === 1440) === (colorScheme === "light");
    for (const [label, path, heading] of PAGES) {
      if (!whole && !COLOURFUL.has(label)) continue;
      await part(`${label}-${width}-${colorScheme}`, async () => {
        await view.goto(origin + path);
        await view.getByRole("heading", { level: 1, name: heading }).waitFor();
        await view.waitForFunction(() => !document.querySelector(".skeleton") && document.querySelector(".main .panel, .main .table, .main .card, .main .note, .main .empty, .main .choice, .main .happening"));
        await checked(view, `${label}-${width}-${colorScheme}`, whole ? undefined : COLOURS);
      });
    }
    if (width === 360) {
      await part(`navigation-${width}-${colorScheme}`, async () => {
        await view.getByRole("button", { name: "Navigation" }).click();
        await view.getByRole("dialog", { name: "Navigation" }).waitFor();
        await checked(view, `navigation-${width}-${colorScheme}`);
      });
    }
    await other.close();
  }
}

// People can write markup wherever they like, and the server could pass on anything: it stays text.
await part("hostile", async () => {
  const { context: other, page: view } = await open([origin], { viewport: { width: 1440, height: 900 }, storageState: state });
  const request = (await api(page, "POST", "/api/v1/break-glass", { project: "default", role: "admin", period: "1h", reason: "to be seen" })).body.id;
  const wanted = new Set(["environments", "environments-table", "environment", "activity", "update", "account", "admin-users", "admin-teams", "admin-roles", "admin-platform", "admin-resources", "admin-approval-rules", "admin-webhooks", "templates", "projects", "jobs", "job", "audit", "workers", "settings"]);
  const pages = [...PAGES.filter(([label]) => wanted.has(label)), ["noted", "/environments/noted"], ["create", "/create?template=note"], ["no-job", "/jobs/nothing-here"], ["approval", `/approvals?view=all&id=${request}`]];
  await harmless({ page: view, origin, pages, names: ["console-test", "noted", "note", "blank", "team-x"], harmed });
  await other.close();
});
await part("framed", () => unframed({ open, origin, storageState: state, paths: ["/", "/create", "/environments/console-test", "/admin/users", "/approvals", "/login", "/nothing-here"] }));

// Ten thousand environments: what is not in sight is neither asked for nor in the document.
figures.readyMs = ready;
await part("ten-thousand", async () => {
  const { context: many, page: crowded } = await open([origin], { viewport: { width: 1440, height: 900 }, storageState: state });
  await crowd(crowded, (await api(page, "GET", "/api/v1/environments/console-test")).body, 10_000);
  for (const view of ["table", "cards"]) figures[view] = await scrolled(crowded, origin, view, 10_000);
  await crowded.screenshot({ path: join(out, "ten-thousand.png") });
  await many.close();
});
await part("paint", async () => {
  figures.firstContentfulPaintMs = await painted(page, origin);
  figures.firstScriptsGzipBytes = await firstScripts(page, origin);
});

// Deleted by its name, typed; then signed out.
await page.goto(`${origin}/environments/console-test`);
await remove.click();
await page.getByRole("textbox", { name: /Type console-test/ }).fill("console-test");
await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
await page.getByText("There is no environment console-test").waitFor();
await page.getByRole("button", { name: "Sign out" }).first().click();
await page.getByText("You have signed out").waitFor();
assert.equal((await page.goto(`${origin}/`)).status(), 401);
});
