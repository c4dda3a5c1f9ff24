import { useQuery } from "@tanstack/react-query";
import { jobQuery } from "../api/queries";
import { elapsed, moment } from "../lib/format";
import { Link } from "../lib/router";
import { Loaded } from "../ui/feedback";
import { Facts, Page, Panel } from "../ui/page";
import { JobActions } from "./job-actions";
import { JobStateText } from "./phase";
import { JobLog, Steps } from "./steps";

export default function JobPage({ id }: { id: string }) {
  const query = useQuery(jobQuery(id));
  return (
    <Loaded query={query}>
      {(job) => (
        <Page
          title={`${job.operation} ${job.environment}`}
          crumbs={[{ label: "Jobs", to: "/jobs" }]}
          heading={
            <>
              {job.operation} {job.environment} <JobStateText state={job.state} />
            </>
          }
          actions={<JobActions job={job} />}
        >
          <div className="two">
            <div className="stack">
              <Panel title="Steps">
                <Steps job={job} />
              </Panel>
              <Panel title="Log">
                <JobLog job={job} />
              </Panel>
            </div>
            <Panel title="Facts">
              <Facts
                items={[
                  ["Environment", <Link key="e" to={`/environments/${job.environment}`}>{job.environment}</Link>],
                  ["Attempt", String(job.attempt)],
                  ["Asked for", moment(job.createdAt)],
                  ["Ended", job.finishedAt ? `${moment(job.finishedAt)} (${elapsed(job.createdAt, job.finishedAt)})` : "not yet"],
                  ["Id", <span key="id" className="mono">{job.id}</span>],
                ]}
              />
            </Panel>
          </div>
        </Page>
      )}
    </Loaded>
  );
}
