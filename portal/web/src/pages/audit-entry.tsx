// One entry of the audit trail, with what was changed.
import type { ReactNode } from "react";
import type { AuditEntry } from "../api/types";
import { moment } from "../lib/format";
import { Link } from "../lib/router";
import { Dialog } from "../ui/dialog";
import { Facts } from "../ui/page";

export interface Change {
  path: string;
  before?: unknown;
  after?: unknown;
}

/** What an entry says was changed: pointers into the document, with the value before and after. */
export function changesOf(detail: unknown): Change[] {
  if (typeof detail !== "object" || detail === null || !("changes" in detail) || !Array.isArray(detail.changes)) return [];
  return (detail.changes as unknown[]).filter((each): each is Change => typeof each === "object" && each !== null && "path" in each && typeof each.path === "string");
}

const text = (value: unknown): string => (value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value));

export function AuditDialog({ entry, onClose, children }: { entry: AuditEntry; onClose: () => void; children: ReactNode }) {
  const changes = changesOf(entry.detail);
  const facts: [string, ReactNode][] = [
    ["Subject", !/^(environment|kubernetes)\./.test(entry.action) ? entry.subject || "–" : <Link key="s" to={`/environments/${encodeURIComponent(entry.subject)}`}>{entry.subject}</Link>],
    ["Who", entry.actor],
  ];
  if (entry.onBehalfOf !== undefined) facts.push(["On behalf of", entry.onBehalfOf]);
  facts.push(["When", moment(entry.at)]);
  if (entry.source !== undefined) facts.push(["From", <span key="f" className="mono">{entry.source}</span>]);
  if (entry.project !== "") facts.push(["Project", entry.project]);
  facts.push(["Request", <span key="r" className="mono">{entry.requestId}</span>]);
  if (entry.hash !== undefined) facts.push(["Hash", <span key="h" className="mono">{entry.hash}</span>]);
  return (
    <Dialog title={entry.action} onClose={onClose}>
      <Facts items={facts} />
      {changes.length > 0 && (
        <dl className="stack tight" aria-label="What was changed">
          {changes.map((each) => (
            <div key={each.path} className="change">
              <dt className="mono">{each.path}</dt>
              <dd>
                <del>{text(each.before)}</del> <ins>{text(each.after)}</ins>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {entry.detail !== null && <pre className="log plain" tabIndex={0}>{JSON.stringify(entry.detail, null, 2)}</pre>}
      <div className="buttons">{children}</div>
    </Dialog>
  );
}
