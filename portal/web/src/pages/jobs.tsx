import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { jobsQuery } from "../api/queries";
import type { Job } from "../api/types";
import { elapsed, plural } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Choice, Search } from "../ui/controls";
import { Age, Empty, Loaded } from "../ui/feedback";
import { Page } from "../ui/page";
import { type Column, type Sort, Table } from "../ui/table";
import { JobStateText } from "./phase";

const COLUMNS: Column<Job>[] = [
  { id: "environment", title: "Environment", width: "minmax(8rem, 1.5fr)", cell: (j) => <Link to={`/jobs/${j.id}`}>{j.environment}</Link>, sort: (j) => j.environment },
  { id: "operation", title: "Operation", width: "minmax(5rem, 1fr)", cell: (j) => j.operation, sort: (j) => j.operation },
  { id: "state", title: "State", width: "minmax(6.5rem, 1fr)", cell: (j) => <JobStateText state={j.state} />, sort: (j) => j.state },
  {
    id: "step",
    title: "Step",
    width: "minmax(8rem, 2fr)",
    from: 640,
    cell: (j) => <span className="soft">{j.error !== "" ? j.error : (j.steps.find((s) => s.state === "running")?.name ?? `${j.steps.filter((s) => s.state === "succeeded").length}/${j.steps.length} steps`)}</span>,
  },
  { id: "took", title: "Took", width: "4.5rem", right: true, from: 520, cell: (j) => (j.finishedAt ? elapsed(j.createdAt, j.finishedAt) : "") },
  { id: "age", title: "Age", width: "4rem", right: true, cell: (j) => <Age time={j.createdAt} />, sort: (j) => -Date.parse(j.createdAt) },
];

export function JobsTable({ jobs }: { jobs: Job[] }) {
  const [sort, setSort] = useState<Sort>({ column: "age", descending: false });
  if (jobs.length === 0) return <Empty icon="jobs" title="No jobs" />;
  return <Table label="Jobs" rows={jobs} columns={COLUMNS} rowKey={(j) => j.id} sort={sort} onSort={setSort} foot={plural(jobs.length, "job")} />;
}

export default function Jobs() {
  const query = useQuery(jobsQuery());
  const [text, setText] = useQueryValue("q");
  const [state, setState] = useQueryValue("state");
  return (
    <Page title="Jobs" sub="Durable work on environments: every step survives a restart of the server.">
      <div className="toolbar">
        <Search label="Find jobs" value={text} onChange={setText} />
        <Choice label="State" value={state} onChange={setState} options={[{ value: "", label: "Any state" }, ...["pending", "running", "succeeded", "failed", "cancelled"].map((each) => ({ value: each, label: each }))]} />
      </div>
      <Loaded query={query}>
        {(jobs) => <JobsTable jobs={jobs.filter((j) => (state === "" || j.state === state) && `${j.environment} ${j.operation} ${j.error}`.toLowerCase().includes(text.toLowerCase()))} />}
      </Loaded>
    </Page>
  );
}
