// The list of environments: found, sorted and paged by the server, and live.
import assert from "node:assert/strict";
import { crowd } from "./figures.mjs";
import { api } from "./lifecycle.mjs";

const LISTS = /\/api\/v1\/environments(\?|$)/;

/** `page` is a window of its own; needs the environment `console-test`. */
export async function lists({ page, origin }) {
  const card = (name) => page.locator(".card", { hasText: name });
  // Changes come as events: what the page reads again from time to time it does not read here.
  await page.addInitScript(() => {
    const { setInterval } = globalThis;
    globalThis.setInterval = (what, millis, ...rest) => (millis >= 10_000 ? 0 : setInterval(what, millis, ...rest));
  });
  await page.goto(`${origin}/`);
  await card("console-test").waitFor();
  const asked = [];
  page.on("request", (request) => {
    if (LISTS.test(request.url()) && request.method() === "GET") asked.push(new URL(request.url()).searchParams);
  });
  assert.equal((await api(page, "POST", "/api/v1/environments", { name: "by-event", template: "blank" })).status, 201);
  await card("by-event").locator(".state.good", { hasText: "Ready" }).waitFor();
  assert(asked.length > 0, "it was in the list without being asked for");
  await page.locator(".nav .count", { hasText: "2" }).waitFor();

  // What is looked for is asked of the server, and says so in the address.
  await page.goto(`${origin}/?view=table`);
  const shown = async (...names) => {
    await page.waitForFunction((wanted) => JSON.stringify([...document.querySelectorAll(".td a")].map((each) => each.textContent)) === wanted, JSON.stringify(names));
  };
  await shown("by-event", "console-test");
  await page.getByRole("columnheader", { name: "Name" }).getByRole("button").click();
  await shown("console-test", "by-event");
  assert.equal(new URL(page.url()).searchParams.get("sort"), "-name");
  await page.getByRole("columnheader", { name: "Age" }).getByRole("button").click();
  await shown("console-test", "by-event");
  await page.getByRole("searchbox", { name: "Find environments" }).fill("BY-ev");
  await shown("by-event");
  await page.getByText("1 of 2 environments").waitFor();
  await page.getByRole("searchbox", { name: "Find environments" }).fill("nothing is called so");
  await page.getByText("Nothing matches").waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await shown("console-test", "by-event");
  const has = (key, value) => asked.some((each) => each.get(key) === value);
  assert(has("sort", "-name") && has("sort", "createdAt") && has("q", "BY-ev"), asked.join("\n"));

  // One that is not Ready any more leaves the list of those that are; one that is gone leaves all.
  await page.goto(`${origin}/?view=table&phase=Ready`);
  await shown("by-event", "console-test");
  assert.equal((await api(page, "POST", "/api/v1/environments/by-event/sleep", {})).status, 202);
  await shown("console-test");
  await page.getByRole("button", { name: /^Sleeping/ }).click();
  await shown("by-event");
  assert.equal((await api(page, "DELETE", "/api/v1/environments/by-event")).status, 202);
  await page.getByText("Nothing matches").waitFor();
  await page.goto(`${origin}/`);
  await card("console-test").waitFor();
  await card("by-event").waitFor({ state: "detached" });

  // A thousand: what is in sight is read, wherever one drags the scrollbar to, and no more.
  await crowd(page, (await api(page, "GET", "/api/v1/environments/console-test")).body, 1000);
  await page.goto(`${origin}/?view=table`);
  await page.getByText("env-00000").waitFor();
  asked.length = 0;
  await page.locator(".scroll").evaluate((box) => (box.scrollTop = 500 * 38));
  await page.getByText("env-00500").waitFor();
  // What follows the top is read with it.
  const offsets = new Set(asked.map((each) => each.get("offset")).filter((each) => each !== null && each !== "100"));
  assert(offsets.has("500") && offsets.size <= 3, `read at ${[...offsets].join(", ")}`);
  assert.equal(await page.getByRole("table", { name: "Environments" }).getAttribute("aria-rowcount"), "1001");
  // Another order begins at its top.
  await page.getByRole("columnheader", { name: "Owner" }).getByRole("button").click();
  await page.getByText("env-00000").waitFor();
  assert.equal(await page.locator(".scroll").evaluate((box) => box.scrollTop), 0);
}
