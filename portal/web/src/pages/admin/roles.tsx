// Roles: named lists of rules. Those that are built in can be read; own ones can be made.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../../api/client";
import { type Merge, putNew, replace } from "../../api/edit";
import { permissionsQuery, rolesQuery } from "../../api/queries";
import type { Role } from "../../api/types";
import { plural } from "../../lib/format";
import { useMay } from "../../lib/may";
import { Button, Menu, TextArea, TextField } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Loaded, toast } from "../../ui/feedback";
import { FormDialog, words } from "../../ui/form";
import { Panel } from "../../ui/page";

const rolePath = (name: string): string => `/api/v1/roles/${encodeURIComponent(name)}`;

/** Whether a rule allows a permission: `environments.get`, `environments.*`, `*.list` or `*`. */
export function allows(rule: string, permission: string): boolean {
  if (rule === "*") return true;
  const [resource = "", verb = ""] = rule.split(".");
  const [r = "", v = ""] = permission.split(".");
  return (resource === "*" || resource === r) && (verb === "*" || verb === v);
}

export function Roles() {
  const query = useQuery(rolesQuery);
  const [editing, setEditing] = useState<Role | "new" | null>(null);
  const [removing, setRemoving] = useState<Role | null>(null);
  const cache = useQueryClient();
  const missing = useMay({})("roles.update");
  return (
    <div className="stack">
      <div className="toolbar">
        <Button icon="plus" disabledReason={missing} onPress={() => setEditing("new")}>
          New role
        </Button>
      </div>
      <Loaded query={query}>
        {(roles) => (
          <div className="columns">
            {roles.map((role) => (
              <Panel
                key={role.name}
                title={
                  <>
                    {role.name} {role.builtIn && <span className="badge">built in</span>}
                  </>
                }
                actions={
                  <Menu
                    label={`Actions for ${role.name}`}
                    entries={[
                      { id: "edit", label: "Change", icon: "edit", disabledReason: role.builtIn ? "It is built in: make one of your own" : missing, onAction: () => setEditing(role) },
                      { id: "delete", label: "Delete", icon: "trash", danger: true, disabledReason: role.builtIn ? "It is built in" : missing, onAction: () => setRemoving(role) },
                    ]}
                  />
                }
              >
                <div className="stack tight">
                  {role.title !== "" && <p className="soft">{role.title}</p>}
                  <span className="chips">
                    {role.rules.map((rule) => (
                      <span key={rule} className="badge mono">
                        {rule}
                      </span>
                    ))}
                  </span>
                </div>
              </Panel>
            ))}
          </div>
        )}
      </Loaded>
      {editing !== null && <Edit role={editing === "new" ? undefined : editing} onClose={() => setEditing(null)} />}
      {removing && (
        <Confirm
          title={`Delete role ${removing.name}?`}
          typed={removing.name}
          verb="Delete"
          onClose={() => setRemoving(null)}
          onConfirm={async () => {
            await send(rolePath(removing.name), { method: "DELETE" });
            toast(`${removing.name} was deleted`);
            await cache.invalidateQueries({ queryKey: ["roles"] });
          }}
        >
          Who has it must have been given another one.
        </Confirm>
      )}
    </div>
  );
}

const settingsOf = ({ title, rules }: Role) => ({ title, rules });

function Edit({ role, onClose }: { role: Role | undefined; onClose: () => void }) {
  const [name, setName] = useState(role?.name ?? "");
  const [title, setTitle] = useState(role?.title ?? "");
  const [text, setText] = useState(role?.rules.join("\n") ?? "");
  // Nobody gives what they do not have: these are all the permissions that one can think of here.
  const known = useQuery(permissionsQuery({}));
  const all = useQuery(rolesQuery);
  const taken = !role && all.data?.some((each) => each.name === name) === true;
  const cache = useQueryClient();
  const rules = words(text);
  const odd = rules.filter((rule) => rule !== "*" && !/^([a-z]+|\*)\.([A-Za-z]+|\*)$/.test(rule));
  const wrong = odd.length === 0 ? undefined : `Write RESOURCE.VERB, RESOURCE.*, *.VERB or * instead of ${odd.join(", ")}`;
  const allowed = (known.data ?? []).filter((permission) => rules.some((rule) => allows(rule, permission)));
  const save = async (merge?: Merge): Promise<void> => {
    try {
      if (role) await replace(rolePath(role.name), role, { title, rules }, settingsOf, merge);
      else await putNew(rolePath(name), { title, rules });
      toast(role ? `${name} was changed` : `${name} was created`);
    } finally {
      await cache.invalidateQueries({ queryKey: ["roles"] });
    }
  };
  return (
    <FormDialog title={role ? `Change ${role.name}` : "New role"} verb={role ? "Change" : "Create"} problem={name === "" ? "Give it a name" : taken ? "There is one of that name" : rules.length === 0 ? "Write a rule" : wrong} onClose={onClose} onSubmit={save}>
      {!role && <TextField label="Name" value={name} onChange={setName} required autoFocus mono />}
      <TextField label="Title" value={title} onChange={setTitle} />
      <TextArea label="Rules" value={text} onChange={setText} error={wrong} required hint="One a line: environments.create, environments.*, *.list or *" />
      <div className="stack tight">
        <h3>{plural(allowed.length, "permission")} of yours would be in it</h3>
        <span className="chips">
          {allowed.map((each) => (
            <span key={each} className="badge mono">
              {each}
            </span>
          ))}
        </span>
      </div>
    </FormDialog>
  );
}
