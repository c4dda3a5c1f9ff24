import { useQuery } from "@tanstack/react-query";
import { templatesQuery } from "../api/queries";
import type { Parameter, Template } from "../api/types";
import { Link } from "../lib/router";
import { Empty, Loaded, Note } from "../ui/feedback";
import { Icon } from "../ui/icons";
import { Page, Panel } from "../ui/page";

export default function Templates() {
  const query = useQuery(templatesQuery);
  return (
    <Page title="Templates" sub="What environments are made from.">
      <Loaded query={query}>
        {(templates) => (templates.length === 0 ? <Empty icon="templates" title="No templates" /> : <div className="columns">{templates.map((template) => <One key={template.name} template={template} />)}</div>)}
      </Loaded>
    </Page>
  );
}

function One({ template }: { template: Template }) {
  const broken = template.version === "";
  return (
    <Panel
      title={
        <>
          {template.name} <span className="faint number">{template.version}</span>
        </>
      }
      actions={
        broken ? undefined : (
          <Link to={`/create?template=${encodeURIComponent(template.name)}`} className="button small">
            <Icon name="plus" /> Use
          </Link>
        )
      }
    >
      <div className="stack">
        {broken ? (
          <Note kind="bad" icon="warning">
            {template.description}
          </Note>
        ) : (
          <div className="stack tight">
            <p>{template.title}</p>
            <p className="soft">{template.description}</p>
          </div>
        )}
        {template.parameters.length > 0 && (
          <dl className="facts">
            {template.parameters.map((parameter) => (
              <div key={parameter.name} style={{ display: "contents" }}>
                <dt className="mono">{parameter.name}</dt>
                <dd>
                  {parameter.help} <span className="faint">{range(parameter)}</span>
                </dd>
              </div>
            ))}
          </dl>
        )}
      </div>
    </Panel>
  );
}

function range(parameter: Parameter): string {
  const parts: string[] = [parameter.type];
  if (parameter.required) parts.push("required");
  if (parameter.choices) parts.push(parameter.choices.join(" | "));
  if (parameter.minimum !== undefined || parameter.maximum !== undefined) parts.push(`${parameter.minimum ?? "…"} to ${parameter.maximum ?? "…"}`);
  if (parameter.default !== undefined && parameter.default !== null && parameter.default !== "") parts.push(`default ${JSON.stringify(parameter.default)}`);
  return parts.join(", ");
}
