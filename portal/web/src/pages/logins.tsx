// The machines on which one has signed in with `vctl login`.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../api/client";
import { loginsQuery } from "../api/queries";
import type { ClientLogin } from "../api/types";
import { moment, plural } from "../lib/format";
import { Button } from "../ui/controls";
import { Confirm } from "../ui/dialog";
import { Age, Empty, Loaded, toast } from "../ui/feedback";
import { Panel } from "../ui/page";
import { type Column, Table } from "../ui/table";

export function Logins() {
  const query = useQuery(loginsQuery);
  const [ending, setEnding] = useState<ClientLogin | null>(null);
  const cache = useQueryClient();
  const columns: Column<ClientLogin>[] = [
    { id: "client", title: "Machine", width: "minmax(8rem, 1.6fr)", cell: (login) => login.client },
    { id: "made", title: "Since", width: "minmax(6rem, 1fr)", cell: (login) => moment(login.createdAt), from: 560 },
    { id: "used", title: "Last used", width: "5.5rem", right: true, cell: (login) => <Age time={login.usedAt} /> },
    { id: "ends", title: "Ends unless used", width: "minmax(6rem, 1fr)", cell: (login) => moment(login.expiresAt), from: 720 },
    { id: "actions", title: "", width: "2.5rem", cell: (login) => <Button kind="quiet" small icon="trash" label={`End the login of ${login.client}`} onPress={() => setEnding(login)} /> },
  ];
  return (
    <Panel title="Logins of the command line">
      <Loaded query={query} rows={3}>
        {(logins) =>
          logins.length === 0 ? (
            <Empty icon="terminal" title="No logins" />
          ) : (
            <Table label="Logins" rows={logins} columns={columns} rowKey={(login) => login.id} height="22rem" foot={plural(logins.length, "login")} />
          )
        }
      </Loaded>
      {ending && (
        <Confirm
          title={`End the login of ${ending.client}?`}
          verb="End"
          onClose={() => setEnding(null)}
          onConfirm={async () => {
            await send(`/api/v1/logins/${encodeURIComponent(ending.id)}`, { method: "DELETE" });
            toast(`The login of ${ending.client} has ended`);
            await cache.invalidateQueries({ queryKey: ["logins"] });
          }}
        >
          The command line there is signed out at once; kubeconfigs that use it are too.
        </Confirm>
      )}
    </Panel>
  );
}
