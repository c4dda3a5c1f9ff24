// With whom an environment is shared.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { json } from "../../api/client";
import { environmentPath } from "../../api/queries";
import type { Environment, ShareAccess } from "../../api/types";
import { Button, SelectField, TextField } from "../../ui/controls";
import { toast } from "../../ui/feedback";
import { FormDialog } from "../../ui/form";

const ACCESS: Record<ShareAccess, string> = { readOnly: "may look", admin: "may do everything in it" };

export function Share({ environment, onClose }: { environment: Environment; onClose: () => void }) {
  const [user, setUser] = useState("");
  const [access, setAccess] = useState<ShareAccess>("readOnly");
  const cache = useQueryClient();
  const { name } = environment;
  const change = async (who: string, given: ShareAccess | null): Promise<void> => {
    const path = `${environmentPath(name)}/shares/${encodeURIComponent(who)}`;
    const changed = await json<Environment>(path, given === null ? { method: "DELETE" } : { method: "PUT", json: { access: given } });
    cache.setQueryData(["environment", name], changed);
    toast(given === null ? `${name} is no longer shared with ${who}` : `${name} is shared with ${who}, who ${ACCESS[given]}`);
  };
  const shares = Object.entries(environment.shares ?? {});
  return (
    <FormDialog title={`Share ${name}`} verb="Share" problem={user === "" ? "Say with whom" : undefined} onClose={onClose} onSubmit={() => change(user, access)}>
      {shares.length > 0 && (
        <ul className="stack tight" aria-label="Shared with">
          {shares.map(([who, given]) => (
            <li key={who} className="member two-fields">
              <span className="ellipsis">{who}</span>
              <span className="badge">{ACCESS[given]}</span>
              <Button kind="quiet" small icon="close" label={`Share no longer with ${who}`} onPress={() => void change(who, null).catch((error: unknown) => toast("That could not be changed", error))} />
            </li>
          ))}
        </ul>
      )}
      <div className="form">
        <TextField label="Colleague" value={user} onChange={setUser} hint="Email address, once they have signed in here, or id" required autoFocus mono />
        <SelectField label="Access" value={access} onChange={(value) => setAccess(value as ShareAccess)} options={Object.entries(ACCESS).map(([value, label]) => ({ value, label }))} />
      </div>
    </FormDialog>
  );
}
