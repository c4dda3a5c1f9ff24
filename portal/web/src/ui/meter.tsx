// How much of a limit is used, as a bar.

export function Meter({ label, used, limit, text = String }: { label: string; used: number; limit: number | undefined; text?: (value: number) => string }) {
  return (
    <div className="stack tight">
      <span className="usage">
        <span>{label}</span>
        <span className="number faint">{limit === undefined ? `${text(used)}, no limit` : `${text(used)} of ${text(limit)}`}</span>
      </span>
      {limit !== undefined && (
        <div className={used >= limit ? "bar full" : "bar"} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={limit} aria-valuenow={Math.min(used, limit)} aria-valuetext={`${text(used)} of ${text(limit)}`}>
          <span style={{ flexGrow: used }} />
          <span className="rest" style={{ flexGrow: Math.max(limit - used, 0) }} />
        </div>
      )}
    </div>
  );
}
