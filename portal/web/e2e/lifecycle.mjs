// A template gets a newer version, an environment goes there and back; releases of Helm are looked into.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { MARKUP } from "./browser.mjs";

/** A request to the portal with the session of the browser. */
export function api(page, method, path, body) {
  return page.evaluate(
    async ([verb, to, sent]) => {
      const { csrfToken } = await (await fetch("/api/v1/session")).json();
      const headers = { "content-type": "application/json", "x-csrf-token": csrfToken };
      const answer = await fetch(to, { method: verb, headers, ...(sent === null ? {} : { body: JSON.stringify(sent) }) });
      return { status: answer.status, body: await answer.json().catch(() => null) };
    },
    [method, path, body ?? null],
  );
}

const HARM = JSON.stringify(MARKUP);

const template = (version, more) => ({
  files: {
    "template.yaml": `apiVersion: vctl.dev/v1\nkind: Template\nname: note\nversion: ${version}\ntitle: ${HARM}\ndescription: ${HARM}\nparameters:\n  - {name: text, type: string, default: first, help: ${HARM}}\n  - {name: sort, type: choice, help: ${HARM}, section: ${HARM}, choices: [one, ${HARM}], default: one}\n`,
    "manifests/note.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\ndata:\n  text: {{ parameters.text }}\n${more}`,
  },
});

export async function lifecycle({ page, origin, checked }) {
  assert.equal((await api(page, "POST", "/api/v1/templates", template("1.0.0", ""))).status, 201);
  assert.equal((await api(page, "POST", "/api/v1/environments", { name: "noted", template: "note" })).status, 201);
  await page.goto(`${origin}/environments/noted`);
  const ready = page.locator("h1 .state.good", { hasText: "Ready" });
  await ready.waitFor();
  assert.equal((await api(page, "POST", "/api/v1/templates", template("1.1.0", `  harm: ${JSON.stringify(MARKUP)}\n`))).status, 201);
  // The page says it by itself.
  await page.getByText("note 1.1.0 is out; this one has 1.0.0.").waitFor();
  await page.getByRole("link", { name: "See what would change" }).click();
  await page.getByRole("textbox", { name: "text" }).fill("second");
  const look = page.getByRole("button", { name: "Show what would change" });
  await look.click();
  const diff = page.getByRole("region", { name: "What changes of ConfigMap note" });
  await diff.getByText("+  text: second").waitFor();
  await diff.getByText("onerror").first().waitFor();
  await checked(page, "update-diff");
  await page.getByRole("dialog").getByRole("button", { name: "Update" }).click();
  await page.waitForURL(`${origin}/environments/noted`);
  await page.getByText("note 1.1.0").first().waitFor();
  await ready.waitFor();
  await page.goto(`${origin}/environments/noted/update`);
  await page.getByRole("button", { name: "Back to before the last update" }).click();
  await diff.getByText("+  text: first").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await page.getByText("note 1.1.0 is out; this one has 1.0.0.").waitFor();
  await ready.waitFor();

  // Its time line tells all of that.
  await page.goto(`${origin}/environments/noted/activity`);
  await page.locator(".happening", { hasText: "environment.rollback" }).waitFor();
  await page.locator(".happening", { hasText: "update" }).first().waitFor();

  // Shared with somebody whom nobody knows: the server's words are in the dialog.
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Share" }).click();
  await page.getByRole("textbox", { name: "Colleague" }).fill("nobody@example.com");
  await page.getByRole("dialog").getByRole("button", { name: "Share", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  await updatedTwice({ page, origin, checked });
}

/** Two people give one parameter different values: the second one is asked. */
async function updatedTwice({ page, origin, checked }) {
  const environment = "/api/v1/environments/noted";
  await page.goto(`${origin}/environments/noted/update`);
  await page.getByRole("textbox", { name: "text" }).fill("mine");
  assert.equal((await api(page, "POST", `${environment}/update`, { parameters: { text: "theirs" } })).status, 202);
  await page.getByRole("heading", { name: "Two changes of one thing" }).waitFor();
  const look = page.getByRole("button", { name: "Show what would change" });
  assert.equal(await look.getAttribute("aria-disabled"), "true");
  const group = page.getByRole("group", { name: /^Text/ });
  await group.getByText("theirs", { exact: true }).waitFor();
  await checked(page, "update-merge");
  await group.getByText("Yours").click();
  await page.getByRole("button", { name: "Take this" }).click();
  // What was filled in is still there.
  assert.equal(await page.getByRole("textbox", { name: "text" }).inputValue(), "mine");
  await page.locator("h1 .state.good", { hasText: "Ready" }).waitFor();
  await look.click();
  await page.getByRole("region", { name: "What changes of ConfigMap note" }).getByText("+  text: mine").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Update" }).click();
  await page.waitForURL(`${origin}/environments/noted`);
  await page.locator(".panel", { has: page.getByRole("heading", { name: "Parameters" }) }).getByText("mine", { exact: true }).waitFor();
  await page.locator("h1 .state.good", { hasText: "Ready" }).waitFor();
}

/** Two revisions of a real release, and what differs between them. */
export async function releases({ page, origin, checked, kubeconfig, out }) {
  const [helm, chart] = [process.env.VCTL_HELM, process.env.VCTL_CHART];
  assert(helm && chart, "VCTL_HELM and VCTL_CHART are needed");
  const run = (...words) => execFileSync(helm, words, { env: { HOME: out, KUBECONFIG: kubeconfig, PATH: process.env.PATH }, stdio: "pipe" });
  run("install", "app", chart, "--wait", "--timeout", "90s", "--set-string", `side.text=${MARKUP.replaceAll(",", "\\,")}`);
  run("upgrade", "app", chart, "--wait", "--timeout", "90s", "--set", "replicas=2,side.text=two");
  await page.goto(`${origin}/environments/console-test/helm`);
  const table = page.getByRole("table", { name: "Helm releases" });
  await table.getByRole("cell", { name: "app 0.1.0" }).waitFor();
  await table.getByRole("link", { name: "app" }).click();
  await page.getByRole("heading", { name: "Revision 2" }).waitFor();
  const text = page.locator(".editor");
  await text.getByText("replicas: 2").first().waitFor();
  await page.getByRole("combobox", { name: "Compare with" }).selectOption("1");
  await text.getByText("onerror").first().waitFor();
  await checked(page, "helm-diff");
  await page.getByRole("combobox", { name: "Compare with" }).selectOption("");
  await page.getByRole("button", { name: "Manifest" }).click();
  await text.getByText("kind: Deployment").first().waitFor();
  await page.getByRole("combobox", { name: "Revision" }).selectOption("1");
  await page.getByText("helm rollback app 1").waitFor();
}

/** A day of samples, of which some are missing: the server would take a day to make them. */
export async function usage({ page, origin, checked }) {
  const until = Math.floor(Date.now() / 600_000) * 600_000;
  const since = until - 24 * 3600_000;
  const points = Array.from({ length: 144 }, (_, i) => ({ at: new Date(since + i * 600_000).toISOString(), cpuNanoCores: Math.round(2e8 * (1 + Math.sin(i / 9))), memoryBytes: 2 ** 27 + i * 2 ** 20, requests: (i * 37) % 90 })).filter((_, i) => i < 60 || i > 80);
  await page.route("**/api/v1/environments/console-test/usage?**", (route) => route.fulfill({ json: { environment: "console-test", since: new Date(since).toISOString(), until: new Date(until).toISOString(), stepSeconds: 600, points } }));
  await page.goto(`${origin}/environments/console-test/usage?span=24h`);
  await page.getByRole("img", { name: /^Cores: [\d.]+( m)? now, at most 0\.4$/ }).waitFor();
  await page.getByRole("img", { name: /^Working set: 271 MiB now/ }).waitFor();
  await page.getByRole("img", { name: /^Requests in 10 minutes: / }).waitFor();
  // Something is drawn.
  const drawn = await page.locator(".plot canvas").evaluateAll((all) => all.map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte !== 0)));
  assert.deepEqual(drawn, [true, true, true]);
  await checked(page, "usage");
  await page.unroute("**/api/v1/environments/console-test/usage?**");
}
