// Another version of the template, or other parameters: what would change is shown first; and the way back.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Outcome, approvalPath, needsReason, orApproval } from "../../api/approvals";
import { Problem, json } from "../../api/client";
import { environmentPath, templateQuery, templateVersionsQuery } from "../../api/queries";
import type { Environment, Job, Parameter, Template, UpdateEnvironment, UpdatePreview } from "../../api/types";
import { plural, shell } from "../../lib/format";
import { useMay } from "../../lib/may";
import { type Choice, type Difference, differences, keyOf } from "../../lib/merging";
import { parameterProblem, parameterText, parameterValue } from "../../lib/parameters";
import { navigate, useQueryValue } from "../../lib/router";
import { Button, Copy, SelectField, TextArea } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { ErrorNote, Loaded, Note, toast } from "../../ui/feedback";
import { Merging } from "../../ui/merging";
import { Panel } from "../../ui/page";
import { Changes } from "../changes";
import { ParameterField, bySection } from "../parameter-field";

export function Update({ environment }: { environment: Environment }) {
  const versions = useQuery(templateVersionsQuery(environment.template));
  const [to, setTo] = useQueryValue("to", environment.templateVersion);
  const template = useQuery(templateQuery(`${environment.template}@${to}`));
  return (
    <div className="stack">
      {environment.phase !== "Ready" && environment.phase !== "Failed" && (
        <Note kind="busy" icon="info">
          <span>It is {environment.phase.toLowerCase()}: it can be updated when it is ready. What would change can be seen now.</span>
        </Note>
      )}
      <Panel title="Version">
        <Loaded query={versions} rows={2}>
          {(list) => (
            <div className="form">
              <SelectField
                label={`Version of ${environment.template}`}
                value={to}
                onChange={setTo}
                hint={`It has ${environment.templateVersion}`}
                options={[...new Set([...list.map((each) => each.version), environment.templateVersion])].map((version) => {
                  const channels = list.find((each) => each.version === version)?.channels ?? [];
                  const notes = [version === environment.templateVersion ? "now" : "", ...channels].filter(Boolean);
                  return { value: version, label: notes.length === 0 ? version : `${version} (${notes.join(", ")})` };
                })}
              />
            </div>
          )}
        </Loaded>
      </Panel>
      <Loaded query={template}>{(found) => <Parameters key={found.version} environment={environment} template={found} to={to} />}</Loaded>
    </div>
  );
}

/** What the form says that the environment does not have, as the server takes it. */
export function changedParameters(environment: Environment, parameters: Parameter[], texts: Record<string, string>): Record<string, unknown> {
  const changed: Record<string, unknown> = {};
  for (const parameter of parameters) {
    const text = texts[parameter.name];
    if (text === undefined || text === parameterText(parameter, environment.parameters[parameter.name])) continue;
    changed[parameter.name] = text === "" ? null : parameterValue(parameter, text);
  }
  return changed;
}

/** What both have changed: this form, and somebody else since it was begun. */
export function collisions(begun: Environment, now: Environment, parameters: Parameter[], texts: Record<string, string>): Difference[] {
  const mine = { ...begun.parameters, ...changedParameters(begun, parameters, texts) };
  return differences(begun.parameters, mine, now.parameters).filter((each) => each.whose === "conflict");
}

/** The command that does the same; passwords are left for its reader to fill in. */
export function updateCommand(environment: Environment, parameters: Parameter[], request: UpdateEnvironment): string {
  const settings = Object.entries(request.parameters ?? {}).map(([key, value]) => {
    if (value === null) return shell(`${key}=`);
    const secret = parameters.some((p) => p.name === key && p.type === "password");
    return shell(`${key}=${secret ? "PASSWORD" : typeof value === "string" ? value : JSON.stringify(value)}`);
  });
  const name = shell(environment.name);
  if (request.to === undefined) return ["vctl", "set", name, ...settings].join(" ");
  return ["vctl", "upgrade", name, "--to", shell(request.to), ...settings.flatMap((setting) => ["--set", setting])].join(" ");
}

/** What was asked for, what was there at that moment, and what the server says of it. */
interface Shown {
  request: UpdateEnvironment;
  from: Environment;
  preview: UpdatePreview;
}

function Parameters({ environment, template, to }: { environment: Environment; template: Template; to: string }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  // As it was when the first field was changed: what somebody else changes after that is not overwritten unasked.
  const [begun, setBegun] = useState<Environment | null>(null);
  const [choices, setChoices] = useState<Record<string, Choice>>({});
  const both = begun === null ? [] : collisions(begun, environment, template.parameters, texts);
  const change = (name: string, value: string): void => {
    setBegun((before) => before ?? environment);
    setTexts((all) => ({ ...all, [name]: value }));
  };
  /** Takes what was chosen: from now on the fields are changes of what is there now. */
  const settle = (): void => {
    const dropped = new Set(both.filter((each) => choices[keyOf(each)] === "theirs").map((each) => each.path[0]));
    setTexts((all) => Object.fromEntries(Object.entries(all).filter(([name]) => !dropped.has(name))));
    setBegun(environment);
    setChoices({});
  };
  const [shown, setShown] = useState<Shown | null>(null);
  const may = useMay({ environment: environment.name });
  const path = `${environmentPath(environment.name)}/update`;
  const look = useMutation({
    // What is there while the server is asked may be another thing when it has answered: that is told before anything is sent.
    mutationFn: async ({ request, from }: { request: UpdateEnvironment; from: Environment }): Promise<Shown> => ({ request, from, preview: await json<UpdatePreview>(`${path}/preview`, { method: "POST", json: request }) }),
    onSuccess: setShown,
  });
  const problems = useMemo(() => {
    const all = new Map<string, string>();
    for (const parameter of template.parameters) {
      const text = texts[parameter.name];
      const problem = text === undefined || text === "" ? undefined : parameterProblem(parameter, text);
      if (problem !== undefined) all.set(parameter.name, problem);
    }
    return all;
  }, [template, texts]);
  const request: UpdateEnvironment = { ...(to === environment.templateVersion ? {} : { to }), parameters: changedParameters(environment, template.parameters, texts) };
  const nothing = request.to === undefined && Object.keys(request.parameters ?? {}).length === 0 ? "Choose another version or change a parameter first" : undefined;
  const wrong = problems.size > 0 ? "A parameter is not right yet" : undefined;
  const missing = may("environments.update");
  const unsettled = both.length > 0 ? "Settle first what both of you have changed" : undefined;
  return (
    <>
      {both.length > 0 && (
        <Panel title="Two changes of one thing">
          <div className="stack">
            <Merging differences={both} choices={choices} onChoose={setChoices} />
            <div className="buttons">
              <Button kind="primary" disabledReason={both.some((each) => choices[keyOf(each)] === undefined) ? "Choose for every field first" : undefined} onPress={settle}>
                Take this
              </Button>
            </div>
          </div>
        </Panel>
      )}
      {bySection(template.parameters).map(([section, parameters]) => (
        <Panel key={section} title={section === "" ? "Parameters" : section}>
          <div className="form">
            {parameters.map((parameter) => (
              <ParameterField
                key={parameter.name}
                parameter={{ ...parameter, required: false, help: parameter.type === "password" ? `${parameter.help}; stays as it is when nothing is given` : parameter.help }}
                value={texts[parameter.name] ?? parameterText(parameter, environment.parameters[parameter.name])}
                error={problems.get(parameter.name)}
                onChange={(value) => change(parameter.name, value)}
              />
            ))}
          </div>
        </Panel>
      ))}
      {look.error && <ErrorNote error={look.error} />}
      <div className="toolbar">
        <Button kind="primary" disabledReason={missing ?? unsettled ?? wrong ?? nothing ?? (look.isPending ? "The server is asked" : undefined)} onPress={() => look.mutate({ request, from: environment })}>
          Show what would change
        </Button>
        <Button icon="turning" disabledReason={missing ?? (look.isPending ? "The server is asked" : undefined)} onPress={() => look.mutate({ request: { rollback: true }, from: environment })}>
          Back to before the last update
        </Button>
      </div>
      {nothing === undefined && <Copy label="The same from a shell" text={updateCommand(environment, template.parameters, request)} />}
      {shown && <Review environment={environment} path={path} {...shown} onClose={() => setShown(null)} />}
    </>
  );
}

/** What an update is made from: the rest of an environment changes by itself. */
const basisOf = ({ templateVersion, parameters, kind, bindings }: Environment) => ({ templateVersion, parameters, kind, bindings });

/** Updates what was shown; `learn` is told what is there instead when somebody else was faster. */
async function sendUpdate(path: string, shown: Environment, request: UpdateEnvironment, learn: (now: Environment) => void): Promise<Outcome<Job>> {
  let from = shown;
  for (;;) {
    try {
      return await orApproval<Job>(path, request, { "if-match": `"${from.revision}"` });
    } catch (caught) {
      if (!(caught instanceof Problem) || caught.status !== 412 || caught.current === undefined) throw caught;
      const now = caught.current as Environment;
      if (differences(basisOf(shown), basisOf(shown), basisOf(now)).length > 0) {
        learn(now);
        throw new Error("Somebody else has updated it meanwhile. Close this: what both of you have changed is shown, and what would change now.", { cause: caught });
      }
      if (now.revision === from.revision) throw caught;
      from = now;
    }
  }
}

function Review({ environment, path, request, from, preview, onClose }: Shown & { environment: Environment; path: string; onClose: () => void }) {
  const cache = useQueryClient();
  const [reason, setReason] = useState("");
  const apply = useMutation({
    mutationFn: () => sendUpdate(path, from, { ...request, ...(reason === "" ? {} : { reason }) }, (now) => cache.setQueryData(["environment", environment.name], now)),
    onSuccess: async ({ approval }) => {
      if (approval) {
        navigate(approvalPath(approval));
        return;
      }
      toast(`${environment.name} is being brought to ${preview.to}`);
      navigate(`/environments/${environment.name}`);
      await cache.invalidateQueries({ queryKey: ["environment", environment.name] });
    },
  });
  const needsApproval = needsReason(apply.error) || reason !== "";
  const busy = environment.phase === "Ready" || environment.phase === "Failed" ? undefined : `It is ${environment.phase.toLowerCase()}: wait until it is ready`;
  return (
    <Dialog wide title={request.rollback === true ? `Back to ${preview.to}` : preview.from === preview.to ? "Other parameters" : `From ${preview.from} to ${preview.to}`} onClose={onClose}>
      <p className="soft">{preview.changes.length === 0 ? "No object of the template would change." : `${plural(preview.changes.length, "object")} of the template would change, in this order. What people made themselves stays.`}</p>
      <Changes changes={preview.changes} />
      {apply.error && <ErrorNote error={apply.error} />}
      {needsApproval && <TextArea label="Why you need it" value={reason} onChange={setReason} rows={3} required hint="Whoever approves it reads this" />}
      <div className="buttons">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" disabledReason={busy ?? (apply.isPending ? "It is being asked for" : needsApproval && reason.trim() === "" ? "Say why you need it" : undefined)} onPress={() => apply.mutate()}>
          {needsApproval ? "Ask for approval" : request.rollback === true ? "Roll back" : "Update"}
        </Button>
      </div>
    </Dialog>
  );
}
