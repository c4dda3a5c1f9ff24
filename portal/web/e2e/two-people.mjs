// Two people edit one thing at the same time: nobody's change is lost without being asked.
import assert from "node:assert/strict";
import { MARKUP } from "./browser.mjs";
import { api } from "./lifecycle.mjs";

/** What can be set of what an answer tells. */
function settings(answer) {
  const kept = { ...answer };
  for (const told of ["name", "createdAt", "builtIn", "revision"]) delete kept[told];
  return kept;
}

/** `page` and `other` are windows of two people. Needs the project and the team `shop`, and the role `operator`. */
export async function twoPeople({ page, other, origin, checked }) {
  const windowOf = (view) => {
    const dialog = view.getByRole("dialog");
    return {
      dialog,
      field: (name) => dialog.getByRole("textbox", { name }),
      press: (name) => dialog.getByRole("button", { name, exact: true }).click(),
      gone: () => dialog.waitFor({ state: "detached" }),
      limits: async () => {
        await view.goto(`${origin}/projects`);
        await view.getByRole("button", { name: "More actions for shop" }).click();
        await view.getByRole("menuitem", { name: "Title and limits" }).click();
        await dialog.waitFor();
      },
    };
  };
  const [one, two] = [windowOf(page), windowOf(other)];
  const get = async (path) => (await api(page, "GET", `/api/v1/${path}`)).body;
  const merge = (group) => one.dialog.getByRole("group", { name: new RegExp(`^${group}`) });

  // Both open the limits of a project; the second one is faster.
  await one.limits();
  await two.limits();
  await two.field("Title").fill(`theirs ${MARKUP}`);
  await two.field("Environments").first().fill("5");
  await two.field("Allowed workers").fill("gpu-*");
  await two.press("Change");
  await two.gone();
  await one.field("Title").fill("mine");
  await one.field("Awake at the same time").first().fill("2");
  await one.press("Change");
  // Pressed as often as one likes: it is never overwritten.
  await merge("Title").waitFor();
  await checked(page, "merge");
  const apply = one.dialog.getByRole("button", { name: "Apply" });
  assert.equal(await apply.getAttribute("aria-disabled"), "true", "nothing was chosen yet");
  assert.equal((await get("projects/shop")).quota.environments, 5);
  // A third change comes while one looks at it: one is asked again.
  const { body: now } = await api(page, "GET", "/api/v1/projects/shop");
  assert.equal((await api(page, "PUT", "/api/v1/projects/shop", { ...settings(now), title: "third" })).status, 200);
  await merge("Title").getByText("Yours").click();
  await apply.click();
  await merge("Title").getByText("third").waitFor();
  assert.equal((await get("projects/shop")).title, "third");
  await merge("Title").getByText("Yours").click();
  await apply.click();
  await one.gone();
  const project = await get("projects/shop");
  assert.equal(project.title, "mine");
  assert.deepEqual(project.quota, { ...now.quota, environments: 5, awake: 2 });
  assert.deepEqual(project.allowedWorkers, ["gpu-*"]);

  // Members that both add are both there, without a question.
  await other.goto(`${origin}/projects`);
  await page.goto(`${origin}/projects`);
  // What is shown stays as it was.
  const { body: listed } = await api(other, "GET", "/api/v1/projects");
  await other.route("**/api/v1/projects", (route) => route.fulfill({ json: listed }));
  await other.reload();
  const add = async (view, { dialog, field, press }, group) => {
    const panel = view.locator(".panel", { has: view.getByRole("heading", { name: "shop", exact: true }) });
    await panel.getByRole("button", { name: "Member" }).click();
    await dialog.getByRole("combobox", { name: "What it is" }).selectOption("group");
    await field(/^Name/).fill(group);
    await press("Add");
    await dialog.waitFor({ state: "detached" });
  };
  await add(page, one, "first-group");
  await add(other, two, "second-group");
  await other.unroute("**/api/v1/projects");
  const names = (await get("projects/shop")).members.map((each) => each.name);
  assert(names.includes("first-group") && names.includes("second-group"), names.join(", "));

  // Teams, roles and the platform go the same way.
  const change = async (section, label, shown, path, theirs) => {
    await page.goto(`${origin}/admin/${section}`);
    await page.getByRole("button", { name: label }).click();
    if (shown) await page.getByRole("menuitem", { name: shown }).click();
    await one.dialog.waitFor();
    const { body } = await api(other, "GET", path);
    assert.equal((await api(other, "PUT", path, settings(theirs(body)))).status, 200);
  };
  await change("teams", "Actions for shop", "Change", "/api/v1/teams/shop", (team) => ({ ...team, groups: ["theirs"] }));
  await one.field(/^Groups/).fill("mine");
  await one.press("Change");
  await merge("Groups").getByText("Both").click();
  await apply.click();
  await one.gone();
  assert.deepEqual((await get("teams/shop")).groups, ["theirs", "mine"]);
  await change("roles", "Actions for operator", "Change", "/api/v1/roles/operator", (role) => ({ ...role, title: "theirs" }));
  await one.field(/^Rules/).fill("environments.sleep\n");
  await one.press("Change");
  await one.dialog.getByText("Both changes go together.").waitFor();
  await apply.click();
  await one.gone();
  const role = await get("roles/operator");
  assert.deepEqual([role.title, role.rules], ["theirs", ["environments.sleep"]]);
  await change("platform", "Change", undefined, "/api/v1/platform", (platform) => ({ ...platform, userQuota: { environments: 50 } }));
  await one.field("Environments").first().fill("60");
  await one.press("Change");
  await merge("User quota: environments").getByText("Theirs").click();
  await apply.click();
  await one.gone();
  assert.deepEqual((await get("platform")).userQuota, { environments: 50 });

  // One makes what another has made meanwhile: it is not overwritten.
  await page.goto(`${origin}/admin/roles`);
  await page.getByRole("button", { name: "New role" }).click();
  await one.field(/^Name/).fill("made-twice");
  await one.field(/^Rules/).fill("jobs.list");
  assert.equal((await api(other, "PUT", "/api/v1/roles/made-twice", { title: "", rules: ["audit.list"] })).status, 200);
  await one.press("Create");
  await one.dialog.getByText("Somebody else has made one of that name meanwhile.").waitFor();
  assert.deepEqual((await get("roles/made-twice")).rules, ["audit.list"]);
}
