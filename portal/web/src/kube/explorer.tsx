// Everything in an environment, by kind: live tables as the server makes them, and each object.
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { plural } from "../lib/format";
import { Link, navigate, useQueryValue } from "../lib/router";
import { Choice, Search } from "../ui/controls";
import { Age, Empty, ErrorNote, Loaded, Skeleton, State } from "../ui/feedback";
import { type Column, type Sort, Table } from "../ui/table";
import { type Resource, type TableRow, discoveryQuery, namespacesQuery } from "./client";
import { explorerPath, idOf, sections } from "./kinds";
import { ObjectPage } from "./object";
import { toneOf } from "./tone";
import { useTable } from "./watch";

export default function Explorer({ environment, rest }: { environment: string; rest: string }) {
  const discovery = useQuery(discoveryQuery(environment));
  return <Loaded query={discovery}>{(resources) => <Explored environment={environment} resources={resources} rest={rest} />}</Loaded>;
}

function decode(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? "");
  } catch {
    return "";
  }
}

function Explored({ environment, resources, rest }: { environment: string; resources: Resource[]; rest: string }) {
  const grouped = useMemo(() => sections(resources), [resources]);
  const [id = "", namespace, name] = rest.split("/");
  const wanted = decode(id) || "pods";
  const resource = resources.find((each) => idOf(each) === wanted);
  return (
    <div className="explorer">
      <nav className="panel kinds" aria-label="Kinds" tabIndex={0}>
        {grouped.map(([title, list]) => (
          <section key={title} aria-label={title}>
            <h3>{title}</h3>
            {list.map((each) => (
              <Link key={idOf(each)} to={explorerPath(environment, each)} aria-current={idOf(each) === wanted ? "page" : undefined}>
                {each.kind}
              </Link>
            ))}
          </section>
        ))}
      </nav>
      {resource === undefined ? (
        <Empty icon="search" title={`There is no kind ${wanted}`} />
      ) : name !== undefined && namespace !== undefined ? (
        <ObjectPage key={rest} environment={environment} resource={resource} resources={resources} namespace={namespace === "-" ? "" : decode(namespace)} name={decode(name)} />
      ) : (
        <Kind key={wanted} environment={environment} resource={resource} grouped={grouped} />
      )}
    </div>
  );
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const STATES = new Set(["Status", "Phase", "Type"]);

function Cell({ value, name, row }: { value: unknown; name: string; row: TableRow }) {
  if ((name === "Age" || name === "Created At") && row.object.metadata.creationTimestamp !== undefined) return <Age time={row.object.metadata.creationTimestamp} />;
  const text = textOf(value);
  const tone = STATES.has(name) ? toneOf(text) : undefined;
  if (tone) return <State tone={tone}>{text}</State>;
  return <span title={text.length > 20 ? text : undefined}>{text}</span>;
}

function Kind({ environment, resource, grouped }: { environment: string; resource: Resource; grouped: [string, Resource[]][] }) {
  const [namespace, setNamespace] = useQueryValue("namespace");
  const [text, setText] = useQueryValue("q");
  const [sort, setSort] = useState<Sort>({ column: "Name", descending: false });
  const namespaces = useQuery(namespacesQuery(environment));
  const table = useTable(environment, resource, resource.namespaced ? namespace : "");
  const wanted = useDeferredValue(text.toLowerCase());
  const rows = useMemo(() => {
    if (wanted === "") return table.rows;
    return table.rows.filter((row) => `${row.object.metadata.namespace ?? ""} ${row.cells.map(textOf).join(" ")}`.toLowerCase().includes(wanted));
  }, [table.rows, wanted]);
  const columns = useMemo<Column<TableRow>[]>(() => {
    const result: Column<TableRow>[] = [];
    let needed = 300;
    table.columns.forEach((column, index) => {
      const cell = (row: TableRow): unknown => row.cells[index];
      if (column.name === "Name") {
        result.unshift({
          id: "Name",
          title: "Name",
          width: "minmax(9rem, 2.2fr)",
          cell: (row) => <Link to={explorerPath(environment, resource, row.object.metadata)}>{row.object.metadata.name}</Link>,
          sort: (row) => row.object.metadata.name,
        });
        return;
      }
      const aged = column.name === "Age" || column.name === "Created At";
      const numeric = column.type === "integer" || column.type === "number";
      const state = STATES.has(column.name);
      needed += column.priority > 0 ? 240 : aged || state ? 0 : 110;
      result.push({
        id: column.name,
        title: aged ? "Age" : column.name,
        width: aged ? "4rem" : numeric ? "5rem" : "minmax(5rem, 1fr)",
        cell: (row) => <Cell value={cell(row)} name={column.name} row={row} />,
        sort: (row) => {
          if (aged) return -Date.parse(row.object.metadata.creationTimestamp ?? "");
          const value = cell(row);
          return typeof value === "number" ? value : textOf(value);
        },
        right: aged || numeric,
        ...(aged || state ? {} : { from: needed + (column.priority > 0 ? 500 : 0) }),
      });
    });
    if (resource.namespaced && namespace === "") {
      result.splice(1, 0, { id: "Namespace", title: "Namespace", width: "minmax(6rem, 1fr)", cell: (row) => row.object.metadata.namespace ?? "", sort: (row) => row.object.metadata.namespace ?? "", from: 430 });
    }
    // Age last, as everywhere.
    const age = result.findIndex((column) => column.title === "Age");
    if (age >= 0) result.push(...result.splice(age, 1));
    return result;
  }, [table.columns, environment, resource, namespace]);
  const all = grouped.flatMap(([title, list]) => list.map((each) => ({ value: idOf(each), label: `${title}: ${each.kind}` })));
  return (
    <div>
      <div className="toolbar">
        <Choice
          className="kind-select"
          label="Kind"
          value={idOf(resource)}
          options={all}
          onChange={(id) => {
            const to = grouped.flatMap(([, list]) => list).find((each) => idOf(each) === id);
            if (to) navigate(explorerPath(environment, to));
          }}
        />
        <Search label={`Find ${resource.plural}`} value={text} onChange={setText} />
        {resource.namespaced && (
          <Choice
            label="Namespace"
            value={namespace}
            onChange={setNamespace}
            options={[{ value: "", label: "All namespaces" }, ...[...new Set([...(namespaces.data ?? []), ...(namespace === "" ? [] : [namespace])])].map((each) => ({ value: each, label: each }))]}
          />
        )}
        <span className="spring" />
        <span className="faint mono">
          {resource.group === "" ? "" : `${resource.group}/`}
          {resource.version}
        </span>
      </div>
      {table.error !== undefined && <ErrorNote error={table.error} />}
      {table.loading ? (
        <Skeleton />
      ) : rows.length === 0 && table.error === undefined ? (
        <Empty icon="search" title={table.rows.length === 0 ? `No ${resource.plural}` : "Nothing matches"} />
      ) : (
        rows.length > 0 && (
          <Table
            label={resource.plural}
            rows={rows}
            columns={columns}
            rowKey={(row) => row.object.metadata.uid ?? row.object.metadata.name}
            sort={sort}
            onSort={setSort}
            foot={`${plural(rows.length, resource.plural.replace(/e?s$/, ""), resource.plural)}${table.more ? "; there are more" : ""}`}
          />
        )
      )}
    </div>
  );
}
