// What others wrote does no harm: every page is shown answers in which every free text is markup; no page can be framed.
import assert from "node:assert/strict";
import { MARKUP } from "./browser.mjs";

/** Words that pages decide by, numbers and times as text: the server makes them, people cannot write them. */
const OWN = /^(phase|state|type|verdict|change|unit|holder|what|operation|credential|approvers|kubernetesVersion|csrfToken|job|id|byId|uid|key|digest|permissions|operations|nearest|since|until|next|from|to|version|templateVersion|at|.*At|grantedUntil|lastSeen|lastSignIn|period|answerWithin|grant|cpu|memory|storage)$/;
const KINDS = /^(mocked|real|create|update|role|breakGlass|user|group|team|postgres|mysql|redis|kafka|s3|http)$/;

/** A JSON answer in which people have written markup wherever they can, and after it where it stands. Names that addresses are made of stay. */
export function hostile(value, names, place) {
  const key = place.at(-1);
  if (typeof value === "string") return OWN.test(key) || (key === "kind" && KINDS.test(value)) || names.has(value) ? value : `${MARKUP} [${place.join(".")}] ${value}`;
  if (Array.isArray(value)) return value.map((each) => hostile(each, names, place));
  if (typeof value !== "object" || value === null) return value;
  const into = (name) => (key === "items" ? [...place.slice(0, -1), name] : [...place, name]);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, hostile(each, names, into(name))]));
}

const AT = "2026-01-01T00:00:00Z";
const LATE = "2099-01-01T00:00:00Z";
/** What nobody has made here: a person of an identity provider, a rule, a webhook, a login of the command line, a key; what happens to requests and jobs. */
const MADE_UP = {
  users: { id: "u1", issuer: "company", name: "Mallory", email: "mallory@example.com", groups: ["staff"], createdAt: AT, lastSignIn: AT, disabled: false },
  "approval-rules": { name: "large", title: "ask", projects: ["shop"], templates: ["web"], operations: ["create"], largerThan: { cpu: "4" }, approvers: "project", approvals: 1, allowOwn: false, revision: 1 },
  webhooks: { name: "chat", url: "https://example.com", events: ["approval.*"], projects: ["shop"], deliveries: [{ id: "1", event: "test", createdAt: AT, state: "Failed", attempts: 1, message: "refused" }], revision: 1 },
  logins: { id: "l1", user: "u1", actor: "mallory", client: "laptop", createdAt: AT, usedAt: AT, expiresAt: LATE, current: false },
  "api-keys": { id: "k1", name: "deploy", user: "u1", scopes: { verbs: ["read"], project: "shop" }, createdAt: AT, expiresAt: LATE, lastUsedAt: AT },
};
const FURTHER = {
  approvals: {
    message: "not now",
    decisions: [{ by: "lead", byId: "u2", at: AT, verdict: "deny", comment: "too large" }],
    rules: [{ rule: "large", revision: 1, why: "it asks for 8 CPU" }],
    create: { name: "big", template: "web", parameters: { size: "huge" } },
    review: { by: "auditor", at: AT, comment: "seen" },
  },
  jobs: { error: "broken", log: [{ at: AT, step: "apply", message: "said" }] },
};

/** What must be there as text, by page: where people write, or programs that others have written. What ends with a dot is the beginning of a place. */
const SHOWN = {
  environments: "environments: name owner message; session: actor",
  "environments-table": "environments: name owner message project",
  environment: "environments: owner message",
  noted: "environments: parameters.text",
  activity: "audit: actor action; jobs: error",
  update: "templates: parameters.help parameters.section parameters.choices",
  create: "templates: title parameters.help parameters.section parameters.choices",
  account: "identity: actor; api-keys: name scopes.project; logins: client",
  "admin-users": "users: name email groups",
  "admin-teams": "teams: name title groups",
  "admin-roles": "roles: name title rules",
  "admin-platform": "platform: members.name members.role",
  "admin-resources": "resources: name host user",
  "admin-approval-rules": "approval-rules: name title projects templates",
  "admin-webhooks": "webhooks: name url events deliveries.event deliveries.message",
  templates: "templates: title description parameters.help parameters.choices",
  projects: "projects: name title members.name members.role",
  jobs: "jobs: environment",
  job: "jobs: error steps.name log.step log.message",
  approval: "approvals: reason message requestedBy project decisions.by decisions.comment rules.rule rules.why create.template create.parameters.size review.by review.comment",
  audit: "audit: actor subject project detail.",
  "audit, opened": "audit: requestId source",
  workers: "workers: name runtime",
  settings: "status: listen",
  "no-job": "problem: detail",
};

/** The places of such a list, as they are written: `[teams.name]`. */
const places = (shown) =>
  shown.split("; ").flatMap((each) => {
    const [collection, fields] = each.split(": ");
    return fields.split(" ").map((field) => `[${collection}.${field}${field.endsWith(".") ? "" : "]"}`);
  });

/** What of a page is opened besides: entries, forms with what is set now. */
const OPENED = {
  audit: (page) => page.locator(".td button.link").first().click(),
  "admin-users": (page) => page.locator(".td button.link").first().click(),
  "admin-teams": (page) => chosen(page, /^Actions for/, "Change"),
  "admin-roles": (page) => chosen(page, /^Actions for .*operator/, "Change"),
  "admin-approval-rules": (page) => chosen(page, /^Actions for/, "Change"),
  "admin-platform": (page) => page.getByRole("button", { name: "Change", exact: true }).click(),
  projects: (page) => chosen(page, /^More actions for/, "Title and limits"),
  account: (page) => page.getByRole("button", { name: /^Revoke/ }).click(),
};

async function chosen(page, menu, item) {
  await page.getByRole("button", { name: menu }).first().click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
}

/** Walks these pages (`[label, path]`) with answers that are hostile; names that stand in addresses stay as they are. */
export async function harmless({ page, origin, pages, names, harmed }) {
  const known = new Set(names);
  const portal = /\/api\/v1\/(?!permissions|events)/;
  await page.route(portal, async (route) => {
    const request = route.request();
    if (request.method() !== "GET" || request.url().includes("/kube/")) return route.continue();
    const answer = await route.fetch().catch(() => null);
    if (!answer) return route.abort();
    if (!/^application\/(problem\+)?json/.test(answer.headers()["content-type"] ?? "")) return route.fulfill({ response: answer });
    let body = await answer.json();
    const [collection, id, ...below] = new URL(request.url()).pathname.split("/").slice(3);
    if (!answer.ok()) return route.fulfill({ response: answer, json: hostile(body, known, ["problem"]) });
    if (collection === "environments" && id === undefined) body = { ...body, items: [...body.items, ...body.items.slice(0, 1).map((each) => ({ ...each, name: "other", uid: "other" }))], total: body.total + 1 };
    if (id === undefined && MADE_UP[collection]) body = { ...body, items: [...body.items, MADE_UP[collection]] };
    if (id !== undefined && below.length === 0) body = { ...body, ...FURTHER[collection] };
    return route.fulfill({ response: answer, json: hostile(body, known, [collection, ...below.slice(0, 1)]) });
  });
  const missing = [];
  const looked = async (label) => {
    for (const place of SHOWN[label] === undefined ? [] : places(SHOWN[label])) {
      // In fields too.
      const there = (text) => [document.body.textContent, ...[...document.querySelectorAll("input, textarea")].map((each) => each.value)].some((each) => each.includes(text));
      await page.waitForFunction(there, place, { timeout: 20_000 }).catch(() => missing.push(`${label}: ${place}`));
    }
    await harmed(page, `hostile ${label}`);
  };
  for (const [label, path] of pages) {
    assert(SHOWN[label], `what must be shown of ${label}`);
    await page.goto(origin + path);
    await looked(label);
    if (OPENED[label] === undefined) continue;
    await OPENED[label](page);
    await page.getByRole("dialog").waitFor();
    await looked(`${label}, opened`);
  }
  await page.unroute(portal);
  assert.deepEqual(missing, [], "what is not shown as text");
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
