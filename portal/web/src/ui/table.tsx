// A table of any length: only the rows in sight are in the document. Columns give way on narrow screens, the least needed first.
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useQueryValue } from "../lib/router";
import { Icon } from "./icons";

export interface Column<T> {
  id: string;
  title: string;
  /** A grid track: `minmax(10rem, 2fr)`, `6rem`. */
  width: string;
  cell: (row: T) => ReactNode;
  /** What it is sorted by; not sortable without. */
  sort?: (row: T) => string | number;
  /** The server sorts by it, under the id of the column: rows come in order. */
  byServer?: boolean;
  right?: boolean;
  /** The table must be so wide, in pixels, for it to be shown. */
  from?: number;
}

export interface Sort {
  column: string;
  descending: boolean;
}

export interface TableProps<T> {
  label: string;
  /** What is not read yet is a hole; only where the server sorts. */
  rows: (T | undefined)[];
  columns: Column<T>[];
  rowKey: (row: T) => string;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Height in CSS; else as much as the window has left. */
  height?: string;
  rowHeight?: number;
  foot?: ReactNode;
  onEnd?: () => void;
  /** Told which rows are in sight. */
  onSight?: (first: number, last: number) => void;
  /** When it changes, rows are shown from the first one on. */
  top?: unknown;
}

/** Rows in the order of a column; those alike keep theirs. */
export function sorted<T>(rows: (T | undefined)[], columns: Column<T>[], sort: Sort | undefined): (T | undefined)[] {
  const by = columns.find((column) => column.id === sort?.column)?.sort;
  if (!by || !sort) return rows;
  const sign = sort.descending ? -1 : 1;
  return rows
    .flatMap((row) => (row === undefined ? [] : [{ row, key: by(row) }]))
    .sort((a, b) => {
      if (typeof a.key === "number" && typeof b.key === "number") return sign * (a.key - b.key);
      return sign * collator.compare(String(a.key), String(b.key));
    })
    .map(({ row }) => row);
}

/** The order that the server is asked for: `name`, or `-name` for the other way round; the address says it when it is not the usual one. */
export function useServerSort(usual: string): { sort: Sort; asked: string; setSort: (sort: Sort) => void } {
  const [asked, ask] = useQueryValue("sort", usual);
  const descending = asked.startsWith("-");
  return { sort: { column: descending ? asked.slice(1) : asked, descending }, asked, setSort: (sort) => ask(`${sort.descending ? "-" : ""}${sort.column}`) };
}

const collator = new Intl.Collator(undefined, { numeric: true });

export function Table<T>({ label, rows, columns, rowKey, sort, onSort, height, rowHeight = 38, foot, onEnd, onSight, top }: TableProps<T>) {
  const scroll = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [room, setRoom] = useState(400);
  useLayoutEffect(() => {
    const element = scroll.current;
    if (!element) return undefined;
    const measure = (): void => {
      setWidth(element.clientWidth);
      setRoom(Math.max(240, window.innerHeight - element.getBoundingClientRect().top - window.scrollY - (foot === undefined ? 28 : 60)));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, [foot]);
  const shown = useMemo(() => columns.filter((column) => column.from === undefined || width === 0 || width >= column.from), [columns, width]);
  const ordered = useMemo(() => sorted(rows, columns, sort), [rows, columns, sort]);
  const virtual = useVirtualizer({ count: ordered.length, getScrollElement: () => scroll.current, estimateSize: () => rowHeight, overscan: 8 });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useLayoutEffect(() => onSight?.(first, last), [first, last, onSight]);
  useLayoutEffect(() => {
    if (scroll.current) scroll.current.scrollTop = 0;
  }, [top]);
  useLayoutEffect(() => {
    if (onEnd && ordered.length > 0 && last >= ordered.length - 10) onEnd();
  }, [last, ordered.length, onEnd]);
  const template = { gridTemplateColumns: shown.map((column) => column.width).join(" ") };
  return (
    <div className="table">
      <div ref={scroll} className="scroll" style={{ maxHeight: height ?? `${room}px` }} role="table" aria-label={label} aria-rowcount={ordered.length + 1} aria-colcount={shown.length} tabIndex={0}>
        <div role="rowgroup" style={{ display: "contents" }}>
          <div className="tr th" role="row" aria-rowindex={1} style={template}>
            {shown.map((column) => {
              const current = sort?.column === column.id ? sort : undefined;
              const sortable = (column.sort !== undefined || column.byServer === true) && onSort !== undefined;
              const direction = current ? (current.descending ? "descending" : "ascending") : "none";
              return (
                <div key={column.id} role="columnheader" className={column.right ? "right" : ""} aria-sort={sortable ? direction : undefined}>
                  {sortable ? (
                    <button type="button" onClick={() => onSort({ column: column.id, descending: current ? !current.descending : false })}>
                      {column.title}
                      {current && <Icon name={current.descending ? "down" : "up"} />}
                    </button>
                  ) : (
                    column.title || <span className="hidden-visually">Actions</span>
                  )}
                </div>
              );
            })}
          </div>
        </div>
        <div role="rowgroup" className="virtual" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = ordered[item.index];
            const place = { height: rowHeight, transform: `translateY(${item.start}px)` };
            if (row === undefined) {
              return (
                <div key={`at ${item.index}`} className="tr td" role="row" aria-rowindex={item.index + 2} style={place}>
                  <div role="cell" className="unread">
                    <span className="hidden-visually">Not read yet</span>
                  </div>
                </div>
              );
            }
            return (
              <div key={rowKey(row)} className="tr td" role="row" aria-rowindex={item.index + 2} style={{ ...template, ...place }}>
                {shown.map((column, index) => (
                  <div key={column.id} role="cell" className={[column.right ? "right" : "", index === 0 ? "primary-cell" : ""].join(" ")}>
                    {column.cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {foot !== undefined && <div className="table-foot">{foot}</div>}
    </div>
  );
}
