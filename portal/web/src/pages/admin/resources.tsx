// Databases and services outside of the platform that environments of the kind `real` can be bound to.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { json, send } from "../../api/client";
import { resourcesQuery } from "../../api/queries";
import type { ProbeResult, Resource, ResourceKind } from "../../api/types";
import { moment } from "../../lib/format";
import { useMay } from "../../lib/may";
import { Button, SelectField, Switch, TextArea, TextField } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Empty, ErrorNote, Loaded, Note, toast } from "../../ui/feedback";
import { FormDialog } from "../../ui/form";
import { Facts, Panel } from "../../ui/page";

const KINDS: Record<ResourceKind, number> = { postgres: 5432, redis: 6379, mysql: 3306, kafka: 9092, s3: 80, http: 80 };

export function Resources() {
  const query = useQuery(resourcesQuery);
  const [adding, setAdding] = useState(false);
  const missing = useMay({})("platform.update");
  return (
    <div className="stack">
      <div className="toolbar">
        <Button icon="plus" disabledReason={missing} onPress={() => setAdding(true)}>
          Register a resource
        </Button>
      </div>
      <Loaded query={query}>
        {(resources) =>
          resources.length === 0 ? (
            <Empty icon="workers" title="No resources">
              <p>Environments of the kind mocked need none: their templates run stand-ins.</p>
            </Empty>
          ) : (
            <div className="columns">
              {resources.map((resource) => (
                <One key={resource.name} resource={resource} missing={missing} />
              ))}
            </div>
          )
        }
      </Loaded>
      {adding && <Add taken={query.data?.map((each) => each.name) ?? []} onClose={() => setAdding(false)} />}
    </div>
  );
}

function One({ resource, missing }: { resource: Resource; missing: string | undefined }) {
  const [removing, setRemoving] = useState(false);
  const cache = useQueryClient();
  const path = `/api/v1/resources/${encodeURIComponent(resource.name)}`;
  const probe = useMutation({ mutationFn: () => json<ProbeResult>(`${path}/probe`, { method: "POST" }) });
  return (
    <Panel
      title={resource.name}
      actions={
        <>
          <Button small disabledReason={missing ?? (probe.isPending ? "It is being tried" : undefined)} onPress={() => probe.mutate()}>
            Try it
          </Button>
          <Button kind="quiet" small icon="trash" label={`Remove ${resource.name}`} disabledReason={missing} onPress={() => setRemoving(true)} />
        </>
      }
    >
      <div className="stack tight">
        <Facts
          items={[
            ["Kind", resource.kind],
            ["Address", <span key="a" className="mono">{resource.host}:{resource.port}</span>],
            ...(resource.user === "" ? [] : ([["User", resource.user]] as [string, string][])),
            ...(resource.database === "" ? [] : ([["Database", resource.database]] as [string, string][])),
            ["TLS", resource.tls ? (resource.caBundle ? "yes, with authorities of its own" : "yes") : "no"],
            ["Password", resource.hasPassword ? "kept, never shown" : "none"],
            ["Registered", moment(resource.createdAt)],
          ]}
        />
        {probe.error && <ErrorNote error={probe.error} />}
        {probe.data && (
          <Note kind={probe.data.ok ? "good" : "bad"} icon={probe.data.ok ? "check" : "warning"}>
            <span>{probe.data.message}</span>
            <span className="id">{probe.data.millis} ms</span>
          </Note>
        )}
      </div>
      {removing && (
        <Confirm
          title={`Remove ${resource.name}?`}
          typed={resource.name}
          verb="Remove"
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await send(path, { method: "DELETE" });
            toast(`${resource.name} was removed`);
            await cache.invalidateQueries({ queryKey: ["resources"] });
          }}
        >
          New environments cannot be bound to it any more. The resource itself stays as it is.
        </Confirm>
      )}
    </Panel>
  );
}

function Add({ taken, onClose }: { taken: string[]; onClose: () => void }) {
  const [name, setName] = useState("");
  const [kind, setKind] = useState<ResourceKind>("postgres");
  const [host, setHost] = useState("");
  const [port, setPort] = useState("");
  const [user, setUser] = useState("");
  const [database, setDatabase] = useState("");
  const [password, setPassword] = useState("");
  const [tls, setTls] = useState(false);
  const [authorities, setAuthorities] = useState("");
  const cache = useQueryClient();
  const portError = port === "" || (/^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65536) ? undefined : "A port, or nothing";
  const problem = name === "" ? "Give it a name" : taken.includes(name) ? "There is one of that name" : host === "" ? "Say where it is" : portError;
  return (
    <FormDialog
      title="Register a resource"
      verb="Register"
      problem={problem}
      onClose={onClose}
      onSubmit={async () => {
        await send("/api/v1/resources", { method: "POST", json: { name, kind, host, user, database, tls, ...(tls && authorities !== "" ? { caBundle: authorities } : {}), ...(port === "" ? {} : { port: Number(port) }), ...(password === "" ? {} : { password }) } });
        toast(`${name} was registered`);
        await cache.invalidateQueries({ queryKey: ["resources"] });
      }}
    >
      <div className="form">
        <TextField label="Name" value={name} onChange={setName} required autoFocus mono />
        <SelectField label="Kind" value={kind} onChange={(value) => setKind(value as ResourceKind)} options={Object.keys(KINDS).map((each) => ({ value: each, label: each }))} />
        <TextField label="Host" value={host} onChange={setHost} required hint="As the server and the pods reach it" mono />
        <TextField label="Port" value={port} onChange={setPort} error={portError} placeholder={String(KINDS[kind])} inputMode="numeric" mono />
        <TextField label="User" value={user} onChange={setUser} mono />
        <TextField label="Password" value={password} onChange={setPassword} type="password" hint="Kept sealed, never shown" />
        <TextField label="Database" value={database} onChange={setDatabase} mono />
        <div className="field">
          <span className="label">TLS</span>
          <Switch selected={tls} onChange={setTls}>
            Its certificate is checked
          </Switch>
        </div>
        {tls && (
          <div className="wide">
            <TextArea label="Authorities" value={authorities} onChange={setAuthorities} rows={4} hint="Certificates (PEM) that may vouch for it; when empty, those that the server's machine trusts" />
          </div>
        )}
      </div>
    </FormDialog>
  );
}
