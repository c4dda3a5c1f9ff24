// Lists of which the server gives page after page: filtered, sorted and searched there, read further as one scrolls.
import { type InfiniteData, keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { json } from "./client";
import type { Page } from "./types";

/** Rows of a page. */
const PAGE = 100;

export type Pages<T> = InfiniteData<Page<T>, string>;

/** What is asked for: filters, `q` and `sort`; empty ones are left out. */
export type Query = Record<string, string>;

export interface Paged<T> {
  rows: T[];
  /** There are more than these. */
  more: boolean;
  /** Reads the next page. */
  further: () => void;
  pending: boolean;
  error: Error | null;
  retry: () => void;
}

/** A list under `key`, whose second part is what is asked for. Longest text that servers search for: 64 characters. */
export function usePages<T>(key: string, path: string, asked: Query, refetchInterval?: number): Paged<T> {
  const query = useInfiniteQuery({
    queryKey: [key, asked],
    queryFn: ({ pageParam, signal }) => {
      const parameters = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== ""));
      parameters.set("limit", String(PAGE));
      const text = parameters.get("q");
      if (text !== null) parameters.set("q", Array.from(text).slice(0, 64).join(""));
      if (pageParam !== "") parameters.set("cursor", pageParam);
      return json<Page<T>>(`${path}?${parameters.toString()}`, { signal });
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    ...(refetchInterval === undefined ? {} : { refetchInterval }),
  });
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query;
  const further = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return { rows, more: hasNextPage, further, pending: query.isPending, error: query.error, retry: () => void refetch() };
}
