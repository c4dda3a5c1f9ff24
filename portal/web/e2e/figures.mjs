// Figures of the console: what is painted first, how much JavaScript that takes, frames while many environments scroll. The browser test takes
// them with environments that are made up (console.mjs), `vctl-bench console` with real ones (bench.mjs).
import assert from "node:assert/strict";

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const rounded = (value) => Math.round(value * 10) / 10;

/** First contentful paint in a browser that has seen the page before, in milliseconds: the median of some. */
export async function painted(page, origin, times = 5) {
  const heading = page.getByRole("heading", { name: "Environments", exact: true });
  await page.goto(`${origin}/`);
  await heading.waitFor();
  const all = [];
  for (let i = 0; i < times; i += 1) {
    await page.reload();
    await heading.waitFor();
    all.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity));
  }
  return Math.round(median(all));
}

/** Bytes of JavaScript, as gzip, that come before the first page has its environments. */
export async function firstScripts(page, origin) {
  await page.goto(`${origin}/`);
  await page.locator(".card, .td, .empty").first().waitFor();
  const scripts = await page.evaluate(() => performance.getEntriesByType("resource").map((each) => each.name).filter((name) => new URL(name).pathname.endsWith(".js")));
  assert(scripts.length > 0, "the page has no scripts");
  let bytes = 0;
  for (const script of new Set(scripts)) {
    const answer = await page.request.get(script, { headers: { "accept-encoding": "gzip" } });
    assert.equal(answer.headers()["content-encoding"], "gzip", script);
    bytes += Number(answer.headers()["content-length"]);
  }
  return bytes;
}

/** Answers lists with `count` environments that are like this one, as the server does. */
export async function crowd(page, one, count) {
  const all = Array.from({ length: count }, (_, i) => ({ ...one, name: `env-${String(i).padStart(5, "0")}`, uid: `uid-${i}` }));
  await page.route(/\/api\/v1\/environments(\?|$)/, (route) => {
    const { searchParams: asked } = new URL(route.request().url());
    const first = Number(asked.get("offset") ?? 0);
    const items = all.slice(first, first + Number(asked.get("limit") ?? count));
    return route.fulfill({ json: { items, total: count, counts: { phase: { [one.phase]: count }, template: { [one.template]: count } } } });
  });
}

/** Scrolls a view of `count` environments `env-00000` and so on: milliseconds of a frame, rows in the document; how long until a far part is there. */
export async function scrolled(page, origin, view, count) {
  await page.goto(`${origin}/?view=${view}`);
  await page.getByText("env-00000").waitFor();
  const measured = await page.evaluate(async () => {
    const box = document.querySelector(".scroll, .card-scroll");
    const [frames, heights] = [[], new Set()];
    let most = 0;
    let before = performance.now();
    for (let i = 0; i < 120; i += 1) {
      box.scrollTop += 900;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      frames.push(now - before);
      before = now;
      most = Math.max(most, document.querySelectorAll("[role=row], .card-place").length);
      heights.add(box.scrollHeight);
    }
    frames.sort((a, b) => a - b);
    return { frameP95: frames[Math.floor(frames.length * 0.95)], rows: most, heights: [...heights] };
  });
  assert(measured.rows <= 200, `${view}: ${measured.rows} rows in the document`);
  assert.equal(measured.heights.length, 1, `${view}: the scrollbar jumps: ${measured.heights.join(", ")}`);
  // What is in sight is read when one stays, wherever that is.
  await page.waitForFunction(() => !document.querySelector(".unread"));
  const begun = performance.now();
  await page.evaluate(() => {
    const box = document.querySelector(".scroll, .card-scroll");
    box.scrollTop = box.scrollHeight;
  });
  await page.getByText(`env-${String(count - 1).padStart(5, "0")}`).waitFor();
  return { frameP95: rounded(measured.frameP95), rows: measured.rows, endMs: Math.round(performance.now() - begun) };
}
