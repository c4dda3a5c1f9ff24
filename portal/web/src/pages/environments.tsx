// All environments: cards or a table; found, sorted and counted by the server, of which the part in sight is read.
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useLayoutEffect, useMemo, useRef, useState } from "react";
import { ENVIRONMENTS_AGAIN, environmentsQuery } from "../api/queries";
import type { Environment, Page as PageOf, Phase } from "../api/types";
import { type Windowed, useWindow } from "../api/window";
import { plural } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Button, Choice, Search } from "../ui/controls";
import { Age, Empty, ErrorNote, Loaded, Skeleton } from "../ui/feedback";
import { Icon } from "../ui/icons";
import { Page } from "../ui/page";
import { type Column, Table, useServerSort } from "../ui/table";
import { PhaseState, PodsText } from "./phase";

const PHASES: Phase[] = ["Ready", "Creating", "Updating", "Waking", "Sleeping", "PendingApproval", "Failed", "Deleting"];

const COLUMNS: Column<Environment>[] = [
  { id: "name", title: "Name", width: "minmax(9rem, 2fr)", cell: (e) => <Link to={`/environments/${e.name}`}>{e.name}</Link>, byServer: true },
  { id: "phase", title: "Phase", width: "minmax(6.5rem, 0.9fr)", cell: (e) => <PhaseState phase={e.phase} />, byServer: true },
  { id: "pods", title: "Pods", width: "5rem", right: true, cell: (e) => `${e.pods.ready}/${e.pods.total}`, from: 420 },
  { id: "template", title: "Template", width: "minmax(8rem, 1.4fr)", cell: (e) => `${e.template} ${e.templateVersion}`, byServer: true, from: 560 },
  { id: "kubernetesVersion", title: "Kubernetes", width: "6.5rem", cell: (e) => e.kubernetesVersion, byServer: true, from: 760 },
  { id: "project", title: "Project", width: "minmax(6rem, 1fr)", cell: (e) => e.project ?? "", byServer: true, from: 960 },
  { id: "owner", title: "Owner", width: "minmax(7rem, 1fr)", cell: (e) => e.owner, byServer: true, from: 860 },
  { id: "message", title: "Message", width: "minmax(8rem, 2fr)", cell: (e) => <span className="soft" title={e.message}>{e.message}</span>, from: 1050 },
  { id: "createdAt", title: "Age", width: "4rem", right: true, cell: (e) => <Age time={e.createdAt} />, byServer: true },
];

export default function Environments() {
  const summary = useQuery(environmentsQuery);
  const { text, phase, template, order } = useFilter();
  const wanted = useMemo(() => ({ q: text, phase, template, sort: order }), [text, phase, template, order]);
  const asked = useDeferredValue(wanted);
  const list = useWindow<Environment>("environments", "/api/v1/environments", asked, nameOf, ENVIRONMENTS_AGAIN);
  return (
    <Page
      title="Environments"
      actions={
        <Link to="/create" className="button primary">
          <Icon name="plus" /> New environment
        </Link>
      }
    >
      {list.error ? (
        <ErrorNote error={list.error} retry={list.retry} />
      ) : list.pending ? (
        <Skeleton />
      ) : (
        <Loaded query={summary}>{(all) => (all.total === 0 && list.rows.length === 0 ? <None /> : <List all={all} list={list} asked={asked} />)}</Loaded>
      )}
    </Page>
  );
}

/** What is looked for, in which order, as the address says. */
function useFilter() {
  const [text, setText] = useQueryValue("q");
  const [phase, setPhase] = useQueryValue("phase");
  const [template, setTemplate] = useQueryValue("template");
  const { sort, asked: order, setSort } = useServerSort("name");
  return { text, setText, phase, setPhase, template, setTemplate, sort, order, setSort };
}

const nameOf = (environment: Environment): string => environment.name;

function None() {
  return (
    <Empty icon="environments" title="No environments yet">
      <p>An environment is a Kubernetes cluster of your own, ready in seconds.</p>
      <Link to="/create" className="button primary">
        <Icon name="plus" /> New environment
      </Link>
      <p className="faint">
        or <code>vctl create my-env --template blank</code>
      </p>
    </Empty>
  );
}

/** `all` tells how many there are, whatever is looked for. */
function List({ all, list: { rows, sight }, asked }: { all: PageOf<Environment>; list: Windowed<Environment>; asked: object }) {
  const { text, setText, phase, setPhase, template, setTemplate, sort, setSort } = useFilter();
  const total = all.total ?? 0;
  const [view, setView] = useQueryValue("view", total > 24 ? "table" : "cards");
  const counts = all.counts?.phase ?? {};
  const templates = Object.keys(all.counts?.template ?? {}).sort();
  return (
    <>
      <div className="toolbar">
        <Search label="Find environments" value={text} onChange={setText} />
        {templates.length > 1 && (
          <Choice
            label="Template"
            value={template}
            onChange={setTemplate}
            options={[{ value: "", label: "All templates" }, ...templates.map((name) => ({ value: name, label: name }))]}
          />
        )}
        <div className="chips" role="group" aria-label="Phase">
          {PHASES.filter((each) => counts[each] !== undefined || each === phase).map((each) => (
            <button key={each} type="button" className="chip" aria-pressed={phase === each} onClick={() => setPhase(phase === each ? "" : each)}>
              {each} <span className="n">{(counts[each] ?? 0).toLocaleString("en")}</span>
            </button>
          ))}
        </div>
        <span className="spring" />
        <div className="group" role="group" aria-label="View">
          <Button icon="cards" label="Cards" pressed={view === "cards"} onPress={() => setView("cards")} />
          <Button icon="table" label="Table" pressed={view === "table"} onPress={() => setView("table")} />
        </div>
      </div>
      <p className="hidden-visually" role="status">
        {plural(rows.length, "environment")} shown
      </p>
      {rows.length === 0 ? (
        <Empty icon="search" title="Nothing matches">
          <Button
            onPress={() => {
              setText("");
              setPhase("");
              setTemplate("");
            }}
          >
            Show all
          </Button>
        </Empty>
      ) : view === "cards" ? (
        <Cards rows={rows} onSight={sight} top={asked} />
      ) : (
        <Table label="Environments" rows={rows} columns={COLUMNS} rowKey={(e) => e.uid} sort={sort} onSort={setSort} onSight={sight} top={asked} foot={`${rows.length.toLocaleString("en")} of ${plural(Math.max(total, rows.length), "environment")}`} />
      )}
    </>
  );
}

const CARD_WIDTH = 272;
const CARD_HEIGHT = 136;

/** Cards in rows; only those in sight are in the document. */
function Cards({ rows, onSight, top }: { rows: (Environment | undefined)[]; onSight: (first: number, last: number) => void; top: object }) {
  const frame = useRef<HTMLDivElement>(null);
  const [columns, setColumns] = useState(1);
  const [room, setRoom] = useState(500);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const measure = (): void => {
      setColumns(Math.max(1, Math.floor((element.clientWidth + 12) / (CARD_WIDTH + 12))));
      setRoom(Math.max(280, window.innerHeight - element.getBoundingClientRect().top - window.scrollY - 24));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const lines = Math.ceil(rows.length / columns);
  const virtual = useVirtualizer({ count: lines, getScrollElement: () => frame.current, estimateSize: () => CARD_HEIGHT + 12, overscan: 3 });
  const inSight = virtual.getVirtualItems();
  const first = (inSight[0]?.index ?? 0) * columns;
  const last = ((inSight.at(-1)?.index ?? 0) + 1) * columns - 1;
  useLayoutEffect(() => onSight(first, last), [first, last, onSight]);
  useLayoutEffect(() => {
    if (frame.current) frame.current.scrollTop = 0;
  }, [top]);
  return (
    <div ref={frame} className="card-scroll" style={{ maxHeight: room }}>
      <ul className="virtual" style={{ height: virtual.getTotalSize() }} aria-label="Environments">
        {inSight.flatMap((line) =>
          rows.slice(line.index * columns, (line.index + 1) * columns).map((environment, index) => (
            <li
              key={environment?.uid ?? `at ${line.index * columns + index}`}
              className="card-place"
              style={{ width: `calc((100% - ${(columns - 1) * 12}px) / ${columns})`, height: CARD_HEIGHT, left: `calc((100% + 12px) / ${columns} * ${index})`, transform: `translateY(${line.start}px)` }}
            >
              {environment ? <Card environment={environment} /> : <Unread />}
            </li>
          )),
        )}
      </ul>
    </div>
  );
}

/** One that is in sight but not read yet. */
function Unread() {
  return (
    <div className="card">
      <span className="unread">
        <span className="hidden-visually">Not read yet</span>
      </span>
    </div>
  );
}

function Card({ environment }: { environment: Environment }) {
  return (
    <Link to={`/environments/${environment.name}`} className="card">
      <span className="top">
        <span className="name">{environment.name}</span>
        <PhaseState phase={environment.phase} />
      </span>
      <span className="row">
        <span className="ellipsis">
          {environment.template} {environment.templateVersion}
        </span>
        <span>{environment.kubernetesVersion}</span>
      </span>
      <span className="message">{environment.message}</span>
      <span className="row faint card-foot">
        <PodsText environment={environment} />
        <span className="ellipsis">{environment.owner}</span>
        <Age time={environment.createdAt} />
      </span>
    </Link>
  );
}
