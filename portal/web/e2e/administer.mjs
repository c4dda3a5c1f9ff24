// What administrators do in the console: projects, teams, roles, the platform, resources, API keys. Every title is a text that would do harm
// where text becomes markup.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "playwright-core";
import { MARKUP } from "./browser.mjs";

export async function administer({ page, origin }) {
  const dialog = page.getByRole("dialog");
  const field = (name) => dialog.getByRole("textbox", { name });
  const done = async (verb) => {
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };

  // A team, made and changed.
  await page.goto(`${origin}/admin/teams`);
  await page.getByRole("button", { name: "New team" }).click();
  await field(/^Name/).fill("shop");
  await field("Title").fill(MARKUP);
  await field(/^Groups/).fill("shop-developers, shop-leads");
  await done("Create");
  await page.getByText("shop-developers, shop-leads").waitFor();
  await page.getByRole("button", { name: "Actions for shop" }).click();
  await page.getByRole("menuitem", { name: "Change" }).click();
  await field("Environments").fill("x");
  assert.equal(await dialog.getByRole("button", { name: "Change" }).getAttribute("aria-disabled"), "true");
  await field("Environments").fill("7");
  await done("Change");
  await page.getByText("7 environments").waitFor();

  // A role of one's own, by rules; those that are built in say why they stay.
  await page.goto(`${origin}/admin/roles`);
  await page.getByRole("button", { name: "New role" }).click();
  await field(/^Name/).fill("operator");
  await field("Title").fill(MARKUP);
  await field(/^Rules/).fill("environments.sleep\njobs.everything.\n");
  await dialog.locator(".error-text", { hasText: "instead of jobs.everything." }).waitFor();
  await field(/^Rules/).fill("environments.sleep\njobs.*\n");
  await dialog.getByText("4 permissions of yours would be in it").waitFor();
  await done("Create");
  await page.getByRole("button", { name: "Actions for developer" }).click();
  await page.getByText("It is built in: make one of your own").waitFor();
  await page.keyboard.press("Escape");

  // A project with limits, a member by team and role; its bar says how full it is.
  await page.goto(`${origin}/projects`);
  await page.getByRole("button", { name: "New project" }).click();
  await field(/^Name/).fill("Shop");
  await dialog.locator(".error-text", { hasText: "Lower-case letters, digits and -" }).waitFor();
  await field(/^Name/).fill("shop");
  await field("Title").fill(MARKUP);
  await done("Create");
  await page.getByRole("button", { name: "More actions for shop" }).click();
  await page.getByRole("menuitem", { name: "Title and limits" }).click();
  await field("Allowed templates").fill("blank, nothing");
  await dialog.locator(".error-text", { hasText: "There is no template nothing" }).waitFor();
  await field("Allowed templates").fill("blank, team-x");
  await field("Environments").first().fill("3");
  await done("Change");
  const shop = page.locator(".panel", { has: page.getByRole("heading", { name: "shop", exact: true }) });
  await shop.getByRole("meter", { name: "Environments" }).waitFor();
  assert.equal(await shop.getByRole("meter", { name: "Environments" }).getAttribute("aria-valuemax"), "3");
  await shop.getByRole("button", { name: "Member" }).click();
  await dialog.getByRole("combobox", { name: "What it is" }).selectOption("team");
  await dialog.getByRole("combobox", { name: "Role" }).selectOption("operator");
  await field(/^Name/).fill("shop");
  await done("Add");
  await shop.getByText("operator").waitFor();

  // Somebody who may read everything everywhere.
  await page.goto(`${origin}/admin/platform`);
  await page.getByRole("button", { name: "Member" }).click();
  await dialog.getByRole("combobox", { name: "What it is" }).selectOption("group");
  await field(/^Name/).fill("auditors");
  await done("Add");
  await page.getByText("auditors", { exact: true }).waitFor();

  // A resource that cannot be reached says so when it is tried.
  await page.goto(`${origin}/admin/resources`);
  await page.getByRole("button", { name: "Register a resource" }).click();
  await field(/^Name/).fill("orders");
  await field(/^Host/).fill("127.0.0.1");
  await field("Port").fill("9");
  await field("User").fill("orders");
  await field("Password").fill("secret-of-orders-0123456789");
  await done("Register");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.locator(".note.bad").waitFor();
  assert(!(await page.content()).includes("secret-of-orders"), "the password of a resource is in the page");

  // A key is shown once, counts, and counts no more when it is revoked.
  await page.goto(`${origin}/account`);
  await page.getByRole("button", { name: "New key" }).click();
  await field(/^Name/).fill(MARKUP.slice(0, 64));
  await dialog.getByRole("button", { name: "Create" }).click();
  const shown = dialog.getByRole("textbox", { name: "API key" });
  const token = (await shown.textContent()).trim();
  const program = await request.newContext({ ignoreHTTPSErrors: true });
  const status = async () => (await program.get(`${origin}/api/v1/environments`, { headers: { authorization: `Bearer ${token}` } })).status();
  assert.equal(await status(), 200);
  await done("Done");
  assert(!(await page.content()).includes(token), "the key is still in the page");
  await page.getByRole("button", { name: /^Revoke/ }).click();
  await done("Revoke");
  await page.getByText("No API keys").waitFor();
  assert.equal(await status(), 401);
  await program.dispose();
}

/** The audit trail: found by the server, taken along, verified. */
export async function audit({ page, origin, out, checked }) {
  await page.goto(`${origin}/audit`);
  const table = page.getByRole("table", { name: "Audit trail" });
  await table.getByRole("button", { name: "project.create" }).waitFor();
  await page.getByRole("combobox", { name: "Action" }).selectOption("team.*");
  await page.waitForFunction(() => [...document.querySelectorAll("[role=row] button.link")].every((each) => each.textContent.startsWith("team.")));
  await table.getByRole("button", { name: "team.update" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".change", { hasText: "/quota" }).waitFor();
  await checked(page, "audit-entry");
  await dialog.getByRole("button", { name: "Close", exact: true }).click();
  await page.getByRole("button", { name: "Save as a file" }).click();
  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "CSV" }).click()]);
  const file = join(out, "audit.csv");
  await saved.saveAs(file);
  const lines = readFileSync(file, "utf8").trim().split("\n");
  assert(lines.length >= 3 && lines.slice(1).every((line) => line.includes("team.")), lines.join("\n"));
  await page.getByRole("combobox", { name: "Action" }).selectOption("");
  await page.getByRole("searchbox", { name: "Find in all entries" }).fill("shop-leads");
  await page.waitForFunction(() => /^[1-3] entr/.test(document.querySelector(".table-foot")?.textContent ?? ""));
  await page.getByRole("button", { name: "Verify" }).click();
  await dialog.getByText("The trail is whole").waitFor();
  await dialog.getByRole("button", { name: "Close", exact: true }).click();
}
