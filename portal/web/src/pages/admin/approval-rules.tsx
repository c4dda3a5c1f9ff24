// Rules for what needs approval, in all projects or in those that they name.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../../api/client";
import { type Merge, putNew, replace } from "../../api/edit";
import { approvalRulesQuery } from "../../api/queries";
import type { ApprovalRule } from "../../api/types";
import { useMay } from "../../lib/may";
import { Button, Menu, SelectField, Switch, TextField } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Empty, Loaded, toast } from "../../ui/feedback";
import { FormDialog, words } from "../../ui/form";
import { Facts, Panel } from "../../ui/page";

const rulePath = (name: string): string => `/api/v1/approval-rules/${encodeURIComponent(name)}`;

/** What a rule counts for, in one line for each of its conditions. */
export function conditionsOf(rule: ApprovalRule): [string, string][] {
  const lines: [string, string][] = [
    ["Projects", rule.projects?.join(", ") || "all"],
    ["Templates", rule.templates?.join(", ") || "all"],
    ["For", rule.operations?.join(", ") || "create, update"],
  ];
  if (rule.kind !== undefined) lines.push(["Kind", rule.kind]);
  const { environments, ...amounts } = rule.largerThan ?? {};
  const larger = Object.entries(amounts).map(([what, amount]) => `${what} ${amount}`);
  if (environments !== undefined) larger.push(`${environments} environments of one person`);
  if (larger.length > 0) lines.push(["Larger than", larger.join(" or ")]);
  lines.push(["Who decides", `${rule.approvals} of the ${rule.approvers}${rule.allowOwn ? ", also about their own" : ""}`]);
  lines.push(["Answer within", rule.answerWithin ?? "7d"], ["Granted for", rule.grant ?? "1d"]);
  return lines;
}

export function ApprovalRules() {
  const query = useQuery(approvalRulesQuery);
  const [editing, setEditing] = useState<ApprovalRule | "new" | null>(null);
  const [removing, setRemoving] = useState<ApprovalRule | null>(null);
  const cache = useQueryClient();
  const missing = useMay({})("platform.update");
  return (
    <div className="stack">
      <div className="toolbar">
        <Button icon="plus" disabledReason={missing} onPress={() => setEditing("new")}>
          New rule
        </Button>
      </div>
      <Loaded query={query}>
        {(rules) =>
          rules.length === 0 ? (
            <Empty icon="approvals" title="Nothing needs approval">
              <p>A rule holds what it describes until somebody says yes.</p>
            </Empty>
          ) : (
            <div className="columns">
              {rules.map((rule) => (
                <Panel
                  key={rule.name}
                  title={rule.name}
                  actions={
                    <Menu
                      label={`Actions for ${rule.name}`}
                      entries={[
                        { id: "edit", label: "Change", icon: "edit", disabledReason: missing, onAction: () => setEditing(rule) },
                        { id: "delete", label: "Delete", icon: "trash", danger: true, disabledReason: missing, onAction: () => setRemoving(rule) },
                      ]}
                    />
                  }
                >
                  <div className="stack tight">
                    {rule.title !== "" && <p className="soft">{rule.title}</p>}
                    <Facts items={conditionsOf(rule)} />
                  </div>
                </Panel>
              ))}
            </div>
          )
        }
      </Loaded>
      {editing !== null && <Edit rule={editing === "new" ? undefined : editing} taken={query.data?.map((each) => each.name) ?? []} onClose={() => setEditing(null)} />}
      {removing && (
        <Confirm
          title={`Delete rule ${removing.name}?`}
          typed={removing.name}
          verb="Delete"
          onClose={() => setRemoving(null)}
          onConfirm={async () => {
            await send(rulePath(removing.name), { method: "DELETE" });
            toast(`${removing.name} was deleted`);
            await cache.invalidateQueries({ queryKey: ["approval-rules"] });
          }}
        >
          What it describes needs no approval any more, unless another rule says so.
        </Confirm>
      )}
    </div>
  );
}

const PERIOD = /^(\d+[smhd])+$/;
const COUNT = /^\d{1,6}$/;

/** What a rule says, without what the server keeps about it. */
const settingsOf = (rule: ApprovalRule): object => Object.fromEntries(Object.entries(rule).filter(([key]) => !["name", "project", "revision"].includes(key)));

function Edit({ rule, taken, onClose }: { rule: ApprovalRule | undefined; taken: string[]; onClose: () => void }) {
  const [texts, setTexts] = useState({
    name: rule?.name ?? "",
    title: rule?.title ?? "",
    projects: rule?.projects?.join(", ") ?? "",
    templates: rule?.templates?.join(", ") ?? "",
    kind: rule?.kind ?? "",
    cpu: rule?.largerThan?.cpu ?? "",
    memory: rule?.largerThan?.memory ?? "",
    storage: rule?.largerThan?.storage ?? "",
    environments: rule?.largerThan?.environments === undefined ? "" : String(rule.largerThan.environments),
    operation: rule?.operations?.length === 1 ? (rule.operations[0] ?? "") : "",
    approvers: rule?.approvers ?? "project",
    approvals: String(rule?.approvals ?? 1),
    answerWithin: rule?.answerWithin ?? "",
    grant: rule?.grant ?? "",
  });
  const [allowOwn, setAllowOwn] = useState(rule?.allowOwn ?? false);
  const cache = useQueryClient();
  const field = (key: keyof typeof texts, label: string, more: { hint?: string; placeholder?: string; error?: string | undefined } = {}) => (
    <TextField label={label} value={texts[key]} onChange={(value) => setTexts((all) => ({ ...all, [key]: value }))} mono={key !== "title"} {...more} />
  );
  const choice = (key: keyof typeof texts, label: string, options: [string, string][]) => (
    <SelectField label={label} value={texts[key]} onChange={(value) => setTexts((all) => ({ ...all, [key]: value }))} options={options.map(([value, text]) => ({ value, label: text }))} />
  );
  const period = (text: string): string | undefined => (text === "" || PERIOD.test(text) ? undefined : "Write 12h or 7d");
  const count = texts.environments === "" || COUNT.test(texts.environments) ? undefined : "A whole number, or nothing";
  const name = texts.name === "" ? "Give it a name" : !rule && taken.includes(texts.name) ? "There is one of that name" : undefined;
  const save = async (merge?: Merge): Promise<void> => {
    const larger = {
      ...(texts.cpu === "" ? {} : { cpu: texts.cpu }),
      ...(texts.memory === "" ? {} : { memory: texts.memory }),
      ...(texts.storage === "" ? {} : { storage: texts.storage }),
      ...(texts.environments === "" ? {} : { environments: Number(texts.environments) }),
    };
    const body = {
      title: texts.title,
      projects: words(texts.projects),
      templates: words(texts.templates),
      ...(texts.kind === "" ? {} : { kind: texts.kind }),
      operations: texts.operation === "" ? [] : [texts.operation],
      ...(Object.keys(larger).length === 0 ? {} : { largerThan: larger }),
      approvers: texts.approvers,
      approvals: Number(texts.approvals),
      allowOwn,
      ...(texts.answerWithin === "" ? {} : { answerWithin: texts.answerWithin }),
      ...(texts.grant === "" ? {} : { grant: texts.grant }),
    };
    try {
      if (rule) await replace(rulePath(rule.name), rule, body, settingsOf, merge);
      else await putNew(rulePath(texts.name), body);
      toast(rule ? `${rule.name} was changed: what waits is looked at again` : `${texts.name} counts from now on`);
    } finally {
      await cache.invalidateQueries({ queryKey: ["approval-rules"] });
    }
  };
  return (
    <FormDialog wide title={rule ? `Change ${rule.name}` : "New rule"} verb={rule ? "Change" : "Create"} problem={name ?? count ?? period(texts.answerWithin) ?? period(texts.grant)} onClose={onClose} onSubmit={save}>
      <div className="form">
        {!rule && field("name", "Name", { error: texts.name === "" ? undefined : name })}
        {field("title", "Title", { hint: "For those who have to wait" })}
        {field("projects", "Projects", { placeholder: "all", hint: "With commas" })}
        {field("templates", "Templates", { placeholder: "all", hint: "With commas" })}
        {choice("kind", "Kind", [["", "any"], ["mocked", "mocked"], ["real", "real"]])}
        {choice("operation", "What is done", [["", "create and update"], ["create", "create"], ["update", "update"]])}
      </div>
      <h3>Only what is larger than one of these</h3>
      <div className="form">
        {field("cpu", "Processors", { placeholder: "any", hint: "Such as 4 or 500m" })}
        {field("memory", "Memory", { placeholder: "any", hint: "Such as 8Gi" })}
        {field("storage", "Storage", { placeholder: "any", hint: "Such as 50Gi" })}
        {field("environments", "Environments of one person", { placeholder: "any", error: count })}
      </div>
      <h3>Who decides</h3>
      <div className="form">
        {choice("approvers", "Where they must be able to", [["project", "in the project"], ["platform", "on the platform"]])}
        {choice("approvals", "How many people", ["1", "2", "3", "4", "5"].map((each): [string, string] => [each, each]))}
        {field("answerWithin", "Ends without an answer after", { placeholder: "7d", error: period(texts.answerWithin) })}
        {field("grant", "Can be carried out for", { placeholder: "1d", error: period(texts.grant) })}
        <div className="field">
          <span className="label">Own requests</span>
          <Switch selected={allowOwn} onChange={setAllowOwn}>
            Who decides may approve their own
          </Switch>
        </div>
      </div>
    </FormDialog>
  );
}
