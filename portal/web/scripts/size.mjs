// How much JavaScript the console is: everything that loads before the terminal and the editor do, against its limit.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT = 350 * 1024;
const dist = new URL("../dist/", import.meta.url).pathname;
const manifest = JSON.parse(readFileSync(`${dist}manifest.json`, "utf8"));
// The two lazy parts, by the module that begins them, and what only they load.
const LAZY = /(^|\/)(editor|terminal)\.tsx$/;
const files = new Map();
const visit = (key) => {
  const chunk = manifest[key];
  if (!chunk || files.has(chunk.file) || LAZY.test(key)) return;
  if (chunk.file.endsWith(".js")) files.set(chunk.file, gzipSync(readFileSync(`${dist}console/${chunk.file}`), { level: 9 }).length);
  for (const next of [...(chunk.imports ?? []), ...(chunk.dynamicImports ?? [])]) visit(next);
};
visit("index.html");
let total = 0;
for (const [file, size] of [...files].sort((a, b) => b[1] - a[1])) {
  total += size;
  console.log(`${String(size).padStart(8)}  ${file}`);
}
const lazy = Object.keys(manifest).filter((key) => LAZY.test(key));
console.log(`JavaScript before the terminal and the editor: ${total} bytes gzip; the limit is ${LIMIT}`);
if (files.size === 0 || lazy.length === 0) throw new Error("the manifest names no entry or no lazy parts: look at scripts/size.mjs");
if (total > LIMIT) process.exit(1);
