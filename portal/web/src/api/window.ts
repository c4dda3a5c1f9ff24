// A window of a list that the server filters, sorts and counts: what is in sight is read, the rest is known by its number alone.
import { keepPreviousData, queryOptions, useQueries, useQuery } from "@tanstack/react-query";
import { startTransition, useCallback, useMemo, useRef, useState } from "react";
import { json } from "./client";
import type { Query } from "./paged";
import type { Page } from "./types";

/** Rows of a page. */
export const PAGE = 100;
/** Further rows than those in sight that are read with them, on either side. */
const AROUND = 50;
/** What is in sight is looked at so often, in milliseconds: scrolling goes before reading. */
const LOOK = 40;

/** A page, and which row of the list is its first one. */
export interface WindowPage<T> extends Page<T> {
  first: number;
}

export interface Windowed<T> {
  /** As many as match; those that are not read yet are holes. */
  rows: (T | undefined)[];
  /** Tells which rows are in sight. */
  sight: (first: number, last: number) => void;
  pending: boolean;
  error: Error | null;
  retry: () => void;
}

/** One page of a list, under `key`, "page", what is asked for and its number. */
const pageQuery = <T>(key: string, path: string, asked: Query, page: number, refetchInterval: number) =>
  queryOptions({
    queryKey: [key, "page", asked, page],
    queryFn: async ({ signal }): Promise<WindowPage<T>> => {
      const parameters = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
      // The longest text that servers search for.
      const text = parameters.get("q");
      if (text !== null) parameters.set("q", Array.from(text).slice(0, 64).join(""));
      parameters.set("limit", String(PAGE));
      if (page > 0) parameters.set("offset", String(page * PAGE));
      return { ...(await json<Page<T>>(`${path}?${parameters.toString()}`, { signal })), first: page * PAGE };
    },
    refetchInterval,
  });

/** All rows of a list, of which those of these pages are known. One that two pages have, of which one is older, is there once. */
export function rowsOf<T>(total: number, pages: (WindowPage<T> | undefined)[], id: (row: T) => string): (T | undefined)[] {
  const rows = new Array<T | undefined>(total).fill(undefined);
  const seen = new Set<string>();
  for (const page of pages) {
    page?.items.forEach((row, index) => {
      const at = page.first + index;
      if (at >= total || seen.has(id(row))) return;
      seen.add(id(row));
      rows[at] = row;
    });
  }
  return rows;
}

const dataOf = <T>(results: { data: T | undefined }[]): (T | undefined)[] => results.map(({ data }) => data);

/** The numbers of the pages of rows; the first one is read anyway, because it says how many rows there are. */
export function pagesOf(first: number, last: number, total: number): number[] {
  const from = Math.max(1, Math.floor((first - AROUND) / PAGE));
  const to = Math.min(Math.ceil(total / PAGE) - 1, Math.floor((last + AROUND) / PAGE));
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
}

/** `asked` is the same object for as long as the same is asked for. */
export function useWindow<T>(key: string, path: string, asked: Query, id: (row: T) => string, refetchInterval: number): Windowed<T> {
  const [seen, setSeen] = useState({ asked, first: 0, last: 0 });
  const head = useQuery({ ...pageQuery<T>(key, path, asked, 0, refetchInterval), placeholderData: keepPreviousData });
  const total = head.data?.total ?? head.data?.items.length ?? 0;
  // Something else that is asked for begins at its top.
  const [first, last] = seen.asked === asked ? [seen.first, seen.last] : [0, 0];
  const pages = pagesOf(first, last, total);
  const others = useQueries({ queries: pages.map((page) => pageQuery<T>(key, path, asked, page, refetchInterval)), combine: dataOf<WindowPage<T>> });
  const rows = useMemo(() => rowsOf(total, [head.data, ...others], id), [total, head.data, others, id]);
  const latest = useRef(seen);
  const looking = useRef(false);
  const sight = useCallback(
    (from: number, to: number) => {
      // Not for each row.
      latest.current = { asked, first: Math.floor(from / AROUND) * AROUND, last: Math.ceil(to / AROUND) * AROUND };
      if (looking.current) return;
      looking.current = true;
      setTimeout(() => {
        looking.current = false;
        const next = latest.current;
        startTransition(() => setSeen((before) => (before.asked === next.asked && before.first === next.first && before.last === next.last ? before : next)));
      }, LOOK);
    },
    [asked],
  );
  return { rows, sight, pending: head.isPending, error: head.data === undefined ? head.error : null, retry: () => void head.refetch() };
}
