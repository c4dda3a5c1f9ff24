// The audit trail, newest first, read further as one scrolls.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { auditPage } from "../api/queries";
import type { AuditEntry } from "../api/types";
import { download } from "../lib/download";
import { moment, plural } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Button, Choice, Search } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Age, Empty, ErrorNote, Skeleton } from "../ui/feedback";
import { Facts, Page } from "../ui/page";
import { type Column, Table } from "../ui/table";

export default function Audit() {
  const [text, setText] = useQueryValue("q");
  const [action, setAction] = useQueryValue("action");
  const [chosen, setChosen] = useState<AuditEntry | null>(null);
  const query = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ pageParam, signal }) => auditPage(pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const all = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const actions = useMemo(() => [...new Set(all.map((entry) => entry.action))].sort(), [all]);
  const rows = useMemo(() => {
    const wanted = text.toLowerCase();
    return all.filter((e) => (action === "" || e.action === action) && (wanted === "" || `${e.actor} ${e.action} ${e.subject} ${e.requestId} ${JSON.stringify(e.detail)}`.toLowerCase().includes(wanted)));
  }, [all, text, action]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const columns = useMemo<Column<AuditEntry>[]>(
    () => [
      { id: "action", title: "Action", width: "minmax(8rem, 1.2fr)", cell: (e) => <button type="button" className="link" onClick={() => setChosen(e)}>{e.action}</button> },
      { id: "subject", title: "Subject", width: "minmax(6rem, 1.2fr)", cell: (e) => e.subject },
      { id: "actor", title: "Who", width: "minmax(7rem, 1fr)", cell: (e) => e.actor, from: 520 },
      { id: "detail", title: "Detail", width: "minmax(8rem, 2.4fr)", from: 760, cell: (e) => <span className="mono faint">{e.detail === null ? "" : JSON.stringify(e.detail)}</span> },
      { id: "age", title: "When", width: "4rem", right: true, cell: (e) => <Age time={e.at} /> },
    ],
    [],
  );
  const save = (): void => download("audit.jsonl", rows.map((row) => JSON.stringify(row)).join("\n") + "\n", "application/jsonl");
  return (
    <Page title="Audit" sub="Who did what, when, and by which request." actions={<Button icon="download" disabledReason={rows.length === 0 ? "There is nothing to save" : undefined} onPress={save}>JSON lines</Button>}>
      <div className="toolbar">
        <Search label="Find entries" value={text} onChange={setText} />
        <Choice label="Action" value={action} onChange={setAction} options={[{ value: "", label: "Every action" }, ...actions.map((each) => ({ value: each, label: each }))]} />
      </div>
      {query.error ? (
        <ErrorNote error={query.error} retry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <Empty icon="audit" title="No entries" />
      ) : (
        <Table label="Audit trail" rows={rows} columns={columns} rowKey={(e) => `${e.id}-${e.action}-${e.at}`} onEnd={more} foot={`${plural(rows.length, "entry", "entries")}${hasNextPage ? ", older ones follow" : ""}`} />
      )}
      {chosen && (
        <Dialog title={chosen.action} onClose={() => setChosen(null)}>
          <Facts
            items={[
              ["Subject", !/^(environment|kubernetes)\./.test(chosen.action) ? chosen.subject || "–" : <Link key="s" to={`/environments/${chosen.subject}`}>{chosen.subject}</Link>],
              ["Who", chosen.actor],
              ["When", moment(chosen.at)],
              ["Request", <span key="r" className="mono">{chosen.requestId}</span>],
              ["Position", String(chosen.id)],
            ]}
          />
          {chosen.detail !== null && <pre className="log plain" tabIndex={0}>{JSON.stringify(chosen.detail, null, 2)}</pre>}
          <div className="buttons">
            <Button onPress={() => setChosen(null)}>Close</Button>
          </div>
        </Dialog>
      )}
    </Page>
  );
}
