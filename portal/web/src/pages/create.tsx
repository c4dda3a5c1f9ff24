// A new environment: pick a template, say what differs from its defaults, go.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { approvalPath, needsReason, orApproval } from "../api/approvals";
import { json } from "../api/client";
import { permissionsQuery, projectsQuery, resourcesQuery, takenQuery, templateQuery, templateVersionsQuery, templatesQuery } from "../api/queries";
import type { Binding, CreateEnvironment, CreatePreview, Environment, EnvironmentKind, Resource, Template, TemplateVersion } from "../api/types";
import { plural, shell } from "../lib/format";
import { defaultText, nameProblem, parameterProblem, parameterValue } from "../lib/parameters";
import { navigate, useQueryValue } from "../lib/router";
import { Button, Copy, SelectField, TextArea, TextField } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Empty, ErrorNote, Loaded, Skeleton } from "../ui/feedback";
import { Page, Panel } from "../ui/page";
import { Changes } from "./changes";
import { ParameterField, bySection } from "./parameter-field";

export default function Create() {
  const templates = useQuery(templatesQuery);
  return (
    <Page title="New environment" crumbs={[{ label: "Environments", to: "/" }]}>
      <Loaded query={templates}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="templates" title="There are no templates">
              <p>Whoever runs this server adds them with --templates.</p>
            </Empty>
          ) : (
            <Wizard templates={list} />
          )
        }
      </Loaded>
    </Page>
  );
}

/** What differs from the template, as the server takes it. */
export function parametersOf(template: Template, texts: Record<string, string>): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const parameter of template.parameters) {
    const text = texts[parameter.name];
    if (text === undefined || text === "" || text === defaultText(parameter)) continue;
    given[parameter.name] = parameterValue(parameter, text);
  }
  return given;
}

function Wizard({ templates }: { templates: Template[] }) {
  const usable = templates.filter((template) => template.version !== "");
  const [chosen, setChosen] = useQueryValue("template", usable[0]?.name ?? "");
  const [name, setName] = useState("");
  const [nameTouched, setNameTouched] = useState(false);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [version, setVersion] = useState("");
  const [tried, setTried] = useState(false);
  const cache = useQueryClient();
  const projects = useQuery(projectsQuery);
  const [project, setProject] = useQueryValue("project");
  // A version or a channel of the template; nothing: the newest stable one.
  const [which, setWhich] = useQueryValue("version");
  const versions = useQuery({ ...templateVersionsQuery(chosen), enabled: chosen !== "" });
  const reference = which === "" ? chosen : `${chosen}@${which}`;
  const other = useQuery({ ...templateQuery(reference), enabled: which !== "" });
  const template = which === "" ? templates.find((each) => each.name === chosen) : other.data;
  const [kind, setKind] = useState<EnvironmentKind>("mocked");
  const [bindings, setBindings] = useState<Record<string, string>>({});
  const [expires, setExpires] = useState("");
  const needed = template?.bindings ?? [];
  const bound: Choices = needed.length === 0 || kind === "mocked" ? {} : { kind, bindings: Object.fromEntries(needed.map((each) => [each.name, bindings[each.name] ?? ""])) };
  const unbound = Object.values(bound.bindings ?? {}).includes("");
  const expiresError = expires === "" || /^(\d+[smhd])+$/.test(expires) ? undefined : "Write 12h, 7d or 1d12h";
  const versionError = version === "" || /^v?1\.\d+$/.test(version) ? undefined : "A minor version, such as 1.35";
  const may = useQuery(permissionsQuery({ project: project === "" ? "default" : project }));
  const missing = may.data?.includes("environments.create") === false ? `You need environments.create in ${project === "" ? "default" : project}: ask a maintainer of the project, or choose another one` : undefined;
  const named = useDeferredValue(nameProblem(name) === undefined ? name : "");
  const taken = useQuery(takenQuery(named)).data === true && named === name;
  const nameError = nameProblem(name) ?? (taken ? "There is one of that name" : undefined);
  const problems = useMemo(() => {
    const all = new Map<string, string>();
    for (const parameter of template?.parameters ?? []) {
      const problem = parameterProblem(parameter, texts[parameter.name] ?? defaultText(parameter));
      if (problem !== undefined) all.set(parameter.name, problem);
    }
    return all;
  }, [template, texts]);
  const [reason, setReason] = useState("");
  const create = useMutation({
    mutationFn: (body: CreateEnvironment) => orApproval<Environment>("/api/v1/environments", body),
    onSuccess: ({ made, approval }) => {
      if (approval) {
        navigate(approvalPath(approval));
        return;
      }
      cache.setQueryData(["environment", made.name], made);
      void cache.invalidateQueries({ queryKey: ["environments"] });
      navigate(`/environments/${made.name}`);
    },
  });
  const [shown, setShown] = useState<CreatePreview | null>(null);
  const look = useMutation({
    mutationFn: (body: CreateEnvironment) => json<CreatePreview>("/api/v1/preview", { method: "POST", json: body }),
    onSuccess: setShown,
  });
  const needsApproval = needsReason(create.error) || reason !== "";
  const wrong = nameError !== undefined || problems.size > 0 || unbound || expiresError !== undefined || versionError !== undefined;
  const ask = (then: (body: CreateEnvironment) => void): void => {
    setTried(true);
    setNameTouched(true);
    if (!template || wrong) {
      document.querySelector<HTMLElement>("[aria-invalid='true']")?.focus();
      return;
    }
    then({
      name,
      template: reference,
      parameters: parametersOf(template, texts),
      ...(version === "" ? {} : { kubernetesVersion: version }),
      ...(project === "" ? {} : { project }),
      ...(expires === "" ? {} : { expiresAfter: expires }),
      ...(reason === "" ? {} : { reason }),
      ...bound,
    });
  };
  const choose = (name: string): void => {
    setWhich("");
    setChosen(name);
  };
  return (
    <form
      className="two"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        ask(create.mutate);
      }}
    >
      <div className="stack">
        <Panel title="Template">
          <div className="choices" role="radiogroup" aria-label="Template">
            {templates.map((each) => (
              <label key={each.name} className="choice">
                <input type="radio" name="template" value={each.name} checked={each.name === chosen} disabled={each.version === ""} onChange={() => choose(each.name)} />
                <span className="name">
                  {each.name}
                  <span className="faint number">{each.version}</span>
                </span>
                <span className="soft">{each.version === "" ? each.description : each.title}</span>
              </label>
            ))}
          </div>
        </Panel>
        <Panel title="Settings">
          <div className="form">
            <SelectField label="Version" value={which} onChange={setWhich} hint="Of the template; it stays as it is until it is updated" options={versionOptions(versions.data ?? [], which)} />
            <TextField
              label="Name"
              value={name}
              required
              mono
              autoFocus
              hint="Also the name of its cluster"
              error={nameTouched ? nameError : undefined}
              onChange={(value) => {
                setName(value);
                setNameTouched(true);
              }}
            />
            {projects.data && projects.data.length > 1 && (
              <SelectField label="Project" value={project} onChange={setProject} hint="Whose quota it counts to, and whose members may use it" options={[{ value: "", label: "default" }, ...projects.data.filter((each) => each.name !== "default").map((each) => ({ value: each.name, label: each.name }))]} />
            )}
            <TextField label="Kubernetes version" value={version} onChange={setVersion} mono placeholder="the template's" hint="A minor version, such as 1.35" error={versionError} />
            <TextField label="Expires after" value={expires} onChange={setExpires} mono placeholder="as the template says" hint="Such as 12h or 7d; it is deleted then, unless it is extended" error={expiresError} />
          </div>
        </Panel>
        {which !== "" && other.isPending && <Skeleton />}
        {which !== "" && other.error && <ErrorNote error={other.error} retry={() => void other.refetch()} />}
        {needed.length > 0 && <Dependencies needed={needed} kind={kind} onKind={setKind} bindings={bindings} tried={tried} onBind={(binding, resource) => setBindings((all) => ({ ...all, [binding]: resource }))} />}
        {template &&
          bySection(template.parameters).map(([section, parameters]) => (
            <Panel key={`${template.name}/${section}`} title={section === "" ? "Parameters" : section}>
              <div className="form">
                {parameters.map((parameter) => (
                  <ParameterField
                    key={`${template.name}/${parameter.name}`}
                    parameter={parameter}
                    value={texts[parameter.name] ?? defaultText(parameter)}
                    error={tried || texts[parameter.name] !== undefined ? problems.get(parameter.name) : undefined}
                    onChange={(value) => setTexts((all) => ({ ...all, [parameter.name]: value }))}
                  />
                ))}
              </div>
            </Panel>
          ))}
      </div>
      <Panel title="Create">
        <div className="stack">
          {template && (
            <div className="stack tight">
              <h3>{template.title}</h3>
              <p className="soft">{template.description}</p>
            </div>
          )}
          {create.error && <ErrorNote error={create.error} />}
          {look.error && <ErrorNote error={look.error} />}
          {needsApproval && <TextArea label="Why you need it" value={reason} onChange={setReason} rows={3} required hint="Whoever approves it reads this" />}
          <Button kind="primary" type="submit" disabledReason={missing ?? (create.isPending ? "It is being asked for" : needsApproval && reason.trim() === "" ? "Say why you need it" : undefined)}>
            {create.isPending ? "Creating…" : needsApproval ? "Ask for approval" : "Create environment"}
          </Button>
          <Button disabledReason={missing ?? (look.isPending ? "The server is asked" : undefined)} onPress={() => ask(look.mutate)}>
            Show what it makes
          </Button>
          <div className="stack tight">
            <h3>The same from a shell</h3>
            <Copy label="Command" text={command(name, template && { ...template, name: reference }, texts, { version, project, expires, ...bound })} />
          </div>
        </div>
      </Panel>
      {shown && (
        <Dialog wide title={`What ${shown.environment.template} ${shown.environment.templateVersion} makes`} onClose={() => setShown(null)}>
          <p className="soft">{shown.changes.length === 0 ? "Its template makes no object." : `${plural(shown.changes.length, "object")}, in this order. Secrets are not shown.`}</p>
          <Changes changes={shown.changes} />
          <div className="buttons">
            <Button onPress={() => setShown(null)}>Close</Button>
          </div>
        </Dialog>
      )}
    </form>
  );
}

/** The channels of a template, each with the version that it means now, then its versions, newest first. */
export function versionOptions(versions: TemplateVersion[], chosen: string): { value: string; label: string }[] {
  const newest = (channel: string): string | undefined => versions.find((each) => each.channels.includes(channel))?.version;
  const stable = newest("stable");
  const channels = [...new Set(versions.flatMap((each) => each.channels))].filter((each) => each !== "stable").sort();
  const options = [
    { value: "", label: stable === undefined ? "stable" : `stable (now ${stable})` },
    ...channels.map((channel) => ({ value: channel, label: `${channel} (now ${newest(channel) ?? ""})` })),
    ...versions.map(({ version, channels: of }) => ({ value: version, label: of.length === 0 ? version : `${version} (${of.join(", ")})` })),
  ];
  // What an address asks for is shown, whether there is such a version or not.
  return options.some((each) => each.value === chosen) ? options : [...options, { value: chosen, label: chosen }];
}

/** Whether a template's dependencies are stand-ins or registered resources, and which. */
function Dependencies({ needed, kind, onKind, bindings, onBind, tried }: { needed: Binding[]; kind: EnvironmentKind; onKind: (kind: EnvironmentKind) => void; bindings: Record<string, string>; onBind: (binding: string, resource: string) => void; tried: boolean }) {
  const resources = useQuery(resourcesQuery);
  const of = (binding: Binding): Resource[] => (resources.data ?? []).filter((each) => each.kind === binding.kind);
  return (
    <Panel title="What it depends on">
      <div className="form">
        <SelectField
          label="Dependencies"
          value={kind}
          onChange={(value) => onKind(value as EnvironmentKind)}
          hint={kind === "mocked" ? "Stand-ins that the template runs and fills with data" : "Resources that are registered with this server; each is tried before the environment is made"}
          options={[
            { value: "mocked", label: "mocked" },
            { value: "real", label: "real" },
          ]}
        />
        {kind === "real" &&
          needed.map((binding) => (
            <SelectField
              key={binding.name}
              label={binding.name}
              value={bindings[binding.name] ?? ""}
              required
              hint={binding.help}
              error={of(binding).length === 0 && resources.data ? `No ${binding.kind} is registered: an administrator adds one under Administration` : tried && (bindings[binding.name] ?? "") === "" ? "Choose one" : undefined}
              onChange={(resource) => onBind(binding.name, resource)}
              options={[{ value: "", label: `Choose a ${binding.kind}…` }, ...of(binding).map((each) => ({ value: each.name, label: `${each.name} (${each.host}:${each.port})` }))]}
            />
          ))}
      </div>
    </Panel>
  );
}

export interface Choices {
  version?: string;
  project?: string;
  expires?: string;
  kind?: EnvironmentKind;
  bindings?: Record<string, string>;
}

/** The command that does the same; passwords are left for its reader to fill in. */
export function command(name: string, template: Template | undefined, texts: Record<string, string>, { version = "", project = "", expires = "", kind = "mocked", bindings = {} }: Choices = {}): string {
  const words = ["vctl", "create", shell(name === "" ? "NAME" : name), "--template", shell(template?.name ?? "TEMPLATE")];
  if (project !== "") words.push("--project", shell(project));
  if (version !== "") words.push("--kubernetes-version", shell(version));
  if (expires !== "") words.push("--expires-after", shell(expires));
  if (kind === "real") words.push("--kind", "real");
  for (const [binding, resource] of Object.entries(bindings)) words.push("--bind", shell(`${binding}=${resource === "" ? "RESOURCE" : resource}`));
  for (const [key, value] of Object.entries(template ? parametersOf(template, texts) : {})) {
    const secret = template?.parameters.some((p) => p.name === key && p.type === "password") === true;
    words.push("--set", shell(`${key}=${secret ? "PASSWORD" : typeof value === "string" ? value : JSON.stringify(value)}`));
  }
  return words.join(" ");
}
