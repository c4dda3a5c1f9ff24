// What can be done with an environment as a whole. What cannot be done now, or not by this person, says why.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { json, send } from "../../api/client";
import { environmentPath } from "../../api/queries";
import type { Environment } from "../../api/types";
import { download } from "../../lib/download";
import { useMay } from "../../lib/may";
import { navigate } from "../../lib/router";
import { Button, Menu, TextField } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { toast } from "../../ui/feedback";
import { FormDialog } from "../../ui/form";
import { Share } from "./share";

type Asked = "delete" | "rotate" | "extend" | "share";

export function Actions({ environment }: { environment: Environment }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const cache = useQueryClient();
  const { name, phase } = environment;
  const may = useMay({ environment: name });
  const deleting = phase === "Deleting" ? "It is being deleted" : undefined;
  const notReady = environment.readyAt === null && phase !== "Ready" ? "Its control plane is not ready yet" : undefined;
  const act = async (what: string, body: unknown, done: string): Promise<void> => {
    await send(`${environmentPath(name)}/${what}`, { method: "POST", ...(body === undefined ? {} : { json: body }) });
    toast(done);
    await cache.invalidateQueries({ queryKey: ["environment", name] });
  };
  const attempt = (what: string, done: string): void => void act(what, undefined, done).catch((error: unknown) => toast(`${name} could not be changed`, error));
  const kubeconfig = async (): Promise<void> => {
    try {
      const { kubeconfig: text } = await json<{ kubeconfig: string }>(`${environmentPath(name)}/kubeconfig`);
      download(`${name}.kubeconfig`, text, "application/yaml");
      toast(`${name}.kubeconfig was downloaded`);
    } catch (error) {
      toast("The kubeconfig could not be had", error);
    }
  };
  const close = (): void => setAsked(null);
  const sleepy = may("environments.sleep");
  return (
    <>
      {phase === "Sleeping" ? (
        <Button icon="sun" kind="primary" disabledReason={sleepy} onPress={() => attempt("wake", `${name} is being woken`)}>
          Wake
        </Button>
      ) : (
        <Button icon="moon" disabledReason={phase === "Ready" ? sleepy : `It is ${phase.toLowerCase()}: only one that is ready can sleep`} onPress={() => attempt("sleep", `${name} goes to sleep; its objects stay readable`)}>
          Sleep
        </Button>
      )}
      <Button icon="download" disabledReason={deleting ?? notReady ?? may("environments.connectReadOnly")} onPress={() => void kubeconfig()}>
        Kubeconfig
      </Button>
      <Button kind="danger" icon="trash" disabledReason={deleting ?? may("environments.delete")} onPress={() => setAsked("delete")}>
        Delete
      </Button>
      <Menu
        label="More actions"
        entries={[
          { id: "update", label: "Update", icon: "up", disabledReason: deleting ?? notReady ?? may("environments.update"), onAction: () => navigate(`/environments/${name}/update`) },
          { id: "share", label: "Share", icon: "share", disabledReason: deleting ?? may("environments.share"), onAction: () => setAsked("share") },
          { id: "extend", label: "Extend", icon: "jobs", disabledReason: environment.lifecycle?.expiresAt === undefined ? "It does not expire" : may("environments.extend"), onAction: () => setAsked("extend") },
          { id: "rotate", label: "Rotate certificate authority", icon: "refresh", disabledReason: phase === "Ready" ? may("environments.rotateCa") : "Only of one that is ready", onAction: () => setAsked("rotate") },
        ]}
      />
      {asked === "delete" && (
        <Confirm title={`Delete ${name}?`} typed={name} verb="Delete" onClose={close} onConfirm={() => remove(name).then(() => void cache.invalidateQueries({ queryKey: ["environment", name] }))}>
          Its cluster goes, with everything in it: workloads, volumes and their data. This cannot be undone.
        </Confirm>
      )}
      {asked === "extend" && <Extend name={name} onClose={close} onExtend={(period) => act("extend", { period }, `${name} was extended`)} />}
      {asked === "share" && <Share environment={environment} onClose={close} />}
      {asked === "rotate" && (
        <Confirm title={`Give ${name} another certificate authority?`} verb="Rotate" onClose={close} onConfirm={() => act("rotate-ca", {}, "The new authority is being made")}>
          Kubeconfigs made until now count for one more day. Download a new one after that.
        </Confirm>
      )}
    </>
  );
}

async function remove(name: string): Promise<void> {
  await send(environmentPath(name), { method: "DELETE" });
  toast(`${name} is being deleted`);
}

function Extend({ name, onClose, onExtend }: { name: string; onClose: () => void; onExtend: (period: string) => Promise<void> }) {
  const [period, setPeriod] = useState("7d");
  const wrong = /^(\d+[smhd])+$/.test(period) ? undefined : "Write 12h, 7d or 1d12h";
  return (
    <FormDialog title={`Extend ${name}`} verb="Extend" problem={wrong} onClose={onClose} onSubmit={() => onExtend(period)}>
      <TextField label="It expires so long from now" value={period} onChange={setPeriod} error={wrong} hint="Such as 12h, 7d or 1d12h; its template says how far" autoFocus mono />
    </FormDialog>
  );
}
