// Projects: who belongs to them with which role, and how much of their quota is used.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Problem, send } from "../api/client";
import { projectPath, projectsQuery, rolesQuery, usageQuery } from "../api/queries";
import type { Member, MemberKind, Project, ProjectSettings } from "../api/types";
import { Link } from "../lib/router";
import { Button, Choice, TextField } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Empty, ErrorNote, Loaded, toast } from "../ui/feedback";
import { Facts, Page, Panel } from "../ui/page";

export default function Projects() {
  const query = useQuery(projectsQuery);
  return (
    <Page title="Projects" sub="Who may do what, and how much of it.">
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
    </Page>
  );
}

const alike = (a: Member, b: Member): boolean => a.kind === b.kind && a.name === b.name && a.role === b.role;

function One({ project }: { project: Project }) {
  const [adding, setAdding] = useState(false);
  const [error, setError] = useState<unknown>();
  const cache = useQueryClient();
  const change = async (members: Member[], said: string): Promise<void> => {
    const { title, allowedTemplates, allowedImages, quota, memberQuota } = project;
    const settings: ProjectSettings = { title, members, allowedTemplates, allowedImages, quota, memberQuota };
    try {
      setError(undefined);
      // Of what is shown: what somebody else has changed meanwhile is not overwritten.
      await send(projectPath(project.name), { method: "PUT", json: settings, headers: { "if-match": `"${project.revision}"` } });
      toast(said);
    } catch (caught) {
      setError(caught instanceof Problem && caught.status === 412 ? new Error("Somebody else has changed this project meanwhile. It was read again: make your change anew.") : caught);
    } finally {
      await cache.invalidateQueries({ queryKey: ["projects"] });
    }
  };
  return (
    <Panel
      title={project.name}
      actions={
        <Button small icon="plus" onPress={() => setAdding(true)}>
          Member
        </Button>
      }
    >
      <div className="stack">
        {project.title !== "" && <p className="soft">{project.title}</p>}
        {error !== undefined && <ErrorNote error={error} />}
        <UsageBars project={project.name} />
        <div className="stack tight">
          <h3>Members</h3>
          {project.members.length === 0 ? (
            <p className="faint">None besides the administrator of the server.</p>
          ) : (
            <ul className="stack tight">
              {project.members.map((member) => (
                <li key={`${member.kind}/${member.name}/${member.role}`} className="member">
                  <span className="faint">{member.kind}</span>
                  <span className="ellipsis">{member.name}</span>
                  <span className="badge">{member.role}</span>
                  <Button kind="quiet" small icon="close" label={`Remove ${member.name}`} onPress={() => void change(project.members.filter((each) => !alike(each, member)), `${member.name} was removed from ${project.name}`)} />
                </li>
              ))}
            </ul>
          )}
        </div>
        {(project.allowedTemplates.length > 0 || project.allowedImages.length > 0) && (
          <Facts
            items={[
              ["Templates", project.allowedTemplates.length === 0 ? "all" : project.allowedTemplates.join(", ")],
              ["Images", project.allowedImages.length === 0 ? "all" : project.allowedImages.join(", ")],
            ]}
          />
        )}
        <p>
          <Link to={`/create?project=${encodeURIComponent(project.name)}`}>New environment in {project.name}</Link>
        </p>
      </div>
      {adding && <AddMember project={project.name} onClose={() => setAdding(false)} onAdd={(member) => change([...project.members.filter((each) => !alike(each, member)), member], `${member.name} is a ${member.role} of ${project.name}`)} />}
    </Panel>
  );
}

function UsageBars({ project }: { project: string }) {
  const query = useQuery(usageQuery(project));
  if (!query.data) return null;
  const { quota, used } = query.data;
  const rows: [string, number, number | undefined][] = [["Environments", used.environments, quota.environments]];
  for (const [template, limit] of Object.entries(quota.templates ?? {})) rows.push([template, used.templates[template] ?? 0, limit]);
  return (
    <div className="stack tight">
      {rows.map(([title, count, limit]) => (
        <div key={title} className="stack tight">
          <span className="usage">
            <span>{title}</span>
            <span className="number faint">{limit === undefined ? `${count}, no limit` : `${count} of ${limit}`}</span>
          </span>
          {limit !== undefined && (
            <div className={count >= limit ? "bar full" : "bar"} role="meter" aria-label={title} aria-valuemin={0} aria-valuemax={limit} aria-valuenow={count}>
              <span style={{ flexGrow: count }} />
              <span className="rest" style={{ flexGrow: Math.max(limit - count, 0) }} />
            </div>
          )}
        </div>
      ))}
    </div>
  );
}

function AddMember({ project, onAdd, onClose }: { project: string; onAdd: (member: Member) => Promise<void>; onClose: () => void }) {
  const roles = useQuery(rolesQuery);
  const [kind, setKind] = useState<MemberKind>("user");
  const [name, setName] = useState("");
  const [role, setRole] = useState("developer");
  const names = [...new Set([...(roles.data ?? []), role])];
  return (
    <Dialog title={`Add a member to ${project}`} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (name !== "") void onAdd({ kind, name, role }).then(onClose);
        }}
      >
        <div className="form">
          <Choice label="What it is" value={kind} onChange={(value) => setKind(value as MemberKind)} options={["user", "group", "team"].map((each) => ({ value: each, label: each }))} />
          <Choice label="Role" value={role} onChange={setRole} options={names.map((each) => ({ value: each, label: each }))} />
          <div className="wide">
            <TextField label="Name" value={name} onChange={setName} hint="Id of the user, or name of the group or team" required autoFocus mono />
          </div>
        </div>
        <div className="buttons">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabledReason={name === "" ? "Give a name" : undefined}>
            Add
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
