// A unified diff, as the server made it.

/** What a line of a unified diff is. */
export function lineKind(line: string): "added" | "removed" | "place" | "" {
  if (line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++")) return "place";
  return line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
}

export function Diff({ label, text }: { label: string; text: string }) {
  return (
    <div className="log diff" role="region" aria-label={label} tabIndex={0}>
      {text.replace(/\n$/, "").split("\n").map((line, index) => {
        const kind = lineKind(line);
        // Who cannot see colours reads the signs.
        return (
          <div key={index} className={`diff-line ${kind}`}>
            {line === "" ? " " : line}
          </div>
        );
      })}
    </div>
  );
}
