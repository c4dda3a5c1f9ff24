// The field of a parameter of a template.
import { useQuery } from "@tanstack/react-query";
import { resourcesQuery } from "../api/queries";
import type { Parameter, ResourceKind } from "../api/types";
import { SelectField, Switch, TextArea, TextField } from "../ui/controls";

/** The parameters under their headings, both in the order of the template. */
export function bySection(parameters: Parameter[]): [string, Parameter[]][] {
  const sections = new Map<string, Parameter[]>();
  for (const parameter of parameters) sections.set(parameter.section ?? "", [...(sections.get(parameter.section ?? "") ?? []), parameter]);
  return [...sections];
}

export function ParameterField({ parameter, value, error, onChange }: { parameter: Parameter; value: string; error: string | undefined; onChange: (value: string) => void }) {
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
    case "resource":
      return <ResourceField {...common} kind={parameter.resourceKind} />;
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

/** A registered resource, by its name; one that is not there any more is still shown. */
function ResourceField({ kind, error, ...field }: { kind: ResourceKind | undefined; label: string; value: string; onChange: (value: string) => void; error: string | undefined; hint: string; required: boolean }) {
  const resources = useQuery(resourcesQuery);
  const usable = (resources.data ?? []).filter((each) => kind === undefined || each.kind === kind);
  const what = kind ?? "resource";
  const gone = field.value !== "" && !usable.some((each) => each.name === field.value);
  return (
    <SelectField
      {...field}
      error={error ?? (field.required && usable.length === 0 && resources.data ? `No ${what} is registered: an administrator adds one under Administration` : undefined)}
      options={[
        { value: "", label: field.required ? `Choose a ${what}…` : "none" },
        ...(gone ? [{ value: field.value, label: field.value }] : []),
        ...usable.map((each) => ({ value: each.name, label: `${each.name} (${kind === undefined ? `${each.kind}, ` : ""}${each.host}:${each.port})` })),
      ]}
    />
  );
}
