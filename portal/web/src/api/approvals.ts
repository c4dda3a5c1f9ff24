// Changes that rules may hold for approval: the server makes them, asks why, or answers with the request that waits.
import { Problem, send } from "./client";
import type { Approval } from "./types";

export type Outcome<T> = { made: T; approval?: undefined } | { made?: undefined; approval: Approval };

/** A change that is made, or waits for approval. Where rules hold it and no reason was given the server refuses it: see `needsReason`. */
export async function orApproval<T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Outcome<T>> {
  const response = await send(path, { method: "POST", json: body, headers });
  const answer: unknown = await response.json();
  // Jobs are answered with 202 too; an Approval has what no job has.
  const waits = response.status === 202 && typeof answer === "object" && answer !== null && "approvalsNeeded" in answer;
  return waits ? { approval: answer as Approval } : { made: answer as T };
}

export const needsReason = (error: unknown): boolean => error instanceof Problem && error.type === "approval-required";

export const approvalPath = (approval: Approval): string => `/approvals?view=mine&id=${encodeURIComponent(approval.id)}`;
