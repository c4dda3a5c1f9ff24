import { useDeferredValue, useMemo } from "react";
import { usePages } from "../api/paged";
import type { Job } from "../api/types";
import { elapsed, plural } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Choice, Search } from "../ui/controls";
import { Age, Empty, ErrorNote, Skeleton } from "../ui/feedback";
import { Page } from "../ui/page";
import { type Column, Table, useServerSort } from "../ui/table";
import { JobStateText } from "./phase";

const COLUMNS: Column<Job>[] = [
  { id: "environment", title: "Environment", width: "minmax(8rem, 1.5fr)", cell: (j) => <Link to={`/jobs/${j.id}`}>{j.environment}</Link>, byServer: true },
  { id: "operation", title: "Operation", width: "minmax(5rem, 1fr)", cell: (j) => j.operation, byServer: true },
  { id: "state", title: "State", width: "minmax(6.5rem, 1fr)", cell: (j) => <JobStateText state={j.state} />, byServer: true },
  {
    id: "step",
    title: "Step",
    width: "minmax(8rem, 2fr)",
    from: 640,
    cell: (j) => <span className="soft">{j.error !== "" ? j.error : (j.steps.find((s) => s.state === "running")?.name ?? `${j.steps.filter((s) => s.state === "succeeded").length}/${j.steps.length} steps`)}</span>,
  },
  { id: "took", title: "Took", width: "4.5rem", right: true, from: 520, cell: (j) => (j.finishedAt ? elapsed(j.createdAt, j.finishedAt) : "") },
  { id: "id", title: "Age", width: "4rem", right: true, cell: (j) => <Age time={j.createdAt} />, byServer: true },
];

const STATES = ["pending", "running", "succeeded", "failed", "cancelled"];
const OPERATIONS = ["create", "update", "sleep", "wake", "rotate-ca", "delete"];

export default function Jobs() {
  const [text, setText] = useQueryValue("q");
  const [state, setState] = useQueryValue("state");
  const [operation, setOperation] = useQueryValue("operation");
  const [environment, setEnvironment] = useQueryValue("environment");
  // The newest first, as the server has them when nothing is said.
  const { sort, asked: order, setSort } = useServerSort("-id");
  const wanted = useMemo(() => ({ q: text, state, operation, environment, sort: order }), [text, state, operation, environment, order]);
  const { rows, more, further, pending, error, retry } = usePages<Job>("job-pages", "/api/v1/jobs", useDeferredValue(wanted));
  const filtered = text !== "" || state !== "" || operation !== "" || environment !== "";
  return (
    <Page title="Jobs" sub="Durable work on environments: every step survives a restart of the server.">
      <div className="toolbar">
        <Search label="Find jobs" value={text} onChange={setText} />
        <Choice label="State" value={state} onChange={setState} options={[{ value: "", label: "Any state" }, ...STATES.map((each) => ({ value: each, label: each }))]} />
        <Choice label="Operation" value={operation} onChange={setOperation} options={[{ value: "", label: "Any operation" }, ...OPERATIONS.map((each) => ({ value: each, label: each }))]} />
        {environment !== "" && (
          <button type="button" className="chip" aria-pressed="true" onClick={() => setEnvironment("")}>
            {environment}
          </button>
        )}
      </div>
      {error ? (
        <ErrorNote error={error} retry={retry} />
      ) : pending ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <Empty icon="jobs" title={filtered ? "No job matches" : "No jobs"} />
      ) : (
        <Table label="Jobs" rows={rows} columns={COLUMNS} rowKey={(j) => j.id} sort={sort} onSort={setSort} onEnd={further} foot={`${plural(rows.length, "job")}${more ? ", more follow" : ""}`} />
      )}
    </Page>
  );
}
