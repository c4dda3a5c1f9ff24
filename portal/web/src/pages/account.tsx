// Who one is here, and what acts for one: API keys, and sign-in links for other browsers.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { json, send } from "../api/client";
import { apiKeysQuery, identityQuery, projectsQuery, sessionQuery } from "../api/queries";
import type { ApiKey, Scopes } from "../api/types";
import { moment, plural } from "../lib/format";
import { Button, Copy, SelectField, Switch, TextField } from "../ui/controls";
import { Confirm, Dialog } from "../ui/dialog";
import { Age, Empty, ErrorNote, Loaded, Note, toast } from "../ui/feedback";
import { FormDialog } from "../ui/form";
import { Facts, Page, Panel } from "../ui/page";
import { type Column, Table } from "../ui/table";
import { Logins } from "./logins";

export default function Account() {
  const identity = useQuery(identityQuery);
  const session = useQuery(sessionQuery);
  const link = useMutation({ mutationFn: () => json<{ url: string; expiresAt: string }>("/api/v1/login-links", { method: "POST" }) });
  return (
    <Page title="Account" sub="Who you are here, and what acts for you.">
      <div className="stack">
        <div className="columns">
          <Panel title="You">
            <Loaded query={identity} rows={3}>
              {(me) => (
                <Facts
                  items={[
                    ["Signed in as", me.actor],
                    ...(me.name === "" || me.name === me.actor ? [] : ([["Name", me.name]] as [string, string][])),
                    ["Id", <span key="id" className="mono">{me.user}</span>],
                    ["Groups", me.groups.join(", ") || "none"],
                    ["Role", session.data?.administrator === true ? "administrator of this server" : "as your projects say"],
                  ]}
                />
              )}
            </Loaded>
          </Panel>
          <Panel title="Elsewhere">
            <div className="stack">
              <div className="stack tight">
                <h3>The command line of your machine</h3>
                <Copy label="vctl login" text={`vctl login --server ${location.origin}`} />
              </div>
              <div className="stack tight">
                <h3>Another browser</h3>
                <p className="soft">A link that works once, within ten minutes, as you.</p>
                {link.data ? (
                  <Copy label="Sign-in link" text={link.data.url} />
                ) : (
                  <div>
                    <Button onPress={() => link.mutate()} disabledReason={link.isPending ? "It is being made" : undefined}>
                      Make a sign-in link
                    </Button>
                  </div>
                )}
                {link.error && <ErrorNote error={link.error} />}
              </div>
            </div>
          </Panel>
        </div>
        <Logins />
        <ApiKeys administrator={session.data?.administrator === true} />
      </div>
    </Page>
  );
}

const scopeText = ({ verbs, project, environment }: Scopes): string =>
  [verbs.includes("write") ? "read and write" : "read only", environment !== undefined ? `environment ${environment}` : project !== undefined ? `project ${project}` : "everything of its owner"].join(", ");

function ApiKeys({ administrator }: { administrator: boolean }) {
  const [everybody, setEverybody] = useState(false);
  const query = useQuery(apiKeysQuery(everybody));
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<(ApiKey & { token: string }) | null>(null);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  const cache = useQueryClient();
  const columns: Column<ApiKey>[] = [
    { id: "name", title: "Name", width: "minmax(7rem, 1.3fr)", cell: (key) => key.name },
    { id: "scope", title: "For", width: "minmax(8rem, 1.6fr)", cell: (key) => scopeText(key.scopes), from: 480 },
    ...(everybody ? [{ id: "user", title: "Whose", width: "minmax(6rem, 1fr)", cell: (key: ApiKey) => key.user, from: 560 }] : []),
    { id: "used", title: "Last used", width: "5.5rem", right: true, cell: (key) => (key.lastUsedAt === null ? "never" : <Age time={key.lastUsedAt} />), from: 620 },
    { id: "ends", title: "Ends", width: "minmax(6rem, 1fr)", cell: (key) => (Date.parse(key.expiresAt) < Date.now() ? <span className="badge">ended</span> : moment(key.expiresAt)), from: 380 },
    { id: "actions", title: "", width: "2.5rem", cell: (key) => <Button kind="quiet" small icon="trash" label={`Revoke ${key.name}`} onPress={() => setRevoking(key)} /> },
  ];
  return (
    <Panel
      title="API keys"
      actions={
        <>
          {administrator && (
            <Switch selected={everybody} onChange={setEverybody}>
              Everybody's
            </Switch>
          )}
          <Button small icon="plus" onPress={() => setCreating(true)}>
            New key
          </Button>
        </>
      }
    >
      <Loaded query={query} rows={3}>
        {(keys) =>
          keys.length === 0 ? (
            <Empty icon="key" title="No API keys">
              <p>A program uses one in your place: never with more than you may do yourself.</p>
            </Empty>
          ) : (
            <Table label="API keys" rows={keys} columns={columns} rowKey={(key) => key.id} height="22rem" foot={plural(keys.length, "key")} />
          )
        }
      </Loaded>
      {creating && <NewKey onClose={() => setCreating(false)} onMade={setMade} />}
      {made && (
        <Dialog title={`The key ${made.name}`} onClose={() => setMade(null)}>
          <Note kind="busy" icon="warning">
            <span>It is shown this once. Keep it where secrets are kept.</span>
          </Note>
          <Copy label="API key" text={made.token} />
          <Copy label="The key with curl" text={`curl --header "Authorization: Bearer $KEY" ${location.origin}/api/v1/environments`} />
          <div className="buttons">
            <Button kind="primary" onPress={() => setMade(null)}>
              Done
            </Button>
          </div>
        </Dialog>
      )}
      {revoking && (
        <Confirm
          title={`Revoke ${revoking.name}?`}
          verb="Revoke"
          onClose={() => setRevoking(null)}
          onConfirm={async () => {
            await send(`/api/v1/api-keys/${encodeURIComponent(revoking.id)}`, { method: "DELETE" });
            toast(`${revoking.name} was revoked`);
            await cache.invalidateQueries({ queryKey: ["api-keys"] });
          }}
        >
          Whatever uses it is refused from its next request on.
        </Confirm>
      )}
    </Panel>
  );
}

const DAYS = [1, 7, 30, 90, 365];

function NewKey({ onMade, onClose }: { onMade: (key: ApiKey & { token: string }) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [writes, setWrites] = useState(false);
  const [project, setProject] = useState("");
  const [environment, setEnvironment] = useState("");
  const [days, setDays] = useState("30");
  const projects = useQuery(projectsQuery);
  const cache = useQueryClient();
  const create = async (): Promise<void> => {
    const scopes: Scopes = { verbs: writes ? ["read", "write"] : ["read"], ...(project === "" ? {} : { project }), ...(environment === "" ? {} : { environment }) };
    // A minute less than a year: the server's clock counts.
    const expiresAt = new Date(Date.now() + Number(days) * 86_400_000 - 60_000).toISOString();
    onMade(await json<ApiKey & { token: string }>("/api/v1/api-keys", { method: "POST", json: { name, scopes, expiresAt } }));
    await cache.invalidateQueries({ queryKey: ["api-keys"] });
  };
  return (
    <FormDialog title="New API key" verb="Create" problem={name === "" ? "Give it a name" : undefined} onClose={onClose} onSubmit={create}>
      <div className="form">
        <TextField label="Name" value={name} onChange={setName} hint="What uses it" required autoFocus />
        <SelectField label="Ends after" value={days} onChange={setDays} options={DAYS.map((each) => ({ value: String(each), label: plural(each, "day") }))} />
        <SelectField label="Project" value={project} onChange={setProject} options={[{ value: "", label: "all of yours" }, ...(projects.data ?? []).map((each) => ({ value: each.name, label: each.name }))]} />
        <TextField label="Environment" value={environment} onChange={setEnvironment} placeholder="all of these" mono />
        <div className="field">
          <span className="label">Changes</span>
          <Switch selected={writes} onChange={setWrites}>
            It may change something
          </Switch>
        </div>
      </div>
    </FormDialog>
  );
}
