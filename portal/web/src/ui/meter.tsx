// How much of a limit is used, as a bar.
import type { LimitUsage } from "../api/types";
import { bytes, cores } from "../lib/format";

const NAMES: Record<string, string> = { environments: "Environments", awake: "Awake", cpu: "CPU", memory: "Memory", storage: "Storage" };
const UNITS: Record<LimitUsage["unit"], (value: number) => string> = { count: String, millicores: cores, bytes };

/** What is limited, for people. */
export const limitName = (what: string): string => NAMES[what] ?? what.replace(/^template /, "");

/** Whose limit it is, where it is not the project's. */
function whose({ holder, name }: LimitUsage): string {
  if (holder === "project") return "";
  if (holder === "team") return ` of team ${name}`;
  if (holder === "environment") return ` of ${name}`;
  return holder === "user" ? " of yours, in all projects" : " of yours";
}

export function LimitBar({ limit }: { limit: LimitUsage }) {
  return <Meter label={`${limitName(limit.what)}${whose(limit)}`} used={limit.used} limit={limit.limit} text={UNITS[limit.unit]} />;
}

/** What is used, where nothing limits it. */
export function NoLimit({ label, used }: { label: string; used: string }) {
  return (
    <span className="usage">
      <span>{label}</span>
      <span className="number faint">{used}, no limit</span>
    </span>
  );
}

export function Meter({ label, used, limit, text = String }: { label: string; used: number; limit: number; text?: (value: number) => string }) {
  return (
    <div className="stack tight">
      <span className="usage">
        <span>{label}</span>
        <span className="number faint">{`${text(used)} of ${text(limit)}`}</span>
      </span>
      <div className={used >= limit ? "bar full" : "bar"} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={limit} aria-valuenow={Math.min(used, limit)} aria-valuetext={`${text(used)} of ${text(limit)}`}>
        <span style={{ flexGrow: used }} />
        <span className="rest" style={{ flexGrow: Math.max(limit - used, 0) }} />
      </div>
    </div>
  );
}
