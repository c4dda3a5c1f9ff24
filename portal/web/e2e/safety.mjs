// No page can be put into a frame.
import assert from "node:assert/strict";

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
