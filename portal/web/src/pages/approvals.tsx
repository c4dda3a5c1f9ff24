// Requests for approval: those that wait for one, one's own, and what became of the others.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { json } from "../api/client";
import { usePages } from "../api/paged";
import { approvalQuery, projectsQuery, rolesQuery } from "../api/queries";
import type { Approval } from "../api/types";
import { plural } from "../lib/format";
import { useMay } from "../lib/may";
import { Link, useQueryValue } from "../lib/router";
import { Button, Choice, Search, SelectField, TextArea, TextField } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Age, Empty, ErrorNote, Skeleton, toast } from "../ui/feedback";
import { FormDialog } from "../ui/form";
import { Page, Tabs } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { ApprovalBody, ApprovalStateText, subjectOf } from "./approval";

const VIEWS: { id: string; label: string; filter: Record<string, string>; nothing: string }[] = [
  { id: "", label: "Waiting for you", filter: { decidable: "true" }, nothing: "Nothing waits for you" },
  { id: "mine", label: "Yours", filter: { mine: "true" }, nothing: "You have asked for nothing" },
  { id: "review", label: "To review", filter: { unreviewed: "true" }, nothing: "Nobody has broken the glass without a review" },
  { id: "all", label: "All", filter: {}, nothing: "Nobody has asked for anything" },
];

const KINDS = { create: "New environment", update: "Update", role: "Role for a time", breakGlass: "Break-glass" };
const STATES = ["Pending", "Approved", "Active", "Fulfilled", "Denied", "Withdrawn", "Expired", "Failed", "Ended", "Revoked"];

export default function Approvals() {
  const [view, setView] = useQueryValue("view");
  const [state, setState] = useQueryValue("state");
  const [chosen, setChosen] = useQueryValue("id");
  const [asking, setAsking] = useState<"role" | "breakGlass" | null>(null);
  const shown = VIEWS.find((each) => each.id === view) ?? VIEWS[3];
  const [text, setText] = useQueryValue("q");
  const [kind, setKind] = useQueryValue("kind");
  const asked = useMemo(() => ({ ...shown?.filter, q: text, kind, ...(view === "all" ? { state } : {}) }), [shown, text, kind, view, state]);
  const { rows, more, further, pending, error, retry } = usePages<Approval>("approvals", "/api/v1/approvals", useDeferredValue(asked), 10_000);
  return (
    <Page
      title="Approvals"
      sub="Who asks for what, why, and who says yes."
      actions={
        <>
          <Button icon="key" onPress={() => setAsking("role")}>
            Ask for a role
          </Button>
          <Button kind="danger" icon="warning" onPress={() => setAsking("breakGlass")}>
            Break the glass
          </Button>
        </>
      }
    >
      <Tabs label="Approvals" current={view} items={VIEWS.map(({ id, label }) => ({ id, label, to: id === "" ? "/approvals" : `/approvals?view=${id}` }))} />
      <div className="toolbar">
        <Search label="Find requests" value={text} onChange={setText} />
        <Choice label="Kind" value={kind} onChange={setKind} options={[{ value: "", label: "Any kind" }, ...Object.entries(KINDS).map(([value, label]) => ({ value, label }))]} />
        {view === "all" && <Choice label="State" value={state} onChange={setState} options={[{ value: "", label: "Any state" }, ...STATES.map((each) => ({ value: each, label: each }))]} />}
      </div>
      {error ? (
        <ErrorNote error={error} retry={retry} />
      ) : pending ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <Empty icon="approvals" title={text !== "" || kind !== "" || state !== "" ? "No request matches" : (shown?.nothing ?? "")}>
          {view === "" && <Link to="/approvals?view=all" onClick={() => setView("all")}>See all requests</Link>}
        </Empty>
      ) : (
        <Table label="Requests" rows={rows} columns={columns(setChosen)} rowKey={(each) => each.id} onEnd={further} foot={`${plural(rows.length, "request")}${more ? ", older ones follow" : ""}`} />
      )}
      {chosen !== "" && <One key={chosen} id={chosen} onClose={() => setChosen("")} />}
      {asking && <AskForRole breakGlass={asking === "breakGlass"} onClose={() => setAsking(null)} onAsked={setChosen} />}
    </Page>
  );
}

function columns(choose: (id: string) => void): Column<Approval>[] {
  return [
    { id: "what", title: "What", width: "minmax(9rem, 2fr)", cell: (each) => <button type="button" className="link" onClick={() => choose(each.id)}>{subjectOf(each)}</button> },
    { id: "state", title: "State", width: "minmax(6rem, 0.9fr)", cell: (each) => <ApprovalStateText state={each.state} /> },
    { id: "who", title: "Who", width: "minmax(7rem, 1.2fr)", cell: (each) => each.requestedBy, from: 520 },
    { id: "project", title: "Project", width: "minmax(5rem, 0.9fr)", cell: (each) => each.project, from: 700 },
    { id: "reason", title: "Why", width: "minmax(8rem, 2fr)", cell: (each) => <span className="soft">{each.reason}</span>, from: 820 },
    { id: "age", title: "Asked", width: "4rem", right: true, cell: (each) => <Age time={each.createdAt} /> },
  ];
}

function One({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useQuery(approvalQuery(id));
  return (
    <Dialog wide title={query.data ? subjectOf(query.data) : "A request"} onClose={onClose}>
      {query.data ? <ApprovalBody approval={query.data} onClose={onClose} /> : query.error ? <ErrorNote error={query.error} /> : <Skeleton />}
    </Dialog>
  );
}

const PERIOD = /^(\d+[smhd])+$/;

function AskForRole({ breakGlass, onAsked, onClose }: { breakGlass: boolean; onAsked: (id: string) => void; onClose: () => void }) {
  const projects = useQuery(projectsQuery);
  const roles = useQuery(rolesQuery);
  const [project, setProject] = useState("");
  const [role, setRole] = useState("");
  const [period, setPeriod] = useState(breakGlass ? "1h" : "4h");
  const [reason, setReason] = useState("");
  const cache = useQueryClient();
  const first = projects.data?.[0]?.name ?? "default";
  const wrong = PERIOD.test(period) ? undefined : "Write 30m, 4h or 1d";
  const missing = useMay({ project: project === "" ? first : project })(breakGlass ? "approvals.breakGlass" : "approvals.create");
  const wanted = role === "" ? (breakGlass ? "admin" : "maintainer") : role;
  const ask = async (): Promise<void> => {
    const body = { project: project === "" ? first : project, role: wanted, period, reason };
    const made = await json<Approval>(`/api/v1/${breakGlass ? "break-glass" : "approvals"}`, { method: "POST", json: body });
    toast(breakGlass ? `You are a ${wanted} of ${made.project} now` : "Your request waits for an answer");
    await cache.invalidateQueries({ queryKey: ["approvals"] });
    await cache.invalidateQueries({ queryKey: ["permissions"] });
    onAsked(made.id);
  };
  return (
    <FormDialog title={breakGlass ? "Break the glass" : "Ask for a role for a time"} verb={breakGlass ? "Take the role now" : "Ask"} danger={breakGlass} problem={missing ?? wrong ?? (reason.trim() === "" ? "Say why" : undefined)} onClose={onClose} onSubmit={ask}>
      {breakGlass && <p className="soft">You have the role at once. Everybody concerned is told, everything that you do is in the audit trail, and somebody else reviews it afterwards.</p>}
      <div className="form">
        <SelectField label="Project" value={project === "" ? first : project} onChange={setProject} options={[...new Set([first, ...(projects.data ?? []).map((each) => each.name)])].map((each) => ({ value: each, label: each }))} />
        <SelectField label="Role" value={wanted} onChange={setRole} options={[...new Set([wanted, ...(roles.data ?? []).map((each) => each.name)])].map((each) => ({ value: each, label: each }))} />
        <TextField label="For how long" value={period} onChange={setPeriod} error={wrong} hint={breakGlass ? "8h at most" : "30d at most"} mono />
        <div className="wide">
          <TextArea label="Why" value={reason} onChange={setReason} required />
        </div>
      </div>
    </FormDialog>
  );
}
