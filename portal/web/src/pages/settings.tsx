// The server: what it is, how it is, and a sign-in link for another browser.
import { useMutation, useQuery } from "@tanstack/react-query";
import { json } from "../api/client";
import { sessionQuery, statusQuery } from "../api/queries";
import { bytes, moment } from "../lib/format";
import { Link } from "../lib/router";
import { Button, Copy } from "../ui/controls";
import { Age, ErrorNote, Loaded } from "../ui/feedback";
import { Facts, Page, Panel } from "../ui/page";

export default function Settings() {
  const status = useQuery(statusQuery);
  const session = useQuery(sessionQuery);
  const link = useMutation({ mutationFn: () => json<{ url: string; expiresAt: string }>("/api/v1/login-links", { method: "POST" }) });
  return (
    <Page title="Server">
      <div className="columns">
        <Panel title="Status">
          <Loaded query={status}>
            {(s) => (
              <Facts
                items={[
                  ["Version", s.version],
                  ["Listens on", <span key="l" className="mono">{s.listen}</span>],
                  ["Started", <span key="s">{moment(s.startedAt)} (<Age time={s.startedAt} /> ago)</span>],
                  ["Environments", <Link key="e" to="/">{s.environments.toLocaleString("en")}</Link>],
                  ["Workers", <Link key="w" to="/workers">{s.workers.filter((w) => w.connected).length} of {s.workers.length} connected</Link>],
                  ["Memory", s.residentBytes === null ? "unknown" : bytes(s.residentBytes)],
                  ["Process", String(s.pid)],
                ]}
              />
            )}
          </Loaded>
        </Panel>
        <Panel title="Your session">
          <div className="stack">
            <Facts
              items={[
                ["Signed in as", session.data?.actor ?? ""],
                ["Role", session.data?.administrator ? "administrator of this server" : "member"],
              ]}
            />
            <div className="stack tight">
              <h3>Sign in another browser</h3>
              <p className="soft">A link that works once, within ten minutes, as you.</p>
              {link.data ? <Copy label="Sign-in link" text={link.data.url} /> : <div><Button onPress={() => link.mutate()} disabledReason={link.isPending ? "It is being made" : undefined}>Make a sign-in link</Button></div>}
              {link.error && <ErrorNote error={link.error} />}
            </div>
          </div>
        </Panel>
        <Panel title="For programs">
          <div className="stack">
            <p className="soft">Everything here is done over the same REST API that is open to you.</p>
            <Copy label="Status over REST" text={`curl --cacert CA --header "Authorization: Bearer TOKEN" ${location.origin}/api/v1/status`} />
          </div>
        </Panel>
      </div>
    </Page>
  );
}
