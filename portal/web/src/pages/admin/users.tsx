// Who has signed in: disabled and enabled again, or forgotten.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { send } from "../../api/client";
import { usersQuery } from "../../api/queries";
import type { User } from "../../api/types";
import { moment, plural } from "../../lib/format";
import { useMay } from "../../lib/may";
import { Link, useQueryValue } from "../../lib/router";
import { Button, Search } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Age, Empty, Loaded, State, toast } from "../../ui/feedback";
import { Facts } from "../../ui/page";
import { type Column, type Sort, Table } from "../../ui/table";

const userPath = (user: User): string => `/api/v1/users/${encodeURIComponent(user.id)}`;

export function Users() {
  const query = useQuery(usersQuery);
  const [text, setText] = useQueryValue("q");
  const [chosen, setChosen] = useState<string | null>(null);
  const [sort, setSort] = useState<Sort>({ column: "seen", descending: false });
  const wanted = useDeferredValue(text.toLowerCase());
  const rows = useMemo(() => (query.data ?? []).filter((user) => `${user.name} ${user.email ?? ""} ${user.id} ${user.groups.join(" ")}`.toLowerCase().includes(wanted)), [query.data, wanted]);
  const columns = useMemo<Column<User>[]>(
    () => [
      { id: "name", title: "Name", width: "minmax(9rem, 1.6fr)", cell: (user) => <button type="button" className="link" onClick={() => setChosen(user.id)}>{user.name || user.email || user.id}</button>, sort: (user) => user.name },
      { id: "email", title: "Email", width: "minmax(9rem, 1.4fr)", cell: (user) => user.email ?? "–", sort: (user) => user.email ?? "", from: 560 },
      { id: "groups", title: "Groups", width: "minmax(7rem, 1.4fr)", cell: (user) => user.groups.join(", "), from: 820 },
      { id: "state", title: "State", width: "6rem", cell: (user) => (user.disabled ? <State tone="bad">Disabled</State> : <State tone="good">Enabled</State>), sort: (user) => Number(user.disabled) },
      { id: "seen", title: "Signed in", width: "5rem", right: true, cell: (user) => <Age time={user.lastSignIn} />, sort: (user) => -Date.parse(user.lastSignIn) },
    ],
    [],
  );
  const user = query.data?.find((each) => each.id === chosen);
  return (
    <Loaded query={query}>
      {(users) =>
        users.length === 0 ? (
          <Empty icon="people" title="Nobody has signed in yet">
            <p>People appear here when they have signed in at an identity provider.</p>
          </Empty>
        ) : (
          <>
            <div className="toolbar">
              <Search label="Find users" value={text} onChange={setText} />
            </div>
            <Table label="Users" rows={rows} columns={columns} rowKey={(each) => each.id} sort={sort} onSort={setSort} foot={plural(rows.length, "user")} />
            {user && <One user={user} onClose={() => setChosen(null)} />}
          </>
        )
      }
    </Loaded>
  );
}

function One({ user, onClose }: { user: User; onClose: () => void }) {
  const [removing, setRemoving] = useState(false);
  const cache = useQueryClient();
  const missing = useMay({})("users.update");
  const name = user.email ?? user.name;
  const done = async (said: string): Promise<void> => {
    toast(said);
    await cache.invalidateQueries({ queryKey: ["users"] });
  };
  const set = async (disabled: boolean): Promise<void> => {
    try {
      await send(userPath(user), { method: "PATCH", json: { disabled } });
      await done(disabled ? `${name} is disabled: nothing of theirs counts any more` : `${name} is enabled again`);
    } catch (error) {
      toast(`${name} could not be changed`, error);
    }
  };
  if (removing) {
    return (
      <Confirm
        title={`Forget ${name}?`}
        typed={name}
        verb="Forget"
        onClose={onClose}
        onConfirm={async () => {
          await send(userPath(user), { method: "DELETE" });
          await done(`${name} was forgotten`);
        }}
      >
        Their sessions, logins and API keys end. Environments stay. When they sign in again they are there anew: disable them to keep them out.
      </Confirm>
    );
  }
  return (
    <Dialog title={name} onClose={onClose}>
      <Facts
        items={[
          ["Name", user.name || "–"],
          ["Email", user.email ?? "none that is verified"],
          ["Id", <span key="id" className="mono">{user.id}</span>],
          ["Groups", user.groups.join(", ") || "none"],
          ["First signed in", moment(user.createdAt)],
          ["Last signed in", moment(user.lastSignIn)],
          ["In the audit trail", <Link key="audit" to={`/audit?actor=${encodeURIComponent(user.email ?? user.id)}`}>what they did</Link>],
        ]}
      />
      <div className="buttons">
        <Button kind="danger" disabledReason={missing} onPress={() => setRemoving(true)}>
          Forget
        </Button>
        <Button kind={user.disabled ? "primary" : "danger"} disabledReason={missing} onPress={() => void set(!user.disabled)}>
          {user.disabled ? "Enable" : "Disable"}
        </Button>
        <Button onPress={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
