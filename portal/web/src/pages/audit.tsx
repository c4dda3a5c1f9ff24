// The audit trail, newest first: filtered by the server, read further as one scrolls.
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useCallback, useDeferredValue, useMemo, useState } from "react";
import { json } from "../api/client";
import { auditPage, auditQuery } from "../api/queries";
import type { AuditEntry, AuditFilter, AuditVerification } from "../api/types";
import { moment, plural } from "../lib/format";
import { useMay } from "../lib/may";
import { useQueryValue } from "../lib/router";
import { Button, Choice, Menu, Search, TextField } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Age, Empty, ErrorNote, Note, Skeleton } from "../ui/feedback";
import { Facts, Page } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { AuditDialog } from "./audit-entry";

/** What people look for; other actions are found by writing them. */
const ACTIONS = ["environment.*", "environment.create", "environment.delete", "environment.update", "environment.share", "kubernetes.*", "approval.*", "project.*", "team.*", "role.*", "user.*", "api-key.*", "template.*", "session.*"];

/** Since when: what is chosen, in seconds. */
const SPANS: [string, string, number][] = [
  ["1h", "The last hour", 3600],
  ["24h", "The last day", 86_400],
  ["7d", "The last week", 7 * 86_400],
  ["30d", "The last 30 days", 30 * 86_400],
];

/** The filter of the address, as the server takes it. */
function useFilter(): { filter: AuditFilter; set: Record<keyof AuditFilter, (value: string) => void>; span: string; text: Record<"q" | "actor" | "subject", string> } {
  const [q, setQ] = useQueryValue("q");
  const [actor, setActor] = useQueryValue("actor");
  const [action, setAction] = useQueryValue("action");
  const [project, setProject] = useQueryValue("project");
  const [subject, setSubject] = useQueryValue("subject");
  const [span, setSpan] = useQueryValue("since");
  const [until, setUntil] = useQueryValue("until");
  const since = useMemo(() => {
    const seconds = SPANS.find(([id]) => id === span)?.[2];
    return seconds === undefined ? span : new Date(Date.now() - seconds * 1000).toISOString();
  }, [span]);
  const filter = useMemo(() => ({ q, actor, action, project, subject, since, until }), [q, actor, action, project, subject, since, until]);
  return { filter: useDeferredValue(filter), set: { q: setQ, actor: setActor, action: setAction, project: setProject, subject: setSubject, since: setSpan, until: setUntil }, span, text: { q, actor, subject } };
}

export default function Audit() {
  const { filter, set, span, text } = useFilter();
  const [chosen, setChosen] = useState<AuditEntry | null>(null);
  const [more, setMore] = useState(false);
  const may = useMay({});
  const query = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam, signal }) => auditPage(filter, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: (before) => before,
  });
  const verify = useMutation({ mutationFn: () => json<AuditVerification>("/api/v1/audit/verify") });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const further = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const columns = useMemo<Column<AuditEntry>[]>(
    () => [
      { id: "action", title: "Action", width: "minmax(8rem, 1.2fr)", cell: (e) => <button type="button" className="link" onClick={() => setChosen(e)}>{e.action}</button> },
      { id: "subject", title: "Subject", width: "minmax(6rem, 1.2fr)", cell: (e) => e.subject },
      { id: "actor", title: "Who", width: "minmax(7rem, 1fr)", cell: (e) => e.actor, from: 520 },
      { id: "project", title: "Project", width: "minmax(5rem, 0.8fr)", cell: (e) => e.project, from: 980 },
      { id: "detail", title: "Detail", width: "minmax(8rem, 2.4fr)", from: 760, cell: (e) => <span className="mono faint">{e.detail === null ? "" : JSON.stringify(e.detail)}</span> },
      { id: "age", title: "When", width: "4rem", right: true, cell: (e) => <Age time={e.at} /> },
    ],
    [],
  );
  // The server writes the file, whatever its length.
  const save = (format: "jsonl" | "csv"): void => {
    const parameters = auditQuery(filter);
    parameters.set("format", format);
    location.assign(`/api/v1/audit/export?${parameters.toString()}`);
  };
  const cannotSave = rows.length === 0 ? "There is nothing to save" : undefined;
  const actions = [...new Set([...ACTIONS, ...rows.map((entry) => entry.action), ...(filter.action === "" ? [] : [filter.action])])].sort();
  const filtered = Object.values(filter).some((value) => value !== "");
  return (
    <Page
      title="Audit"
      sub="Who did what, when, and by which request."
      actions={
        <>
          <Button icon="check" disabledReason={may("audit.verify") ?? (verify.isPending ? "Every entry is being looked at" : undefined)} onPress={() => verify.mutate()}>
            Verify
          </Button>
          <Menu
            label="Save as a file"
            icon="download"
            entries={[
              { id: "jsonl", label: "JSON lines", disabledReason: cannotSave, onAction: () => save("jsonl") },
              { id: "csv", label: "CSV", disabledReason: cannotSave, onAction: () => save("csv") },
            ]}
          />
        </>
      }
    >
      <div className="toolbar">
        <Search label="Find in all entries" value={text.q} onChange={set.q} />
        <Choice label="Action" value={filter.action} onChange={set.action} options={[{ value: "", label: "Every action" }, ...actions.map((each) => ({ value: each, label: each }))]} />
        <Choice label="Time" value={span} onChange={set.since} options={[{ value: "", label: "Any time" }, ...SPANS.map(([value, label]) => ({ value, label })), ...(span === "" || SPANS.some(([id]) => id === span) ? [] : [{ value: span, label: `Since ${moment(span)}` }])]} />
        <Button pressed={more} onPress={() => setMore(!more)}>
          More filters
        </Button>
      </div>
      {(more || text.actor !== "" || text.subject !== "" || filter.project !== "") && (
        <div className="form filters">
          <TextField label="Who" value={text.actor} onChange={set.actor} hint="As entries write it, whole" />
          <TextField label="Subject" value={text.subject} onChange={set.subject} hint="Such as the name of an environment" />
          <TextField label="Project" value={filter.project} onChange={set.project} />
        </div>
      )}
      {verify.error && <ErrorNote error={verify.error} />}
      {query.error ? (
        <ErrorNote error={query.error} retry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton />
      ) : rows.length === 0 && !hasNextPage ? (
        <Empty icon="audit" title={filtered ? "No entry matches" : "No entries that you may see"} />
      ) : (
        <Table label="Audit trail" rows={rows} columns={columns} rowKey={(e) => e.key} onEnd={further} foot={`${plural(rows.length, "entry", "entries")}${hasNextPage ? ", older ones follow" : ""}`} />
      )}
      {rows.length === 0 && hasNextPage && (
        <p>
          <Button onPress={further}>Look further back</Button>
        </p>
      )}
      {chosen && (
        <AuditDialog entry={chosen} onClose={() => setChosen(null)}>
          <Button
            onPress={() => {
              set.actor(chosen.actor);
              setChosen(null);
            }}
          >
            All by {chosen.actor}
          </Button>
          <Button onPress={() => setChosen(null)}>Close</Button>
        </AuditDialog>
      )}
      {verify.data && <Verified result={verify.data} onClose={() => verify.reset()} />}
    </Page>
  );
}

function Verified({ result, onClose }: { result: AuditVerification; onClose: () => void }) {
  return (
    <Dialog title={result.breaks === 0 ? "The trail is whole" : "The trail was changed"} onClose={onClose}>
      <Note kind={result.breaks === 0 ? "good" : "bad"} icon={result.breaks === 0 ? "check" : "warning"}>
        <span>{result.breaks === 0 ? `Every one of ${plural(result.entries, "entry", "entries")} is as it was written.` : `${plural(result.breaks, "place was", "places were")} changed. The oldest: ${result.first?.why ?? ""}`}</span>
      </Note>
      <Facts
        items={[
          ["Entries", result.entries.toLocaleString("en")],
          ["Chains", result.chains.toLocaleString("en")],
          ["Removed by age", result.removed.toLocaleString("en")],
          ...(result.first ? ([["First break", `${result.first.action} ${result.first.subject} by ${result.first.actor}, ${result.first.at === null ? "time unknown" : moment(result.first.at)}`]] as [string, string][]) : []),
        ]}
      />
      <div className="buttons">
        <Button onPress={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
