// Prints the console's figures beside real environments; `vctl-bench console` runs it.
//
//   VCTL_LINK   sign-in link      VCTL_ENVIRONMENTS   how many there are: env-00000 and so on      VCTL_OUT   directory for what it finds
import assert from "node:assert/strict";
import { drive } from "./browser.mjs";
import { firstScripts, painted, scrolled } from "./figures.mjs";

const { VCTL_LINK: link, VCTL_OUT: out, VCTL_ENVIRONMENTS: environments } = process.env;
assert(link && out && environments, "VCTL_LINK, VCTL_OUT and VCTL_ENVIRONMENTS are needed");
const origin = new URL(link).origin;

await drive("bench", out, async ({ open, figures }) => {
  const { page } = await open([origin], { viewport: { width: 1440, height: 900 } });
  await page.goto(link);
  await page.waitForURL(`${origin}/`);
  figures.firstContentfulPaintMs = await painted(page, origin, 15);
  figures.firstScriptsGzipBytes = await firstScripts(page, origin);
  for (const view of ["table", "cards"]) figures[view] = await scrolled(page, origin, view, Number(environments));
});
