// What others wrote does no harm: every page is shown answers in which every free text is markup; no page can be framed.
import assert from "node:assert/strict";
import { MARKUP } from "./browser.mjs";

/** Words that pages decide by, numbers and times as text: the server makes them, people cannot write them. */
const OWN = /^(phase|state|type|verdict|change|unit|holder|what|operation|credential|approvers|kubernetesVersion|csrfToken|job|id|uid|key|digest|permissions|operations|nearest|since|until|next|from|to|diff|version|templateVersion|at|.*At|grantedUntil|credential|startedAt|lastSeen|lastSignIn|period|answerWithin|grant|cpu|memory|storage)$/;
/** Names that addresses are made of, where they are the subject of a page. */
const kept = (key, value) => OWN.test(key) || (key === "kind" && /^(mocked|real|create|update|role|breakGlass|user|group|team|postgres|mysql|redis|kafka|s3|http)$/.test(value));

/** A JSON answer in which people have written markup wherever they can. */
export function hostile(value, key = "", names = new Set()) {
  if (typeof value === "string") return kept(key, value) || names.has(value) ? value : `${MARKUP} ${value}`;
  if (Array.isArray(value)) return value.map((each) => hostile(each, key, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, hostile(each, name, names)]));
}

const AT = "2026-01-01T00:00:00Z";
const MADE_UP = {
  "/api/v1/users": { id: "u1", issuer: "company", name: "Mallory", email: "mallory@example.com", groups: ["staff"], createdAt: AT, lastSignIn: AT, disabled: false },
  "/api/v1/approval-rules": { name: "large", title: "ask", projects: ["shop"], templates: ["web"], operations: ["create"], largerThan: { cpu: "4" }, approvers: "project", approvals: 1, allowOwn: false, revision: 1 },
  "/api/v1/webhooks": { name: "chat", url: "https://example.com", events: ["approval.*"], projects: ["shop"], deliveries: [{ id: "1", event: "test", createdAt: AT, state: "Failed", attempts: 1, message: "refused" }], revision: 1 },
  "/api/v1/logins": { id: "l1", user: "u1", actor: "mallory", client: "laptop", createdAt: AT, usedAt: AT, expiresAt: "2099-01-01T00:00:00Z", current: false },
};

/** Walks these pages (`[label, path]`) with answers that are hostile; names that stand in addresses stay as they are. */
export async function harmless({ page, origin, pages, names, harmed }) {
  const known = new Set(names);
  let answered = 0;
  await page.route(/\/api\/v1\/(?!session|permissions|events)/, async (route) => {
    const request = route.request();
    if (request.method() !== "GET" || request.url().includes("/kube/")) return route.continue();
    const answer = await route.fetch().catch(() => null);
    if (!answer) return route.abort();
    if (!(answer.headers()["content-type"] ?? "").startsWith("application/json")) return route.fulfill({ response: answer });
    answered += 1;
    const body = await answer.json();
    // What nobody has made here: a person of an identity provider, a rule, a webhook, a login of the command line.
    const made = MADE_UP[new URL(request.url()).pathname];
    return route.fulfill({ response: answer, json: hostile(made ? { ...body, items: [...body.items, made] } : body, "", known) });
  });
  const without = [];
  for (const [label, path] of pages) {
    await page.goto(origin + path);
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector(".skeleton"));
    await page.waitForFunction(() => document.body.textContent.includes("onerror"), undefined, { timeout: 20_000 }).catch(async () => without.push(`${label}: ${(await page.locator("main").textContent()).slice(0, 300)}`));
    await harmed(page, `hostile ${label}`);
  }
  await page.unroute(/\/api\/v1\/(?!session|permissions|events)/);
  assert(answered >= pages.length, `${answered} answers`);
  assert.deepEqual(without, [], "pages on which nothing of it is shown");
}

/** A page of somebody else that puts pages of the server into frames: they stay empty, and every answer says why. */
export async function unframed({ open, origin, storageState, paths }) {
  const evil = "https://elsewhere.example";
  const { context, page } = await open([origin, evil], { viewport: { width: 800, height: 600 }, storageState, expected: /frame-ancestors|X-Frame-Options|in a frame/ });
  for (const path of paths) {
    const answer = await page.request.get(origin + path, { maxRedirects: 0 });
    const headers = answer.headers();
    assert.match(headers["content-security-policy"] ?? "", /frame-ancestors 'none'/, path);
    assert.equal(headers["x-frame-options"], "DENY", path);
  }
  await context.route(`${evil}/**`, (route) => route.fulfill({ contentType: "text/html", body: `<!doctype html><title>elsewhere</title>${paths.map((path) => `<iframe src="${origin}${path}"></iframe>`).join("")}` }));
  await page.goto(`${evil}/`);
  for (const frame of page.frames().slice(1)) {
    const shown = await frame.evaluate(() => document.body?.innerText ?? "").catch(() => "");
    assert(!frame.url().startsWith(origin) && !/vctl|Environments|Sign in/.test(shown), `${frame.url()} shows ${shown}`);
  }
  assert.equal(page.frames().length, paths.length + 1);
  await context.close();
}
