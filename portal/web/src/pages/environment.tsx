// One environment: what it is, how to use it, what is in it, what happened to it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy, useState } from "react";
import { Problem, json, send } from "../api/client";
import { environmentPath, environmentQuery, jobQuery, jobsQuery, sessionQuery } from "../api/queries";
import type { Environment, Job } from "../api/types";
import { moment } from "../lib/format";
import { download } from "../lib/download";
import { Link } from "../lib/router";
import { Button, Copy, Menu, TextField } from "../ui/controls";
import { Confirm, Dialog } from "../ui/dialog";
import { Age, Empty, ErrorNote, Loaded, Note, Skeleton, toast } from "../ui/feedback";
import { Facts, Page, Panel, Tabs } from "../ui/page";
import { JobsTable } from "./jobs";
import { PhaseState, PodsText } from "./phase";
import { JobLog, Steps } from "./steps";

const Explorer = lazy(() => import("../kube/explorer"));
const Logs = lazy(() => import("../kube/logs"));

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

function Actions({ environment }: { environment: Environment }) {
  const [asked, setAsked] = useState<"delete" | "rotate" | "extend" | null>(null);
  const session = useQuery(sessionQuery);
  const cache = useQueryClient();
  const { name, phase } = environment;
  const deleting = phase === "Deleting";
  const act = async (what: string, body: unknown, done: string): Promise<void> => {
    try {
      await send(`${environmentPath(name)}/${what}`, { method: "POST", ...(body === undefined ? {} : { json: body }) });
      toast(done);
      await cache.invalidateQueries({ queryKey: ["environment", name] });
    } catch (error) {
      toast(`${name} could not be changed`, error);
    }
  };
  const notReady = environment.readyAt === null && phase !== "Ready" ? "Its control plane is not ready yet" : undefined;
  const kubeconfig = async (): Promise<void> => {
    try {
      const { kubeconfig: text } = await json<{ kubeconfig: string }>(`${environmentPath(name)}/kubeconfig`);
      download(`${name}.kubeconfig`, text, "application/yaml");
      toast(`${name}.kubeconfig was downloaded`);
    } catch (error) {
      toast("The kubeconfig could not be had", error);
    }
  };
  return (
    <>
      {phase === "Sleeping" ? (
        <Button icon="sun" kind="primary" onPress={() => void act("wake", undefined, `${name} is being woken`)}>
          Wake
        </Button>
      ) : (
        <Button icon="moon" disabledReason={phase === "Ready" ? undefined : `It is ${phase.toLowerCase()}: only one that is ready can sleep`} onPress={() => void act("sleep", undefined, `${name} goes to sleep; its objects stay readable`)}>
          Sleep
        </Button>
      )}
      <Button icon="download" disabledReason={deleting ? "It is being deleted" : notReady} onPress={() => void kubeconfig()}>
        Kubeconfig
      </Button>
      <Button kind="danger" icon="trash" disabledReason={deleting ? "It is being deleted" : undefined} onPress={() => setAsked("delete")}>
        Delete
      </Button>
      <Menu
        label="More actions"
        entries={[
          {
            id: "extend",
            label: environment.lifecycle?.expiresAt === undefined ? "Extend: it does not expire" : "Extend",
            icon: "jobs",
            disabled: environment.lifecycle?.expiresAt === undefined,
            onAction: () => setAsked("extend"),
          },
          {
            id: "rotate",
            label: "Rotate certificate authority",
            icon: "refresh",
            disabled: session.data?.administrator !== true || phase !== "Ready",
            onAction: () => setAsked("rotate"),
          },
        ]}
      />
      {asked === "delete" && (
        <Confirm
          title={`Delete ${name}?`}
          typed={name}
          verb="Delete"
          onClose={() => setAsked(null)}
          onConfirm={async () => {
            await send(environmentPath(name), { method: "DELETE" });
            toast(`${name} is being deleted`);
            void cache.invalidateQueries({ queryKey: ["environment", name] });
          }}
        >
          Its cluster goes, with everything in it: workloads, volumes and their data. This cannot be undone.
        </Confirm>
      )}
      {asked === "extend" && <ExtendDialog name={name} onClose={() => setAsked(null)} onExtend={(period) => act("extend", { period }, `${name} was extended`)} />}
      {asked === "rotate" && (
        <Confirm
          title={`Give ${name} another certificate authority?`}
          verb="Rotate"
          onClose={() => setAsked(null)}
          onConfirm={async () => {
            await send(`${environmentPath(name)}/rotate-ca`, { method: "POST", json: {} });
            toast("The new authority is being made");
          }}
        >
          Kubeconfigs made until now count for one more day. Download a new one after that.
        </Confirm>
      )}
    </>
  );
}

function ExtendDialog({ name, onClose, onExtend }: { name: string; onClose: () => void; onExtend: (period: string) => Promise<void> }) {
  const [period, setPeriod] = useState("7d");
  const wrong = /^(\d+[smhd])+$/.test(period) ? undefined : "Write 12h, 7d or 1d12h";
  return (
    <Dialog title={`Extend ${name}`} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (wrong === undefined) void onExtend(period).then(onClose);
        }}
      >
        <TextField label="It expires so long from now" value={period} onChange={setPeriod} error={wrong} hint="Such as 12h, 7d or 1d12h; its template says how far" autoFocus mono />
        <div className="buttons">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabledReason={wrong}>
            Extend
          </Button>
        </div>
      </form>
    </Dialog>
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
              {environment.template} {environment.newerVersion} is out; this one has {environment.templateVersion}.
            </span>

          </Note>
        )}
        {environment.job !== null && <CurrentJob id={environment.job} />}
        <Panel title="Use it">
          <div className="stack">
            <div className="stack tight">
              <h3>A shell with kubectl set up</h3>
              <Copy label="vctl connect" text={`vctl connect ${name} -- bash`} />
            </div>
            <div className="stack tight">
              <h3>Look around</h3>
              <Copy label="kubectl get all" text={`vctl connect ${name} -- kubectl get all --all-namespaces`} />
            </div>
            <div className="stack tight">
              <h3>Reach a service from this machine</h3>
              <Copy label="kubectl port-forward" text={`vctl connect ${name} -- kubectl port-forward service/SERVICE 8080:80`} />
            </div>
            <div className="stack tight">
              <h3>Keep its kubeconfig</h3>
              <Copy label="vctl kubeconfig" text={`vctl kubeconfig ${name} > ${name}.kubeconfig`} />
            </div>
          </div>
        </Panel>
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
        <Link to={`/jobs/${id}`} className="button quiet small">
          Job
        </Link>
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

function Activity({ environment }: { environment: Environment }) {
  const query = useQuery(jobsQuery(environment.name));
  return <Loaded query={query}>{(jobs) => <JobsTable jobs={jobs} />}</Loaded>;
}
