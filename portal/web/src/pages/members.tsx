// Who has which role at a place: shown, taken away, added.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { rolesQuery } from "../api/queries";
import type { Member, MemberKind } from "../api/types";
import { Button, SelectField, TextField } from "../ui/controls";
import { FormDialog } from "../ui/form";

export const alike = (a: Member, b: Member): boolean => a.kind === b.kind && a.name === b.name && a.role === b.role;

export function Members({ members, missing, onRemove }: { members: Member[]; missing: string | undefined; onRemove: (member: Member) => void }) {
  if (members.length === 0) return <p className="faint">None besides the administrator of the server.</p>;
  return (
    <ul className="stack tight">
      {members.map((member) => (
        <li key={`${member.kind}/${member.name}/${member.role}`} className="member">
          <span className="faint">{member.kind}</span>
          <span className="ellipsis" title={member.name}>
            {member.name}
          </span>
          <span className="badge">{member.role}</span>
          <Button kind="quiet" small icon="close" label={`Remove ${member.name}`} disabledReason={missing} onPress={() => onRemove(member)} />
        </li>
      ))}
    </ul>
  );
}

export function AddMember({ place, role: first = "developer", onAdd, onClose }: { place: string; role?: string; onAdd: (member: Member) => Promise<void>; onClose: () => void }) {
  const roles = useQuery(rolesQuery);
  const [kind, setKind] = useState<MemberKind>("user");
  const [name, setName] = useState("");
  const [role, setRole] = useState(first);
  const names = [...new Set([...(roles.data?.map((each) => each.name) ?? []), role])];
  const title = roles.data?.find((each) => each.name === role)?.title;
  return (
    <FormDialog title={`Add a member to ${place}`} verb="Add" problem={name === "" ? "Give a name" : undefined} onClose={onClose} onSubmit={() => onAdd({ kind, name, role })}>
      <div className="form">
        <SelectField label="What it is" value={kind} onChange={(value) => setKind(value as MemberKind)} options={["user", "group", "team"].map((each) => ({ value: each, label: each }))} />
        <SelectField label="Role" value={role} onChange={setRole} hint={title} options={names.map((each) => ({ value: each, label: each }))} />
        <div className="wide">
          <TextField label="Name" value={name} onChange={setName} hint="Email address or id of the user, or name of the group or team" required autoFocus mono />
        </div>
      </div>
    </FormDialog>
  );
}
