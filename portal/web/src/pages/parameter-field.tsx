// The field of a parameter of a template.
import type { Parameter } from "../api/types";
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
