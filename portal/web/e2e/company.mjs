// People of a company at work in Debian's Chromium: they sign in at its OpenID Connect provider, one makes an environment from team-x, looks at
// the logs of a real pod, types into a terminal in it, lets the command line in and takes the kubeconfig along; the lead sees it in the audit
// trail. Run by tests/tests/e2e/console_podman.rs.
//
//   VCTL_PORTAL   address of the server      VCTL_ISSUER   address of the provider
//   VCTL_LOGIN    address that a waiting `vctl login` has printed
//   VCTL_OUT      directory for screenshots, downloads and figures
import assert from "node:assert/strict";
import { join } from "node:path";
import { approvals } from "./approvals.mjs";
import { MARKUP, drive } from "./browser.mjs";

const { VCTL_PORTAL: portal, VCTL_ISSUER: issuer, VCTL_LOGIN: login, VCTL_OUT: out } = process.env;
assert(portal && issuer && login && out, "VCTL_PORTAL, VCTL_ISSUER, VCTL_LOGIN and VCTL_OUT are needed");
const loopback = new URL(new URL(login).searchParams.get("redirect_uri")).origin;

await drive("company", out, async ({ open, checked, part, figures }) => {
  const WIDE = { viewport: { width: 1440, height: 900 }, colorScheme: "light" };

  /** A window in which somebody has signed in at the provider. */
  async function signedIn(account, label) {
    const { context, page } = await open([portal, issuer, loopback], WIDE);
    await page.goto(`${portal}/`);
    if (label) await checked(page, label);
    await page.getByRole("link", { name: "Sign in with The company" }).click();
    await page.getByRole("textbox", { name: "Account" }).fill(account);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(`${portal}/`);
    await page.getByRole("heading", { level: 1, name: "Environments" }).waitFor();
    await page.getByText(`${account}@example.com`).first().waitFor();
    return { context, page };
  }

  const { page } = await signedIn("alice", "company-sign-in");
  await page.getByRole("status").filter({ hasText: "Live" }).first().waitFor();
  await checked(page, "company-signed-in");

  // From the template of the team, with one parameter that another person would rather not see as markup.
  await page.getByRole("link", { name: "New environment" }).first().click();
  await page.getByRole("radio", { name: /team-x/ }).check({ force: true });
  await page.getByRole("textbox", { name: /^Name/ }).fill("shop");
  await page.getByRole("textbox", { name: "greeting" }).fill(MARKUP);
  await checked(page, "company-create");
  await page.getByRole("button", { name: "Show what it makes" }).click();
  await page.getByRole("dialog").getByRole("region", { name: /^What changes of Deployment/ }).first().waitFor();
  await checked(page, "company-preview");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  const asked = Date.now();
  await page.getByRole("button", { name: "Create environment" }).click();
  await page.waitForURL(`${portal}/environments/shop`);
  await page.locator("h1 .state.good", { hasText: "Ready" }).waitFor({ timeout: 150_000 });
  figures.readyMs = Date.now() - asked;
  await page.getByText(MARKUP).first().waitFor();
  await checked(page, "company-environment");

  // A shell in a container that runs.
  const sections = page.getByRole("navigation", { name: "Environment", exact: true });
  await sections.getByRole("link", { name: "Resources" }).click();
  const pods = page.getByRole("table", { name: "pods" });
  await pods.getByRole("link", { name: /^redis-/ }).click();
  await page.getByRole("button", { name: "Terminal" }).click();
  await page.getByRole("status").filter({ hasText: "Connected" }).waitFor();
  const typed = async (line) => {
    await page.keyboard.type(line);
    await page.keyboard.press("Enter");
  };
  const terminal = page.locator(".terminal");
  await typed("echo $((6 * 7)) is the answer of $(hostname)");
  await terminal.getByText(/42 is the answer of redis-/).first().waitFor();
  await typed("redis-cli get greeting");
  await terminal.getByText("onerror").first().waitFor();
  // Colours that are in no table of the terminal.
  await typed("printf '\\033[38;2;250;128;114msalmon\\033[0m\\n'");
  const salmon = terminal.locator(".xterm-rows span", { hasText: /^salmon$/ });
  await salmon.waitFor();
  assert.equal(await salmon.evaluate((element) => getComputedStyle(element).color), "rgb(250, 128, 114)");
  await checked(page, "company-terminal");
  // The log of the container gets a line that would be markup in a page that is not careful.
  const quoted = MARKUP.replaceAll("'", `'\\''`);
  await typed(`echo '${quoted}' > /proc/1/fd/1`);
  await typed("exit 3");
  await page.getByText("The command has ended with code 3.").waitFor();

  // Its log, live.
  await page.getByRole("button", { name: "Logs", exact: true }).click();
  const log = page.getByRole("log", { name: "Log lines" });
  await log.getByText("Ready to accept connections").waitFor();
  await log.getByText(MARKUP).waitFor();
  await checked(page, "company-logs");

  // The kubeconfig, which has no credentials in it, and the command line that gives it some.
  await page.goto(`${portal}/environments/shop`);
  const [downloaded] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Kubeconfig", exact: true }).click()]);
  await downloaded.saveAs(join(out, "shop.kubeconfig"));
  await page.goto(login);
  await checked(page, "company-allow");
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("You are signed in. You can close this window.").waitFor();

  // It is there as a login that can be ended.
  await page.goto(`${portal}/account`);
  await page.getByRole("table", { name: "Logins" }).getByRole("button", { name: /^End the login of/ }).waitFor();
  await checked(page, "company-account");

  // From the first page to a kubeconfig of a new environment, without a person's pauses.
  const began = Date.now();
  const { page: lead } = await signedIn("bob");
  const kubeconfig = await lead.evaluate(async () => {
    const api = async (path, options) => {
      const answer = await fetch(`/api/v1/${path}`, options);
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return answer;
    };
    const { csrfToken } = await (await api("session")).json();
    const headers = { "content-type": "application/json", "x-csrf-token": csrfToken };
    const made = await (await api("environments", { method: "POST", headers, body: JSON.stringify({ name: "quick", template: "blank" }) })).json();
    let job = await (await api(`jobs/${made.job}`)).json();
    while (job.finishedAt === null) job = await (await api(`jobs/${made.job}?changedAfter=${job.revision}`)).json();
    if (job.state !== "succeeded") throw new Error(`${job.state}: ${job.error}`);
    return (await api("environments/quick/kubeconfig")).text();
  });
  figures.signInToKubeconfigMs = Date.now() - began;
  assert.match(kubeconfig, /clusters:/);

  // The lead of the team sees who did what.
  await lead.goto(`${portal}/audit`);
  const trail = lead.getByRole("table", { name: "Audit trail" });
  const entry = trail.getByRole("row").filter({ hasText: "environment.create" }).filter({ hasText: "shop" });
  await entry.getByRole("cell", { name: "alice@example.com" }).waitFor();
  await checked(lead, "company-audit");
  await entry.getByRole("button", { name: "environment.create" }).click();
  await lead.getByRole("dialog").getByText("onerror").first().waitFor();
  await checked(lead, "company-audit-entry");

  await part("approvals", () => approvals({ portal, page, lead, checked }));
});
