// A new environment: pick a template, say what differs from its defaults, go.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { json } from "../api/client";
import { environmentsQuery, projectsQuery, templatesQuery } from "../api/queries";
import type { CreateEnvironment, Environment, Parameter, Template } from "../api/types";
import { shell } from "../lib/format";
import { defaultText, nameProblem, parameterProblem, parameterValue } from "../lib/parameters";
import { navigate, useQueryValue } from "../lib/router";
import { Button, Copy, SelectField, Switch, TextArea, TextField } from "../ui/controls";
import { Empty, ErrorNote, Loaded } from "../ui/feedback";
import { Page, Panel } from "../ui/page";

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
  const environments = useQuery(environmentsQuery);
  const projects = useQuery(projectsQuery);
  const [project, setProject] = useQueryValue("project");
  const template = templates.find((each) => each.name === chosen);
  const taken = environments.data?.some((e) => e.name === name) === true;
  const nameError = nameProblem(name) ?? (taken ? "There is one of that name" : undefined);
  const problems = useMemo(() => {
    const all = new Map<string, string>();
    for (const parameter of template?.parameters ?? []) {
      const problem = parameterProblem(parameter, texts[parameter.name] ?? defaultText(parameter));
      if (problem !== undefined) all.set(parameter.name, problem);
    }
    return all;
  }, [template, texts]);
  const create = useMutation({
    mutationFn: (body: CreateEnvironment) => json<Environment>("/api/v1/environments", { method: "POST", json: body }),
    onSuccess: (environment) => {
      cache.setQueryData(["environment", environment.name], environment);
      void cache.invalidateQueries({ queryKey: ["environments"] });
      navigate(`/environments/${environment.name}`);
    },
  });
  const wrong = nameError !== undefined || problems.size > 0;
  const submit = (): void => {
    setTried(true);
    setNameTouched(true);
    if (!template || wrong) {
      document.querySelector<HTMLElement>("[aria-invalid='true']")?.focus();
      return;
    }
    create.mutate({ name, template: template.name, parameters: parametersOf(template, texts), ...(version === "" ? {} : { kubernetesVersion: version }), ...(project === "" ? {} : { project }) });
  };
  return (
    <form
      className="two"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div className="stack">
        <Panel title="Template">
          <div className="choices" role="radiogroup" aria-label="Template">
            {templates.map((each) => (
              <label key={each.name} className="choice">
                <input type="radio" name="template" value={each.name} checked={each.name === chosen} disabled={each.version === ""} onChange={() => setChosen(each.name)} />
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
            <TextField label="Kubernetes version" value={version} onChange={setVersion} mono placeholder="the template's" hint="A minor version, such as 1.35" error={version === "" || /^v?1\.\d+$/.test(version) ? undefined : "A minor version, such as 1.35"} />
          </div>
        </Panel>
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
          <Button kind="primary" type="submit" disabledReason={create.isPending ? "It is being asked for" : undefined}>
            {create.isPending ? "Creating…" : "Create environment"}
          </Button>
          <div className="stack tight">
            <h3>The same from a shell</h3>
            <Copy label="Command" text={command(name, template, texts, version, project)} />
          </div>
        </div>
      </Panel>
    </form>
  );
}

/** The parameters under their headings, both in the order of the template. */
export function bySection(parameters: Parameter[]): [string, Parameter[]][] {
  const sections = new Map<string, Parameter[]>();
  for (const parameter of parameters) sections.set(parameter.section ?? "", [...(sections.get(parameter.section ?? "") ?? []), parameter]);
  return [...sections];
}

/** The command that does the same; passwords are left for its reader to fill in. */
export function command(name: string, template: Template | undefined, texts: Record<string, string>, version: string, project = ""): string {
  const words = ["vctl", "create", shell(name === "" ? "NAME" : name), "--template", shell(template?.name ?? "TEMPLATE")];
  if (project !== "") words.push("--project", shell(project));
  if (version !== "") words.push("--kubernetes-version", shell(version));
  for (const [key, value] of Object.entries(template ? parametersOf(template, texts) : {})) {
    const secret = template?.parameters.some((p) => p.name === key && p.type === "password") === true;
    words.push("--set", shell(`${key}=${secret ? "PASSWORD" : typeof value === "string" ? value : JSON.stringify(value)}`));
  }
  return words.join(" ");
}

function ParameterField({ parameter, value, error, onChange }: { parameter: Parameter; value: string; error: string | undefined; onChange: (value: string) => void }) {
  const common = { label: parameter.title ?? parameter.name, value, onChange, error, hint: parameter.help, required: parameter.required && parameter.default === undefined };
  switch (parameter.type) {
    case "boolean":
      return (
        <div className="field">
          <span className="label">{common.label}</span>
          <Switch selected={value === "true"} onChange={(selected) => onChange(String(selected))}>
            {parameter.help || common.label}
          </Switch>
        </div>
      );
    case "choice":
      return <SelectField {...common} options={[...(value === "" ? [{ value: "", label: "Choose…" }] : []), ...(parameter.choices ?? []).map((choice) => ({ value: choice, label: choice }))]} />;
    case "number":
      return <TextField {...common} inputMode="decimal" />;
    case "password":
      return <TextField {...common} type="password" />;
    case "text":
    case "multiline":
      return (
        <div className="wide">
          <TextArea {...common} />
        </div>
      );
    default:
      return <TextField {...common} />;
  }
}
