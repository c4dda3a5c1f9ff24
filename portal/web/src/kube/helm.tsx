// Releases of Helm in an environment: their values, manifests, notes and history, and what differs between two revisions.
import { useQuery } from "@tanstack/react-query";
import { Suspense, lazy, useState } from "react";
import { stringify } from "yaml";
import { plural, shell } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Button, Choice, Copy, Switch } from "../ui/controls";
import { Age, Empty, Loaded, Note, Skeleton, State, type Tone } from "../ui/feedback";
import { Facts, Panel } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { type Release, type Revision, mergedValues, releaseQuery, releasesQuery } from "./helm-release";

const Editor = lazy(() => import("./editor"));

const TONES: Record<string, Tone> = { deployed: "good", failed: "bad", superseded: "idle", uninstalled: "idle" };

function Status({ status }: { status: string }) {
  return <State tone={TONES[status] ?? "busy"}>{status}</State>;
}

const chartOf = (release: Release): string => [release.chart?.metadata?.name, release.chart?.metadata?.version].filter(Boolean).join(" ");

export default function Helm({ environment, rest }: { environment: string; rest: string }) {
  const query = useQuery(releasesQuery(environment));
  const [namespace, name] = rest.split("/");
  return (
    <Loaded query={query}>
      {(releases) => {
        const chosen = releases.find((each) => each[0]?.namespace === namespace && each[0]?.release === name);
        if (name !== undefined && name !== "" && !chosen) {
          return (
            <Empty icon="search" title={`There is no release ${name}`}>
              <Link to={`/environments/${environment}/helm`}>All releases</Link>
            </Empty>
          );
        }
        return chosen ? <One key={rest} environment={environment} revisions={chosen} /> : <All environment={environment} releases={releases} />;
      }}
    </Loaded>
  );
}

function All({ environment, releases }: { environment: string; releases: Revision[][] }) {
  if (releases.length === 0) {
    return (
      <Empty icon="helm" title="No releases of Helm">
        <p>Helm works in this environment as in every cluster:</p>
        <Copy label="helm install" text={`vctl connect ${shell(environment)} -- helm install NAME CHART`} />
      </Empty>
    );
  }
  const columns: Column<Revision[]>[] = [
    { id: "name", title: "Release", width: "minmax(8rem, 1.6fr)", cell: ([newest]) => <Link to={`/environments/${environment}/helm/${newest?.namespace ?? ""}/${newest?.release ?? ""}`}>{newest?.release}</Link> },
    { id: "namespace", title: "Namespace", width: "minmax(6rem, 1fr)", cell: ([newest]) => newest?.namespace, from: 420 },
    { id: "status", title: "Status", width: "minmax(7rem, 1fr)", cell: ([newest]) => <Status status={newest?.status ?? ""} /> },
    { id: "chart", title: "Chart", width: "minmax(8rem, 1.4fr)", cell: ([newest]) => (newest ? <Chart environment={environment} revision={newest} /> : ""), from: 620 },
    { id: "revision", title: "Revision", width: "4.5rem", right: true, cell: ([newest]) => newest?.revision },
    { id: "age", title: "Age", width: "4rem", right: true, cell: ([newest]) => (newest ? <Age time={newest.at} /> : "") },
  ];
  return <Table label="Helm releases" rows={releases} columns={columns} rowKey={([newest]) => `${newest?.namespace ?? ""}/${newest?.release ?? ""}`} foot={plural(releases.length, "release")} />;
}

/** Only what is in sight is asked for: the table shows no more. */
function Chart({ environment, revision }: { environment: string; revision: Revision }) {
  const query = useQuery(releaseQuery(environment, revision.namespace, revision.secret));
  return <span className="soft">{query.data ? chartOf(query.data) : "…"}</span>;
}

type View = "values" | "manifest" | "notes";

function textOf(release: Release, view: View, merged: boolean): string {
  if (view === "manifest") return release.manifest ?? "";
  if (view === "notes") return release.info?.notes ?? "";
  const given = release.config ?? {};
  const values = merged ? mergedValues(release.chart?.values ?? {}, given) : given;
  return Object.keys(values).length === 0 ? "" : stringify(values, { lineWidth: 0 });
}

const VIEWS: [View, string][] = [["values", "Values"], ["manifest", "Manifest"], ["notes", "Notes"]];

function One({ environment, revisions }: { environment: string; revisions: Revision[] }) {
  const newest = revisions[0];
  const [wanted, setWanted] = useQueryValue("revision", String(newest?.revision ?? ""));
  const [against, setAgainst] = useQueryValue("against");
  const [view, setView] = useQueryValue("view", "values");
  const [merged, setMerged] = useState(false);
  const shown = revisions.find((each) => String(each.revision) === wanted) ?? newest;
  const other = revisions.find((each) => String(each.revision) === against && each !== shown);
  if (!shown) return null;
  const place = shown.namespace === "default" ? "" : ` --namespace ${shell(shown.namespace)}`;
  return (
    <div className="stack">
      <nav className="crumbs" aria-label="Release">
        <Link to={`/environments/${environment}/helm`}>releases</Link>
        <span aria-hidden="true">/</span>
        <span>{shown.namespace}</span>
      </nav>
      <h2 className="object-name">
        {shown.release} <Status status={newest?.status ?? ""} />
      </h2>
      <div className="two">
        <div className="stack tight">
          <div className="toolbar">
            <Choice label="Revision" value={String(shown.revision)} onChange={setWanted} options={revisions.map((each) => ({ value: String(each.revision), label: `Revision ${each.revision}` }))} />
            <Choice
              label="Compare with"
              value={other ? against : ""}
              onChange={setAgainst}
              options={[{ value: "", label: "Compare with…" }, ...revisions.filter((each) => each !== shown).map((each) => ({ value: String(each.revision), label: `against ${each.revision}` }))]}
            />
            <div className="group" role="group" aria-label="View">
              {VIEWS.map(([id, label]) => (
                <Button key={id} pressed={view === id} onPress={() => setView(id)}>
                  {label}
                </Button>
              ))}
            </div>
            {view === "values" && (
              <Switch selected={merged} onChange={setMerged}>
                With those of the chart
              </Switch>
            )}
          </div>
          <Text environment={environment} shown={shown} other={other} view={VIEWS.find(([id]) => id === view)?.[0] ?? "values"} merged={merged} />
        </div>
        <div className="stack">
          <About environment={environment} revision={shown} />
          <Panel title="History">
            <ol className="stack tight">
              {revisions.map((each) => (
                <li key={each.revision} className="container-row">
                  <button type="button" className="link" aria-current={each === shown ? "true" : undefined} onClick={() => setWanted(String(each.revision))}>
                    {each.revision}
                  </button>
                  <Status status={each.status} />
                  <Chart environment={environment} revision={each} />
                  <span className="faint">
                    <Age time={each.at} />
                  </span>
                </li>
              ))}
            </ol>
          </Panel>
          {shown !== newest && (
            <Panel title="Back to this revision">
              <Copy label="helm rollback" text={`vctl connect ${shell(environment)} -- helm rollback${place} ${shell(shown.release)} ${shown.revision}`} />
            </Panel>
          )}
        </div>
      </div>
    </div>
  );
}

function Text({ environment, shown, other, view, merged }: { environment: string; shown: Revision; other: Revision | undefined; view: View; merged: boolean }) {
  const query = useQuery(releaseQuery(environment, shown.namespace, shown.secret));
  const before = useQuery({ ...releaseQuery(environment, shown.namespace, other?.secret ?? ""), enabled: other !== undefined });
  return (
    <Loaded query={query}>
      {(release) => {
        const text = textOf(release, view, merged);
        if (other && !before.data) return <Loaded query={before}>{() => null}</Loaded>;
        const compared = other && before.data ? textOf(before.data, view, merged) : undefined;
        if (compared === text) {
          return (
            <Note kind="">
              <span>Nothing differs between revisions {other?.revision} and {shown.revision} here.</span>
            </Note>
          );
        }
        if (text === "" && compared === undefined) return <Empty icon="info" title={view === "values" ? "No values were given" : "There is nothing here"} />;
        return (
          <Suspense fallback={<Skeleton rows={10} />}>
            <Editor key={`${shown.secret}/${other?.secret ?? ""}/${view}/${String(merged)}`} label={`${view} of ${shown.release}, revision ${shown.revision}`} text={text} readOnly {...(compared === undefined ? {} : { against: compared })} />
          </Suspense>
        );
      }}
    </Loaded>
  );
}

function About({ environment, revision }: { environment: string; revision: Revision }) {
  const query = useQuery(releaseQuery(environment, revision.namespace, revision.secret));
  return (
    <Panel title={`Revision ${revision.revision}`}>
      <Loaded query={query} rows={3}>
        {(release) => (
          <Facts
            items={[
              ["Chart", chartOf(release) || "unknown"],
              ["App version", release.chart?.metadata?.appVersion ?? "–"],
              ["Status", <Status key="status" status={revision.status} />],
              ["Description", release.info?.description ?? "–"],
              ["Chart is", release.chart?.metadata?.description ?? "–"],
              ["Deployed", <Age key="age" time={revision.at} />],
            ]}
          />
        )}
      </Loaded>
    </Panel>
  );
}
