// What the drives share: Debian's Chromium, what it complains about, screenshots, axe-core.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Names of parts, with commas: those alone are run, to look at one of them.
const ONLY = new Set((process.env.VCTL_ONLY ?? "").split(",").filter(Boolean));
const WAIT = Number(process.env.VCTL_WAIT ?? 60_000);

/** A text that does harm where text becomes markup: people put it wherever they can write. */
export const MARKUP = `<img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script>'"\`\${pwned}`;

// Colours differ between the schemes, the rest does not.
export const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/** Runs a drive in a browser; ends the process with 1 after a failure or a complaint. */
export async function drive(name, out, run) {
  mkdirSync(out, { recursive: true });
  const browser = await chromium.launch({
    executablePath: process.env.VCTL_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const complaints = [];
  const figures = {};
  let last;

  /** A window of its own, for pages of these origins; further ones may be added. Messages that are `expected` are no complaints. */
  async function open(origins, { expected, ...options }) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, acceptDownloads: true, ...options });
    // What the page's own policy has stopped.
    await context.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
    });
    const page = await context.newPage();
    last = page;
    page.setDefaultTimeout(WAIT);
    page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error.stack ?? error}`));
    page.on("console", (message) => {
      // Answers of 404 and the like are told by the browser itself; pages show them.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource") && !expected?.test(message.text())) complaints.push(`${page.url()}: ${message.text()}`);
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!origins.some((origin) => url.startsWith(origin)) && !url.startsWith("blob:") && !url.startsWith("data:")) complaints.push(`a request to ${url}`);
    });
    return { context, page };
  }

  /** A picture of the page; its serious findings of axe-core, what is too wide, and text that became markup. */
  async function checked(page, label, runOnly) {
    await page.screenshot({ path: join(out, `${label}.png`) });
    await page.evaluate(axe);
    const result = await page.evaluate((only) => window.axe.run(document, { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) }), runOnly);
    const serious = result.violations.filter((violation) => violation.impact === "serious" || violation.impact === "critical");
    for (const violation of serious) {
      for (const node of violation.nodes.slice(0, 4)) complaints.push(`axe, ${label}: ${violation.id}: ${node.target.join(" ")}: ${node.failureSummary?.split("\n").slice(0, 2).join(" ")}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) complaints.push(`${label}: the page is ${wide} px wider than the window`);
    await harmed(page, label);
  }

  /** Complains where text of a person has become markup or an address that runs, in the editor too. */
  async function harmed(page, label) {
    const markup = await page.evaluate(() => {
      const roots = [document, ...[...document.querySelectorAll("*")].flatMap((each) => each.shadowRoot ?? [])];
      const found = roots.some((root) => root.querySelector("img[onerror], img[src=x], body script:not([src]), a[href^='javascript:' i], iframe, object, embed"));
      return globalThis.pwned !== undefined || found;
    });
    if (markup) complaints.push(`${label}: text of a person has become markup`);
  }

  let failed = false;
  /** A part of the drive that the next ones can do without: all that is wrong is told at once. */
  async function part(label, what) {
    if (ONLY.size > 0 && !ONLY.has(label)) return;
    try {
      await what();
    } catch (error) {
      failed = true;
      console.error(`${label}:`, error);
      await last?.screenshot({ path: join(out, `${label}-failed.png`) }).catch(() => undefined);
    }
  }

  try {
    await run({ open, checked, harmed, part, figures });
  } catch (error) {
    failed = true;
    console.error(error);
    await last?.screenshot({ path: join(out, `${name}-failed.png`) }).catch(() => undefined);
  } finally {
    if (complaints.length > 0) console.error([...new Set(complaints)].join("\n"));
    await browser.close();
  }
  writeFileSync(join(out, `${name}.json`), JSON.stringify(figures, null, 2));
  console.log(JSON.stringify(figures));
  if (failed || complaints.length > 0) process.exit(1);
}
