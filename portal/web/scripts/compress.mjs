// Puts a .br and a .gz beside every file of the built console for which they are smaller.
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const root = new URL("../dist/console/", import.meta.url).pathname;
// Which chunk has what is for scripts/size.mjs, not for browsers.
renameSync(join(root, "manifest.json"), join(root, "../manifest.json"));
for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || /\.(br|gz)$/.test(entry.name)) continue;
  const path = join(entry.parentPath ?? entry.path, entry.name);
  const whole = readFileSync(path);
  const packed = {
    br: brotliCompressSync(whole, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: whole.length } }),
    gz: gzipSync(whole, { level: 9 }),
  };
  for (const [ending, bytes] of Object.entries(packed)) {
    if (bytes.length < whole.length) writeFileSync(`${path}.${ending}`, bytes);
  }
}
