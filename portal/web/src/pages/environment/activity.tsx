// What happened to an environment, newest first: its jobs, and what the audit trail says about it.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { JOBS, auditPage, jobsQuery } from "../../api/queries";
import type { AuditEntry, Environment, Job } from "../../api/types";
import { elapsed, moment } from "../../lib/format";
import { useMay } from "../../lib/may";
import { Link } from "../../lib/router";
import { Button } from "../../ui/controls";
import { Age, Empty, ErrorNote, Loaded } from "../../ui/feedback";
import { Icon, type IconName } from "../../ui/icons";
import { AuditDialog } from "../audit-entry";
import { JobStateText } from "../phase";

export type Happening = { at: string; id: string } & ({ job: Job } | { entry: AuditEntry });

/** Jobs and entries in one order, the newest first. */
export function happenings(jobs: Job[], entries: AuditEntry[]): Happening[] {
  const all: Happening[] = [...jobs.map((job) => ({ at: job.createdAt, id: `job ${job.id}`, job })), ...entries.map((entry) => ({ at: entry.at, id: `entry ${entry.key}`, entry }))];
  return all.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}

/** `Monday, 5 January 2026`, of the reader's own day. */
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });

export function Activity({ environment }: { environment: Environment }) {
  const { name } = environment;
  const missing = useMay({ environment: name })("audit.list");
  const jobs = useQuery(jobsQuery(name));
  const trail = useQuery({
    queryKey: ["audit-of", name, environment.revision],
    queryFn: ({ signal }) => auditPage({ actor: "", action: "", project: "", subject: name, since: environment.createdAt, until: "", q: "" }, "", signal),
    enabled: missing === undefined,
    placeholderData: (before) => before,
  });
  return (
    <div className="stack">
      {missing !== undefined && <p className="faint">Only jobs are shown. {missing}.</p>}
      {trail.error && <ErrorNote error={trail.error} retry={() => void trail.refetch()} />}
      <Loaded query={jobs}>{(list) => <TimeLine all={happenings(list, trail.data?.items ?? [])} more={trail.data?.next != null} olderJobs={list.length >= JOBS} environment={name} />}</Loaded>
    </div>
  );
}

function TimeLine({ all, more, olderJobs, environment }: { all: Happening[]; more: boolean; olderJobs: boolean; environment: string }) {
  const [chosen, setChosen] = useState<AuditEntry | null>(null);
  if (all.length === 0) return <Empty icon="jobs" title="Nothing has happened yet" />;
  return (
    <>
      <ol className="time-line">
        {all.map((each, index) => {
          const date = day.format(Date.parse(each.at));
          const before = all[index - 1];
          return (
            <li key={each.id}>
              {(before === undefined || day.format(Date.parse(before.at)) !== date) && <h3>{date}</h3>}
              <div className="happening">
                <Icon name={iconOf(each)} />
                <time dateTime={each.at} title={moment(each.at)} className="faint number">
                  {new Date(each.at).toLocaleTimeString()}
                </time>
                {"job" in each ? (
                  <span>
                    <Link to={`/jobs/${each.job.id}`}>{each.job.operation}</Link> <JobStateText state={each.job.state} /> {each.job.finishedAt !== null && <span className="faint">{elapsed(each.job.createdAt, each.job.finishedAt)}</span>}
                    {each.job.error !== "" && <span className="message">{each.job.error}</span>}
                  </span>
                ) : (
                  <span>
                    <button type="button" className="link" onClick={() => setChosen(each.entry)}>
                      {each.entry.action}
                    </button>{" "}
                    <span className="soft">by {each.entry.actor}</span>
                  </span>
                )}
                <span className="faint">
                  <Age time={each.at} />
                </span>
              </div>
            </li>
          );
        })}
      </ol>
      {olderJobs && (
        <p>
          <Link to={`/jobs?environment=${encodeURIComponent(environment)}`}>All of its jobs</Link>
        </p>
      )}
      {more && (
        <p>
          <Link to={`/audit?subject=${encodeURIComponent(environment)}`}>More is in the audit trail</Link>
        </p>
      )}
      {chosen && (
        <AuditDialog entry={chosen} onClose={() => setChosen(null)}>
          <Button onPress={() => setChosen(null)}>Close</Button>
        </AuditDialog>
      )}
    </>
  );
}

function iconOf(each: Happening): IconName {
  if ("job" in each) return "jobs";
  const { action } = each.entry;
  if (action.startsWith("kubernetes.")) return "edit";
  if (action.endsWith(".delete")) return "trash";
  if (action.includes("sleep")) return "moon";
  if (action.includes("wake")) return "sun";
  if (action.includes("share")) return "share";
  return "audit";
}
