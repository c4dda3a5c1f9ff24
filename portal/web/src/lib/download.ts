/** Longest name of a file that is handed to the browser. */
const LONGEST = 200;

/** A name for a file, never a path and never a hidden one, whatever something is called. */
export function fileName(name: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").replaceAll(/\.{2,}/g, "_").replace(/^[.-]+/, "_");
  if (plain.length <= LONGEST) return plain === "" ? "file" : plain;
  // What kind of file it is stays to be seen.
  const ending = /\.[A-Za-z0-9]{1,12}$/.exec(plain)?.[0] ?? "";
  return plain.slice(0, LONGEST - ending.length) + ending;
}

/** Hands a text to the browser as a file. */
export function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
