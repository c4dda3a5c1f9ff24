// Addresses are the state: a path names what is shown, its query how. Small on purpose; see docs/decisions.
import { type AnchorHTMLAttributes, type MouseEvent, type ReactNode, useCallback, useMemo, useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
const tell = (): void => listeners.forEach((listener) => listener());
if (typeof window !== "undefined") window.addEventListener("popstate", tell);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function navigate(to: string, { replace = false } = {}): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  tell();
  if (!replace) window.scrollTo(0, 0);
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname);
}

/** One value of the query, and how to change it; an empty one leaves the address. */
export function useQueryValue(name: string, fallback = ""): [string, (value: string) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const value = useMemo(() => new URLSearchParams(search).get(name) ?? fallback, [search, name, fallback]);
  const set = useCallback(
    (next: string) => {
      const query = new URLSearchParams(location.search);
      if (next === fallback) query.delete(name);
      else query.set(name, next);
      const text = query.toString();
      navigate(location.pathname + (text ? `?${text}` : ""), { replace: true });
    },
    [name, fallback],
  );
  return [value, set];
}

/** `/environments/:name/*rest` against a path; the values by name, decoded. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith("*")) {
      values[part.slice(1)] = given.slice(index).join("/");
      return values;
    }
    const value = given[index];
    if (value === undefined) return null;
    if (part.startsWith(":")) {
      try {
        values[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) return null;
  }
  return given.length === wanted.length ? values : null;
}

export interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  to: string;
  children?: ReactNode;
}

/** A real link: opens in a new tab, can be copied; a plain click stays in the page. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  const click = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={to} onClick={click} {...rest} />;
}
