// One request for approval: what is asked for and why, what holds it, the answers, and what can be done with it now.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { json } from "../api/client";
import type { Approval, ApprovalState } from "../api/types";
import { moment } from "../lib/format";
import { Link } from "../lib/router";
import { Button, TextArea, TextField } from "../ui/controls";
import { ErrorNote, Note, State, type Tone, toast } from "../ui/feedback";
import { Facts } from "../ui/page";

const TONES: Record<ApprovalState, Tone> = { Pending: "busy", Approved: "busy", Active: "good", Fulfilled: "good", Denied: "bad", Withdrawn: "idle", Expired: "idle", Failed: "bad", Ended: "idle", Revoked: "bad" };

export function ApprovalStateText({ state }: { state: ApprovalState }) {
  return <State tone={TONES[state]}>{state}</State>;
}

/** What is asked for, in a few words. */
export function subjectOf({ kind, environment = "", role = "", project }: Pick<Approval, "kind" | "environment" | "role" | "project">): string {
  switch (kind) {
    case "create":
      return `Create ${environment}`;
    case "update":
      return `Update ${environment}`;
    case "role":
      return `${role} of ${project}`;
    case "breakGlass":
      return `Break-glass: ${role} of ${project}`;
  }
}

type Act = "approve" | "deny" | "withdraw" | "revoke" | "review";
const DONE: Record<Act, string> = { approve: "It was approved", deny: "It was denied", withdraw: "It was withdrawn", revoke: "The role was taken away", review: "The review is noted" };
/** What must say why. */
const EXPLAINED = new Set<Act>(["deny", "revoke", "review"]);

export function ApprovalBody({ approval, onClose }: { approval: Approval; onClose: () => void }) {
  const [comment, setComment] = useState("");
  const [period, setPeriod] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const cache = useQueryClient();
  const { actions } = approval;
  const whyNot = actions.whyNot || "You may not decide about this";
  const act = async (what: Act): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      const body = { comment, ...(what === "approve" && period !== "" ? { period } : {}) };
      const changed = await json<Approval>(`/api/v1/approvals/${encodeURIComponent(approval.id)}/${what}`, { method: "POST", json: body });
      cache.setQueryData(["approval", approval.id], changed);
      setComment("");
      toast(DONE[what]);
      for (const key of ["approvals", "approvals-waiting", "environments", "permissions"]) void cache.invalidateQueries({ queryKey: [key] });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const wrong = period === "" || /^(\d+[smhd])+$/.test(period) ? undefined : "Write 30m, 4h or 1d";
  const reason = (what: Act): string | undefined => (busy ? "It is under way" : EXPLAINED.has(what) && comment.trim() === "" ? "Say why first" : what === "approve" ? wrong : undefined);
  const something = actions.decide || actions.withdraw || actions.revoke || actions.review;
  return (
    <>
      <div className="two">
        <div className="stack">
          <blockquote className="reason">{approval.reason}</blockquote>
          {approval.message !== "" && (
            <Note kind={approval.state === "Failed" ? "bad" : ""}>
              <span>{approval.message}</span>
            </Note>
          )}
          {approval.rules.length > 0 && (
            <section className="stack tight">
              <h3>What holds it</h3>
              <ul className="stack tight">
                {approval.rules.map((each) => (
                  <li key={each.rule} className="condition">
                    <span>{each.rule}</span>
                    <span className="soft">{each.why}</span>
                  </li>
                ))}
              </ul>
            </section>
          )}
          <Wanted approval={approval} />
          <section className="stack tight">
            <h3>
              Answers{" "}
              <span className="faint number">
                {approval.decisions.filter((each) => each.verdict === "approve").length} of {approval.approvalsNeeded}
              </span>
            </h3>
            {approval.decisions.length === 0 ? (
              <p className="faint">None yet.</p>
            ) : (
              <ul className="stack tight">
                {approval.decisions.map((each) => (
                  <li key={`${each.byId}/${each.at}`} className="condition">
                    <State tone={each.verdict === "approve" ? "good" : "bad"}>{each.by}</State>
                    <span className="soft">
                      {each.comment} <span className="faint">{moment(each.at)}</span>
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </section>
        </div>
        <Facts items={factsOf(approval)} />
      </div>
      {something && (
        <div className="stack tight">
          <TextArea label="Comment" value={comment} onChange={setComment} rows={2} hint={actions.decide ? "A denial must say why" : undefined} />
          {actions.decide && (approval.kind === "role" || approval.kind === "create" || approval.kind === "update") && <TextField label="Only for" value={period} onChange={setPeriod} error={wrong} placeholder={approval.period ?? "as the rule says"} mono />}
        </div>
      )}
      {error !== undefined && <ErrorNote error={error} />}
      {!actions.decide && actions.whyNot !== "" && <p className="faint">{actions.whyNot}</p>}
      <div className="buttons">
        <Button onPress={onClose}>Close</Button>
        {actions.withdraw && (
          <Button disabledReason={reason("withdraw")} onPress={() => void act("withdraw")}>
            {approval.state === "Active" ? "Give it back" : "Withdraw"}
          </Button>
        )}
        {actions.revoke && (
          <Button kind="danger" disabledReason={reason("revoke")} onPress={() => void act("revoke")}>
            Take it away
          </Button>
        )}
        {actions.review && (
          <Button kind="primary" disabledReason={reason("review")} onPress={() => void act("review")}>
            Reviewed
          </Button>
        )}
        {(approval.state === "Pending" || actions.decide) && (
          <>
            <Button kind="danger" disabledReason={actions.decide ? reason("deny") : whyNot} onPress={() => void act("deny")}>
              Deny
            </Button>
            <Button kind="primary" disabledReason={actions.decide ? reason("approve") : whyNot} onPress={() => void act("approve")}>
              Approve
            </Button>
          </>
        )}
      </div>
    </>
  );
}

function factsOf(approval: Approval): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    ["State", <ApprovalStateText key="state" state={approval.state} />],
    ["Asked by", approval.requestedBy],
    ["Asked", moment(approval.createdAt)],
    ["Project", approval.project],
  ];
  if (approval.environment !== undefined) facts.push(["Environment", <Link key="e" to={`/environments/${encodeURIComponent(approval.environment)}`}>{approval.environment}</Link>]);
  const at = (title: string, time: string | undefined): void => {
    if (time !== undefined) facts.push([title, moment(time)]);
  };
  if (approval.period !== undefined) facts.push(["For", approval.period]);
  if (approval.state === "Pending") at("Ends without an answer", approval.expiresAt);
  at("Granted until", approval.grantedUntil);
  at("Closed", approval.closedAt);
  if (approval.job !== undefined) facts.push(["Job", <Link key="j" to={`/jobs/${encodeURIComponent(approval.job)}`}>{approval.job}</Link>]);
  if (approval.review) facts.push(["Reviewed", `by ${approval.review.by}, ${moment(approval.review.at)}: ${approval.review.comment}`]);
  return facts;
}

/** What would be made or changed. */
function Wanted({ approval }: { approval: Approval }) {
  const { create, update, size } = approval;
  if (!create && !update) return null;
  const items: [string, ReactNode][] = [];
  if (create) items.push(["Template", [create.template, approval.templateVersion].filter(Boolean).join(" ")]);
  if (update?.to !== undefined) items.push(["Version", update.to]);
  if (update?.rollback === true) items.push(["Back", "to before the last update"]);
  if (create?.kind === "real") items.push(["Bound to", Object.entries(create.bindings ?? {}).map(([binding, resource]) => `${binding}: ${resource}`).join(", ")]);
  for (const [name, amount] of Object.entries(size ?? {})) items.push([`Requests ${name}`, amount]);
  for (const [name, value] of Object.entries({ ...create?.parameters, ...update?.parameters })) items.push([name, <span key={name} className="mono">{typeof value === "string" ? value : JSON.stringify(value)}</span>]);
  return (
    <section className="stack tight">
      <h3>What is asked for</h3>
      <Facts items={items} />
    </section>
  );
}
