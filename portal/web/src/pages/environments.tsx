// All environments: cards or a table, found by text and phase.
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useLayoutEffect, useMemo, useRef, useState } from "react";
import { environmentsQuery } from "../api/queries";
import type { Environment, Phase } from "../api/types";
import { plural } from "../lib/format";
import { Link, useQueryValue } from "../lib/router";
import { Button, Choice, Search } from "../ui/controls";
import { Age, Empty, Loaded } from "../ui/feedback";
import { Icon } from "../ui/icons";
import { Page } from "../ui/page";
import { type Column, type Sort, Table } from "../ui/table";
import { PhaseState, PodsText } from "./phase";

const PHASES: Phase[] = ["Ready", "Creating", "Updating", "Waking", "Sleeping", "PendingApproval", "Failed", "Deleting"];

const COLUMNS: Column<Environment>[] = [
  { id: "name", title: "Name", width: "minmax(9rem, 2fr)", cell: (e) => <Link to={`/environments/${e.name}`}>{e.name}</Link>, sort: (e) => e.name },
  { id: "phase", title: "Phase", width: "minmax(6.5rem, 0.9fr)", cell: (e) => <PhaseState phase={e.phase} />, sort: (e) => e.phase },
  { id: "pods", title: "Pods", width: "5rem", right: true, cell: (e) => `${e.pods.ready}/${e.pods.total}`, sort: (e) => e.pods.total, from: 420 },
  { id: "template", title: "Template", width: "minmax(8rem, 1.4fr)", cell: (e) => `${e.template} ${e.templateVersion}`, sort: (e) => e.template, from: 560 },
  { id: "kubernetes", title: "Kubernetes", width: "6.5rem", cell: (e) => e.kubernetesVersion, sort: (e) => e.kubernetesVersion, from: 760 },
  { id: "project", title: "Project", width: "minmax(6rem, 1fr)", cell: (e) => e.project ?? "", sort: (e) => e.project ?? "", from: 960 },
  { id: "owner", title: "Owner", width: "minmax(7rem, 1fr)", cell: (e) => e.owner, sort: (e) => e.owner, from: 860 },
  { id: "message", title: "Message", width: "minmax(8rem, 2fr)", cell: (e) => <span className="soft" title={e.message}>{e.message}</span>, from: 1050 },
  { id: "age", title: "Age", width: "4rem", right: true, cell: (e) => <Age time={e.createdAt} />, sort: (e) => -Date.parse(e.createdAt) },
];

/** Those that contain every word of the text, in what is shown of them. */
export function found(list: Environment[], text: string, phase: string, template: string): Environment[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return list.filter((e) => {
    if (phase !== "" && e.phase !== phase) return false;
    if (template !== "" && e.template !== template) return false;
    const all = `${e.name} ${e.template} ${e.owner} ${e.message} ${e.project ?? ""}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

export default function Environments() {
  const query = useQuery(environmentsQuery);
  return (
    <Page
      title="Environments"
      actions={
        <Link to="/create" className="button primary">
          <Icon name="plus" /> New environment
        </Link>
      }
    >
      <Loaded query={query}>{(list) => (list.length === 0 ? <None /> : <List list={list} />)}</Loaded>
    </Page>
  );
}

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

function List({ list }: { list: Environment[] }) {
  const [text, setText] = useQueryValue("q");
  const [phase, setPhase] = useQueryValue("phase");
  const [template, setTemplate] = useQueryValue("template");
  const [view, setView] = useQueryValue("view", list.length > 24 ? "table" : "cards");
  const [sort, setSort] = useState<Sort>({ column: "name", descending: false });
  const wanted = useDeferredValue(text);
  const counts = useMemo(() => {
    const by = new Map<Phase, number>();
    for (const e of list) by.set(e.phase, (by.get(e.phase) ?? 0) + 1);
    return by;
  }, [list]);
  const templates = useMemo(() => [...new Set(list.map((e) => e.template))].sort(), [list]);
  const rows = useMemo(() => found(list, wanted, phase, template), [list, wanted, phase, template]);
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
          {PHASES.filter((each) => counts.has(each)).map((each) => (
            <button key={each} type="button" className="chip" aria-pressed={phase === each} onClick={() => setPhase(phase === each ? "" : each)}>
              {each} <span className="n">{counts.get(each)?.toLocaleString("en")}</span>
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
        <Cards rows={rows} />
      ) : (
        <Table label="Environments" rows={rows} columns={COLUMNS} rowKey={(e) => e.uid} sort={sort} onSort={setSort} foot={`${rows.length.toLocaleString("en")} of ${plural(list.length, "environment")}`} />
      )}
    </>
  );
}

const CARD_WIDTH = 272;
const CARD_HEIGHT = 136;

/** Cards in rows; only those in sight are in the document. */
function Cards({ rows }: { rows: Environment[] }) {
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
  return (
    <div ref={frame} className="card-scroll" style={{ maxHeight: room }}>
      <ul className="virtual" style={{ height: virtual.getTotalSize() }} aria-label="Environments">
        {virtual.getVirtualItems().flatMap((line) =>
          rows.slice(line.index * columns, (line.index + 1) * columns).map((environment, index) => (
            <li
              key={environment.uid}
              className="card-place"
              style={{ width: `calc((100% - ${(columns - 1) * 12}px) / ${columns})`, height: CARD_HEIGHT, left: `calc((100% + 12px) / ${columns} * ${index})`, transform: `translateY(${line.start}px)` }}
            >
              <Card environment={environment} />
            </li>
          )),
        )}
      </ul>
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
