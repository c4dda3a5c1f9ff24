// Teams: people who are named together, by themselves or by groups of the identity provider.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../../api/client";
import { type Merge, putNew, replace } from "../../api/edit";
import { teamsQuery } from "../../api/queries";
import type { Team } from "../../api/types";
import { useMay } from "../../lib/may";
import { Button, Menu, TextField } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Empty, Loaded, toast } from "../../ui/feedback";
import { FormDialog, words } from "../../ui/form";
import { Facts, Panel } from "../../ui/page";
import { QuotaFields, quotaOf, quotaProblem, quotaText, quotaTexts } from "../quota";

const teamPath = (name: string): string => `/api/v1/teams/${encodeURIComponent(name)}`;

export function Teams() {
  const query = useQuery(teamsQuery);
  const [editing, setEditing] = useState<Team | "new" | null>(null);
  const [removing, setRemoving] = useState<Team | null>(null);
  const cache = useQueryClient();
  const missing = useMay({})("teams.update");
  return (
    <div className="stack">
      <div className="toolbar">
        <Button icon="plus" disabledReason={missing} onPress={() => setEditing("new")}>
          New team
        </Button>
      </div>
      <Loaded query={query}>
        {(teams) =>
          teams.length === 0 ? (
            <Empty icon="people" title="No teams">
              <p>A team has roles in projects as one, and a quota over all projects.</p>
            </Empty>
          ) : (
            <div className="columns">
              {teams.map((team) => (
                <Panel
                  key={team.name}
                  title={team.name}
                  actions={
                    <Menu
                      label={`Actions for ${team.name}`}
                      entries={[
                        { id: "edit", label: "Change", icon: "edit", disabledReason: missing, onAction: () => setEditing(team) },
                        { id: "delete", label: "Delete", icon: "trash", danger: true, disabledReason: missing, onAction: () => setRemoving(team) },
                      ]}
                    />
                  }
                >
                  <Facts
                    items={[
                      ...(team.title === "" ? [] : ([["Title", team.title]] as [string, string][])),
                      ["Users", team.users.join(", ") || "none"],
                      ["Groups", team.groups.join(", ") || "none"],
                      ["Quota", quotaText(team.quota)],
                    ]}
                  />
                </Panel>
              ))}
            </div>
          )
        }
      </Loaded>
      {editing !== null && <Edit team={editing === "new" ? undefined : editing} onClose={() => setEditing(null)} />}
      {removing && (
        <Confirm
          title={`Delete team ${removing.name}?`}
          typed={removing.name}
          verb="Delete"
          onClose={() => setRemoving(null)}
          onConfirm={async () => {
            await send(teamPath(removing.name), { method: "DELETE" });
            toast(`${removing.name} was deleted`);
            await cache.invalidateQueries({ queryKey: ["teams"] });
          }}
        >
          Its people lose the roles that they have by it.
        </Confirm>
      )}
    </div>
  );
}

const settingsOf = ({ title, users, groups, quota }: Team) => ({ title, users, groups, quota });

function Edit({ team, onClose }: { team: Team | undefined; onClose: () => void }) {
  const [name, setName] = useState(team?.name ?? "");
  const [title, setTitle] = useState(team?.title ?? "");
  const [users, setUsers] = useState(team?.users.join("\n") ?? "");
  const [groups, setGroups] = useState(team?.groups.join(", ") ?? "");
  const [quota, setQuota] = useState(() => quotaTexts(team?.quota ?? {}));
  const all = useQuery(teamsQuery);
  const taken = !team && all.data?.some((each) => each.name === name) === true;
  const cache = useQueryClient();
  const save = async (merge?: Merge): Promise<void> => {
    const body = { title, users: words(users), groups: words(groups), quota: quotaOf(quota) };
    try {
      if (team) await replace(teamPath(team.name), team, body, settingsOf, merge);
      else await putNew(teamPath(name), body);
      toast(team ? `${name} was changed` : `${name} was created`);
    } finally {
      await cache.invalidateQueries({ queryKey: ["teams"] });
    }
  };
  return (
    <FormDialog title={team ? `Change ${team.name}` : "New team"} verb={team ? "Change" : "Create"} problem={name === "" ? "Give it a name" : taken ? "There is one of that name" : quotaProblem(quota)} onClose={onClose} onSubmit={save}>
      {!team && <TextField label="Name" value={name} onChange={setName} required autoFocus mono />}
      <TextField label="Title" value={title} onChange={setTitle} />
      <TextField label="Users" value={users} onChange={setUsers} hint="Email addresses or ids, with commas" mono />
      <TextField label="Groups of the identity provider" value={groups} onChange={setGroups} hint="With commas" mono />
      <h3>Its people together, over all projects</h3>
      <QuotaFields texts={quota} onChange={setQuota} />
    </FormDialog>
  );
}
