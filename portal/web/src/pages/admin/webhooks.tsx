// Where requests for approval are told of: addresses, what they are told, and how the last deliveries went.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { send } from "../../api/client";
import { putNew } from "../../api/edit";
import { webhooksQuery } from "../../api/queries";
import type { Webhook } from "../../api/types";
import { useMay } from "../../lib/may";
import { Button, Copy, TextField } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Age, Empty, Loaded, Note, State, toast } from "../../ui/feedback";
import { FormDialog, words } from "../../ui/form";
import { Facts, Panel } from "../../ui/page";

const webhookPath = (name: string): string => `/api/v1/webhooks/${encodeURIComponent(name)}`;
const TONES = { Pending: "busy", Delivered: "good", Failed: "bad" } as const;

export function Webhooks() {
  const query = useQuery({ ...webhooksQuery, refetchInterval: 10_000 });
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<Webhook | null>(null);
  const [removing, setRemoving] = useState<Webhook | null>(null);
  const cache = useQueryClient();
  const missing = useMay({})("platform.update");
  const test = async (name: string): Promise<void> => {
    try {
      await send(`${webhookPath(name)}/test`, { method: "POST" });
      toast(`A test is on its way to ${name}`);
    } catch (error) {
      toast(`${name} could not be tried`, error);
    }
    await cache.invalidateQueries({ queryKey: ["webhooks"] });
  };
  return (
    <div className="stack">
      <div className="toolbar">
        <Button icon="plus" disabledReason={missing} onPress={() => setAdding(true)}>
          New webhook
        </Button>
      </div>
      <Loaded query={query}>
        {(webhooks) =>
          webhooks.length === 0 ? (
            <Empty icon="share" title="Nobody is told">
              <p>A webhook is told when somebody asks for approval, gets it, or breaks the glass.</p>
            </Empty>
          ) : (
            <div className="columns">
              {webhooks.map((webhook) => (
                <Panel
                  key={webhook.name}
                  title={webhook.name}
                  actions={
                    <>
                      <Button small disabledReason={missing} onPress={() => void test(webhook.name)}>
                        Try it
                      </Button>
                      <Button kind="quiet" small icon="trash" label={`Delete ${webhook.name}`} disabledReason={missing} onPress={() => setRemoving(webhook)} />
                    </>
                  }
                >
                  <div className="stack tight">
                    <Facts
                      items={[
                        ["Address", <span key="url" className="mono">{webhook.url}</span>],
                        ["Told of", webhook.events?.join(", ") || "everything"],
                        ["Projects", webhook.projects?.join(", ") || "all"],
                      ]}
                    />
                    <ul className="stack tight" aria-label="Last deliveries">
                      {webhook.deliveries.slice(0, 5).map((each) => (
                        <li key={each.id} className="container-row">
                          <State tone={TONES[each.state]}>{each.event}</State>
                          <span className="soft">{each.message}</span>
                          <span className="faint">
                            <Age time={each.createdAt} />
                          </span>
                        </li>
                      ))}
                    </ul>
                  </div>
                </Panel>
              ))}
            </div>
          )
        }
      </Loaded>
      {adding && <Add taken={query.data?.map((each) => each.name) ?? []} onClose={() => setAdding(false)} onMade={setMade} />}
      {made?.secret !== undefined && (
        <Dialog title={`The secret of ${made.name}`} onClose={() => setMade(null)}>
          <Note kind="busy" icon="warning">
            <span>It is shown this once. The receiver needs it to check signatures.</span>
          </Note>
          <Copy label="Secret" text={made.secret} />
          <div className="buttons">
            <Button kind="primary" onPress={() => setMade(null)}>
              Done
            </Button>
          </div>
        </Dialog>
      )}
      {removing && (
        <Confirm
          title={`Delete webhook ${removing.name}?`}
          typed={removing.name}
          verb="Delete"
          onClose={() => setRemoving(null)}
          onConfirm={async () => {
            await send(webhookPath(removing.name), { method: "DELETE" });
            toast(`${removing.name} was deleted`);
            await cache.invalidateQueries({ queryKey: ["webhooks"] });
          }}
        >
          What is on its way there is given up.
        </Confirm>
      )}
    </div>
  );
}

function Add({ taken, onMade, onClose }: { taken: string[]; onMade: (webhook: Webhook) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [events, setEvents] = useState("");
  const [projects, setProjects] = useState("");
  const cache = useQueryClient();
  const problem = name === "" ? "Give it a name" : taken.includes(name) ? "There is one of that name" : url.startsWith("https://") ? undefined : "An address begins with https://";
  return (
    <FormDialog
      title="New webhook"
      verb="Create"
      problem={problem}
      onClose={onClose}
      onSubmit={async () => {
        onMade((await (await putNew(webhookPath(name), { url, events: words(events), projects: words(projects) })).json()) as Webhook);
        await cache.invalidateQueries({ queryKey: ["webhooks"] });
      }}
    >
      <TextField label="Name" value={name} onChange={setName} required autoFocus mono />
      <TextField label="Address" value={url} onChange={setUrl} required placeholder="https://hooks.example.com/vctl" mono />
      <TextField label="Events" value={events} onChange={setEvents} placeholder="everything" hint="Such as approval.*, breakGlass.*" mono />
      <TextField label="Projects" value={projects} onChange={setProjects} placeholder="all" hint="With commas" mono />
    </FormDialog>
  );
}
