// Projects: who belongs to them with which role, and how much of their quota is used.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import { type Merge, replace, replaceAnyway } from "../api/edit";
import { projectPath, projectsQuery, templatesQuery, usageQuery } from "../api/queries";
import type { Member, Project, ProjectSettings, Quota } from "../api/types";
import { useMay } from "../lib/may";
import { Link } from "../lib/router";
import { Button, Menu, TextField } from "../ui/controls";
import { Confirm } from "../ui/dialog";
import { Empty, ErrorNote, Loaded, toast } from "../ui/feedback";
import { FormDialog, words } from "../ui/form";
import { LimitBar, NoLimit, limitName } from "../ui/meter";
import { Facts, Page, Panel } from "../ui/page";
import { AddMember, Members, alike } from "./members";
import { AmountFields, QuotaFields, quotaOf, quotaProblem, quotaText, quotaTexts } from "./quota";

export default function Projects() {
  const query = useQuery(projectsQuery);
  const may = useMay({});
  const [creating, setCreating] = useState(false);
  return (
    <Page
      title="Projects"
      sub="Who may do what, and how much of it."
      actions={
        <Button icon="plus" kind="primary" disabledReason={may("projects.create")} onPress={() => setCreating(true)}>
          New project
        </Button>
      }
    >
      <Loaded query={query}>
        {(projects) =>
          projects.length === 0 ? (
            <Empty icon="projects" title="You belong to no project">
              <p>Ask a maintainer of one to add you.</p>
            </Empty>
          ) : (
            <div className="columns">
              {projects.map((project) => (
                <One key={project.name} project={project} />
              ))}
            </div>
          )
        }
      </Loaded>
      {creating && <Create onClose={() => setCreating(false)} />}
    </Page>
  );
}

const settingsOf = ({ title, members, allowedTemplates, allowedImages, allowedWorkers, allowedResources, quota, memberQuota, environmentQuota }: Project): ProjectSettings => ({ title, members, allowedTemplates, allowedImages, allowedWorkers, allowedResources, quota, memberQuota, environmentQuota });

function One({ project }: { project: Project }) {
  const [asked, setAsked] = useState<"member" | "limits" | "delete" | null>(null);
  const [error, setError] = useState<unknown>();
  const cache = useQueryClient();
  const may = useMay({ project: project.name });
  const missing = may("projects.update");
  const changed = async (what: Promise<void>, said: string): Promise<void> => {
    try {
      setError(undefined);
      await what;
      toast(said);
    } finally {
      await cache.invalidateQueries({ queryKey: ["projects"] });
      await cache.invalidateQueries({ queryKey: ["usage", project.name] });
    }
  };
  const members = (list: Member[], said: string): Promise<void> => changed(replaceAnyway(projectPath(project.name), project, { ...settingsOf(project), members: list }, settingsOf), said);
  const close = (): void => setAsked(null);
  return (
    <Panel
      title={project.name}
      actions={
        <>
          <Button small icon="plus" disabledReason={missing} onPress={() => setAsked("member")}>
            Member
          </Button>
          <Menu
            label={`More actions for ${project.name}`}
            entries={[
              { id: "limits", label: "Title and limits", icon: "settings", disabledReason: missing, onAction: () => setAsked("limits") },
              { id: "delete", label: "Delete", icon: "trash", danger: true, disabledReason: project.name === "default" ? "This project always exists" : may("projects.delete"), onAction: () => setAsked("delete") },
            ]}
          />
        </>
      }
    >
      <div className="stack">
        {project.title !== "" && <p className="soft">{project.title}</p>}
        {error !== undefined && <ErrorNote error={error} />}
        <UsageBars project={project.name} />
        <div className="stack tight">
          <h3>Members</h3>
          <Members members={project.members} missing={missing} onRemove={(member) => void members(project.members.filter((each) => !alike(each, member)), `${member.name} was removed from ${project.name}`).catch(setError)} />
        </div>
        {(project.allowedTemplates.length + project.allowedImages.length + project.allowedWorkers.length + project.allowedResources.length > 0 || quotaText(project.environmentQuota) !== "no limit") && (
          <Facts
            items={[
              ["Templates", allowed(project.allowedTemplates)],
              ["Images", allowed(project.allowedImages)],
              ["Workers", allowed(project.allowedWorkers)],
              ["Resources", allowed(project.allowedResources)],
              ["Each environment", quotaText(project.environmentQuota)],
            ]}
          />
        )}
        <p>
          <Link to={`/create?project=${encodeURIComponent(project.name)}`}>New environment in {project.name}</Link>
        </p>
      </div>
      {asked === "member" && <AddMember place={project.name} onClose={close} onAdd={(member) => members([...project.members.filter((each) => !alike(each, member)), member], `${member.name} has the role ${member.role} in ${project.name}`)} />}
      {asked === "limits" && <Limits shown={project} quotaReason={may("projects.quota")} onClose={close} onChange={(what) => changed(what, `${project.name} was changed`)} />}
      {asked === "delete" && (
        <Confirm
          title={`Delete project ${project.name}?`}
          typed={project.name}
          verb="Delete"
          onClose={close}
          onConfirm={async () => {
            await send(projectPath(project.name), { method: "DELETE" });
            toast(`${project.name} was deleted`);
            await cache.invalidateQueries({ queryKey: ["projects"] });
          }}
        >
          Its members lose what they have by it. It must have no environments.
        </Confirm>
      )}
    </Panel>
  );
}

const allowed = (names: string[]): string => (names.length === 0 ? "all" : names.join(", "));

function UsageBars({ project }: { project: string }) {
  const query = useQuery(usageQuery(project));
  if (query.error) return <ErrorNote error={query.error} retry={() => void query.refetch()} />;
  if (!query.data) return null;
  const { used, limits } = query.data;
  const free: [string, string][] = [
    ["environments", String(used.environments)],
    ["awake", String(used.awake)],
    ["cpu", used.cpu],
    ["memory", used.memory],
    ["storage", used.storage],
  ];
  const own = limits.filter((each) => each.holder === "project");
  return (
    <div className="stack tight">
      {free.map(([what, text]) => {
        const limit = own.find((each) => each.what === what);
        return limit ? <LimitBar key={what} limit={limit} /> : <NoLimit key={what} label={limitName(what)} used={text} />;
      })}
      {own
        .filter((each) => each.what.startsWith("template "))
        .map((each) => (
          <LimitBar key={each.what} limit={each} />
        ))}
      {limits
        .filter((each) => each.holder !== "project")
        .map((each) => (
          <LimitBar key={`${each.holder} ${each.name} ${each.what}`} limit={each} />
        ))}
    </div>
  );
}

function Limits({ shown, quotaReason, onChange, onClose }: { shown: Project; quotaReason: string | undefined; onChange: (what: Promise<void>) => Promise<void>; onClose: () => void }) {
  // As it was when the form was opened: what is read meanwhile has another revision, and is not what the fields began with.
  const [project] = useState(shown);
  const templates = useQuery(templatesQuery);
  const [title, setTitle] = useState(project.title);
  const [templateNames, setTemplateNames] = useState(project.allowedTemplates.join(", "));
  const [images, setImages] = useState(project.allowedImages.join(", "));
  const [workers, setWorkers] = useState(project.allowedWorkers.join(", "));
  const [resources, setResources] = useState(project.allowedResources.join(", "));
  const [quota, setQuota] = useState(() => quotaTexts(project.quota));
  const [member, setMember] = useState(() => quotaTexts(project.memberQuota));
  const [each, setEach] = useState(() => quotaTexts(project.environmentQuota));
  const unknown = words(templateNames).filter((each) => templates.data?.some((template) => template.name === each) === false);
  const unknownText = unknown.length === 0 ? undefined : `There is no template ${unknown.join(", ")}`;
  const quotas: { quota?: Quota } = quotaReason === undefined ? { quota: quotaOf(quota) } : {};
  const save = (merge?: Merge): Promise<void> => {
    const settings: ProjectSettings = { ...settingsOf(project), title, allowedTemplates: words(templateNames), allowedImages: words(images), allowedWorkers: words(workers), allowedResources: words(resources), memberQuota: quotaOf(member), environmentQuota: quotaOf(each), ...quotas };
    return replace(projectPath(project.name), project, settings, settingsOf, merge);
  };
  return (
    <FormDialog
      title={`Title and limits of ${project.name}`}
      verb="Change"
      problem={unknownText ?? quotaProblem(quota) ?? quotaProblem(member) ?? quotaProblem(each)}
      onClose={onClose}
      onSubmit={(merge) => onChange(save(merge))}
    >
      <TextField label="Title" value={title} onChange={setTitle} autoFocus />
      <TextField label="Allowed templates" value={templateNames} onChange={setTemplateNames} error={unknownText} hint="With commas; empty allows all" mono />
      <TextField label="Allowed images" value={images} onChange={setImages} hint="Patterns such as docker.io/library/* or registry.example.com/team/*; empty allows all. New pods are held to it at once" mono />
      <TextField label="Allowed workers" value={workers} onChange={setWorkers} hint="Names or patterns such as gpu-*; empty allows all" mono />
      <TextField label="Allowed resources" value={resources} onChange={setResources} hint="Names of registered resources, with commas; empty allows all" mono />
      <h3>All its environments together</h3>
      {quotaReason === undefined ? <QuotaFields texts={quota} onChange={setQuota} /> : <p className="faint">{quotaReason}.</p>}
      <h3>Each member</h3>
      <QuotaFields texts={member} onChange={setMember} />
      <h3>Each environment</h3>
      <AmountFields texts={each} onChange={setEach} />
    </FormDialog>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [title, setTitle] = useState("");
  const cache = useQueryClient();
  const wrong = /^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(name) && name.length <= 63 ? undefined : "Lower-case letters, digits and -, beginning with a letter";
  return (
    <FormDialog
      title="New project"
      verb="Create"
      problem={name === "" ? "Give it a name" : wrong}
      onClose={onClose}
      onSubmit={async () => {
        await send("/api/v1/projects", { method: "POST", json: { name, title } });
        toast(`${name} was created: add its members`);
        await cache.invalidateQueries({ queryKey: ["projects"] });
      }}
    >
      <TextField label="Name" value={name} onChange={setName} error={name === "" ? undefined : wrong} required autoFocus mono />
      <TextField label="Title" value={title} onChange={setTitle} />
    </FormDialog>
  );
}
