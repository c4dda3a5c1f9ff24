// One environment: what it is, how to use it, what is in it, what happened to it.
import { useQuery } from "@tanstack/react-query";
import { Suspense, lazy } from "react";
import { Problem } from "../api/client";
import { environmentQuery, jobQuery } from "../api/queries";
import type { Environment, Job } from "../api/types";
import { moment } from "../lib/format";
import { Link } from "../lib/router";
import { Age, Empty, ErrorNote, Loaded, Note, Skeleton } from "../ui/feedback";
import { Facts, Page, Panel, Tabs } from "../ui/page";
import { Actions } from "./environment/actions";
import { Activity } from "./environment/activity";
import { Update } from "./environment/update";
import { Usage } from "./environment/usage";
import { Use } from "./environment/use";
import { JobActions } from "./job-actions";
import { PhaseState, PodsText } from "./phase";
import { JobLog, Steps } from "./steps";

const Explorer = lazy(() => import("../kube/explorer"));
const Logs = lazy(() => import("../kube/logs"));
const Helm = lazy(() => import("../kube/helm"));

export default function EnvironmentPage({ name, rest }: { name: string; rest: string }) {
  const query = useQuery(environmentQuery(name));
  if (query.error instanceof Problem && query.error.status === 404) {
    return (
      <Page title={name} crumbs={[{ label: "Environments", to: "/" }]}>
        <Empty icon="search" title={`There is no environment ${name}`}>
          <p>
            It was deleted, or never was. <Link to="/">All environments</Link>
          </p>
        </Empty>
      </Page>
    );
  }
  return <Loaded query={query}>{(environment) => <Shown environment={environment} rest={rest} stale={query.error} />}</Loaded>;
}

function Shown({ environment, rest, stale }: { environment: Environment; rest: string; stale: unknown }) {
  const { name } = environment;
  const at = `/environments/${name}`;
  const tab = rest.split("/")[0] ?? "";
  const tabs = [
    { id: "", label: "Overview", to: at },
    { id: "resources", label: "Resources", to: `${at}/resources` },
    { id: "logs", label: "Logs", to: `${at}/logs` },
    { id: "usage", label: "Usage", to: `${at}/usage` },
    { id: "helm", label: "Helm", to: `${at}/helm` },
    { id: "update", label: "Update", to: `${at}/update` },
    { id: "activity", label: "Activity", to: `${at}/activity` },
  ];
  return (
    <Page
      title={name}
      crumbs={[{ label: "Environments", to: "/" }]}
      heading={
        <>
          {name} <PhaseState phase={environment.phase} />
        </>
      }
      sub={
        <>
          <span>
            {environment.template} {environment.templateVersion}
          </span>
          <span>Kubernetes {environment.kubernetesVersion}</span>
          <PodsText environment={environment} />
          <span>
            <Age time={environment.createdAt} /> old
          </span>
          <span>{environment.owner}</span>
        </>
      }
      actions={<Actions environment={environment} />}
    >
      <Tabs label="Environment" items={tabs} current={tab} />
      {stale !== null && <ErrorNote error={stale} />}
      <Suspense fallback={<Skeleton />}>
        {tab === "" && <Overview environment={environment} />}
        {tab === "resources" && (reachable(environment) ? <Explorer environment={name} rest={rest.slice("resources".length + 1)} /> : <NotYet environment={environment} />)}
        {tab === "logs" && (reachable(environment) ? <Logs environment={name} /> : <NotYet environment={environment} />)}
        {tab === "helm" && (reachable(environment) ? <Helm environment={name} rest={rest.slice("helm".length + 1)} /> : <NotYet environment={environment} />)}
        {tab === "usage" && <Usage environment={environment} />}
        {tab === "update" && <Update environment={environment} />}
        {tab === "activity" && <Activity environment={environment} />}
      </Suspense>
    </Page>
  );
}

/** Its control plane may answer: it has been ready once, or is on its way. */
function reachable(environment: Environment): boolean {
  return environment.readyAt !== null || environment.phase === "Ready" || environment.pods.total > 0;
}

function NotYet({ environment }: { environment: Environment }) {
  return (
    <Empty icon="turning" title="Its control plane does not serve yet">
      <p>{environment.message}</p>
      <Link to={`/environments/${environment.name}`}>See how far it is</Link>
    </Empty>
  );
}

/** What the server will do to it by itself, and when. */
function lifecycleFacts({ lifecycle }: Environment): [string, string][] {
  const facts: [string, string][] = [];
  const at = (title: string, time: string | undefined): void => {
    if (time !== undefined) facts.push([title, moment(time)]);
  };
  at("Asleep since", lifecycle?.asleepSince);
  at("Sleeps at", lifecycle?.sleepsAt);
  at("Wakes at", lifecycle?.wakesAt);
  at("Last used", lifecycle?.lastRequestAt);
  at("Expires at", lifecycle?.expiresAt);
  return facts;
}

function Overview({ environment }: { environment: Environment }) {
  const { name } = environment;
  const parameters = Object.entries(environment.parameters);
  return (
    <div className="two">
      <div className="stack">
        {environment.phase === "Failed" && environment.message !== "" && (
          <Note kind="bad" icon="warning">
            <span>{environment.message}</span>
          </Note>
        )}
        {environment.lifecycle?.expiryWarnedAt !== undefined && environment.lifecycle.expiresAt !== undefined && (
          <Note kind="busy" icon="warning">
            <span>It is deleted at {moment(environment.lifecycle.expiresAt)} unless it is extended.</span>
          </Note>
        )}
        {environment.newerVersion !== undefined && (
          <Note kind="">
            <span>
              {environment.template} {environment.newerVersion} is out; this one has {environment.templateVersion}.{" "}
              <Link to={`/environments/${name}/update?to=${encodeURIComponent(environment.newerVersion)}`}>See what would change</Link>
            </span>
          </Note>
        )}
        {environment.job !== null && <CurrentJob id={environment.job} />}
        <Use environment={environment} />
      </div>
      <div className="stack">
        <Panel title="Facts">
          <Facts
            items={[
              ["Phase", <PhaseState key="phase" phase={environment.phase} />],
              ["Message", environment.message || "–"],
              ["Pods", <PodsText key="pods" environment={environment} />],
              ["Template", `${environment.template} ${environment.templateVersion}`],
              ["Kubernetes", environment.kubernetesVersion],
              ...(environment.kind === "real" ? ([["Bound to", Object.entries(environment.bindings ?? {}).map(([binding, resource]) => `${binding}: ${resource}`).join(", ")]] as [string, string][]) : []),
              ...(Object.keys(environment.shares ?? {}).length === 0 ? [] : ([["Shared with", Object.keys(environment.shares ?? {}).join(", ")]] as [string, string][])),
              ...(environment.project === undefined ? [] : ([["Project", environment.project]] as [string, string][])),
              ["Owner", environment.owner],
              ["Created", moment(environment.createdAt)],
              ["First ready", environment.readyAt ? moment(environment.readyAt) : "not yet"],
              ...lifecycleFacts(environment),
              ["API server", <span key="server" className="mono">{environment.server}</span>],
            ]}
          />
        </Panel>
        {parameters.length > 0 && (
          <Panel title="Parameters">
            <Facts items={parameters.map(([key, value]) => [key, <span key={key} className="mono">{typeof value === "string" ? value : JSON.stringify(value)}</span>])} />
          </Panel>
        )}
      </div>
    </div>
  );
}

const OPERATIONS: Record<string, string> = { create: "Creating it", delete: "Deleting it", "rotate-ca": "Another certificate authority", sleep: "Putting it to sleep", wake: "Waking it", update: "Updating it" };

function CurrentJob({ id }: { id: string }) {
  const query = useQuery(jobQuery(id));
  return (
    <Panel
      title={query.data ? (OPERATIONS[query.data.operation] ?? query.data.operation) : "Job"}
      actions={
        <span className="chips">
          {query.data && query.data.state !== "succeeded" && <JobActions job={query.data} small />}
          <Link to={`/jobs/${id}`} className="button quiet small">
            Job
          </Link>
        </span>
      }
    >
      <Loaded query={query} rows={3}>
        {(job: Job) => (
          <div className="stack">
            <Steps job={job} />
            {job.state !== "succeeded" && <JobLog job={job} />}
          </div>
        )}
      </Loaded>
    </Panel>
  );
}
