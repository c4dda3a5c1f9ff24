// What is under way, what went wrong, what there is not.
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useSyncExternalStore } from "react";
import { Problem } from "../api/client";
import { useNow } from "../lib/clock";
import { age, moment } from "../lib/format";
import { Button } from "./controls";
import { Icon, type IconName } from "./icons";

/** An error in the server's words, with the request id to quote. */
export function ErrorNote({ error, retry }: { error: unknown; retry?: () => void }) {
  const text = error instanceof Error ? error.message : String(error);
  const nearest = error instanceof Problem ? error.nearest : [];
  const id = error instanceof Problem ? error.requestId : "";
  return (
    <div className="note bad" role="alert">
      <Icon name="warning" />
      <div className="detail">
        <span>{text}</span>
        {nearest.length > 0 && <span>Near: {nearest.join(", ")}</span>}
        {id !== "" && (
          <span className="id">
            Request <span className="mono">{id}</span>
          </span>
        )}
        {retry && (
          <span>
            <Button small icon="refresh" onPress={retry}>
              Try again
            </Button>
          </span>
        )}
      </div>
    </div>
  );
}

export function Note({ kind, icon = "info", children }: { kind: "bad" | "busy" | "good" | ""; icon?: IconName; children: ReactNode }) {
  return (
    <div className={`note ${kind}`}>
      <Icon name={icon} />
      <div className="detail">{children}</div>
    </div>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div className="stack tight" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="skeleton" style={{ width: `${88 - ((row * 23) % 40)}%` }} />
      ))}
    </div>
  );
}

/** The answer of a query: what it shows, else why there is nothing yet. */
export function Loaded<T>({ query, rows, children }: { query: UseQueryResult<T>; rows?: number; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <ErrorNote error={query.error} retry={() => void query.refetch()} />;
  return <Skeleton {...(rows === undefined ? {} : { rows })} />;
}

export function Age({ time }: { time: string }) {
  const now = useNow();
  return (
    <time dateTime={time} title={moment(time)}>
      {age(time, now)}
    </time>
  );
}

export type Tone = "good" | "busy" | "bad" | "idle";

export function State({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`state ${tone}`}>{children}</span>;
}

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();
const publish = (list: Toast[]): void => {
  toasts = list;
  listeners.forEach((listener) => listener());
};
const dismiss = (id: number): void => publish(toasts.filter((toast) => toast.id !== id));

/** Says something at the edge of the page; errors stay until they are closed. */
export function toast(text: string, error?: unknown): void {
  const id = next++;
  const why = error instanceof Error ? `: ${error.message}` : "";
  publish([...toasts.slice(-3), { id, text: text + why, bad: error !== undefined }]);
  if (error === undefined) setTimeout(() => dismiss(id), 5000);
}

export function Toasts() {
  const list = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="region" aria-label="Notifications" aria-live="polite">
      {list.map((each) => (
        <div key={each.id} className={each.bad ? "toast bad" : "toast"}>
          <Icon name={each.bad ? "warning" : "check"} />
          <span>{each.text}</span>
          <Button kind="quiet" small icon="close" label="Close" onPress={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
