// One way to the server: same origin, the session's cookie, its token with every change, and problems as exceptions.
import type { ProblemDocument, Session } from "./types";

/** What the server refused, in its words. */
export class Problem extends Error {
  readonly status: number;
  readonly type: string;
  readonly nearest: string[];
  readonly requestId: string;
  /** What is there now, where a condition was not met (412). */
  readonly current: unknown;

  constructor(document: ProblemDocument) {
    super(document.detail);
    this.name = "Problem";
    this.status = document.status;
    this.type = document.type;
    this.nearest = document.nearest ?? [];
    this.requestId = document.requestId;
    this.current = document.current;
  }
}

let csrfToken = "";

/** The token that goes with every change from now on. */
export function useToken(session: Session): void {
  csrfToken = session.csrfToken ?? "";
}

export interface RequestOptions {
  method?: string;
  body?: BodyInit;
  json?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request; throws a Problem for every answer that is not a success. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (!headers.has("accept")) headers.set("accept", "application/json");
  const method = options.method ?? "GET";
  if (method !== "GET") headers.set("x-csrf-token", csrfToken);
  let body = options.body;
  if (options.json !== undefined) {
    headers.set("content-type", "application/json");
    body = JSON.stringify(options.json);
  }
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body, signal: options.signal, credentials: "same-origin", redirect: "error" });
  } catch (cause) {
    if (options.signal?.aborted) throw cause;
    throw new Problem({ status: 0, type: "unreachable", detail: "The server cannot be reached. Check the connection; this page goes on by itself.", requestId: "" });
  }
  if (!response.ok) throw await problem(response);
  return response;
}

/** As `send`, with the answer read as JSON. */
export async function json<T>(path: string, options?: RequestOptions): Promise<T> {
  const response = await send(path, options);
  return (await response.json()) as T;
}

/** What an answer that is no success says: a problem document of the portal, or a Status of a Kubernetes API. */
async function problem(response: Response): Promise<Problem> {
  const requestId = response.headers.get("x-request-id") ?? "";
  const text = await response.text();
  try {
    const said = JSON.parse(text) as Record<string, unknown>;
    const detail = typeof said.detail === "string" ? said.detail : typeof said.message === "string" ? said.message : "";
    const type = typeof said.type === "string" ? said.type : typeof said.reason === "string" ? said.reason : "";
    const nearest = Array.isArray(said.nearest) ? said.nearest.filter((n) => typeof n === "string") : [];
    return new Problem({ status: response.status, type, detail: detail || fallback(response), nearest, requestId, current: said.current });
  } catch {
    return new Problem({ status: response.status, type: "", detail: fallback(response), requestId });
  }
}

function fallback(response: Response): string {
  return `The server answered ${response.status} ${response.statusText}`.trim();
}

/** Whether trying again can help: the network or the server, not the request. */
export function isPassing(error: unknown): boolean {
  return !(error instanceof Problem) || error.status === 0 || error.status === 429 || error.status >= 500;
}
