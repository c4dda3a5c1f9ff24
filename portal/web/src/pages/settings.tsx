// The server: what it is, and how it is.
import { useQuery } from "@tanstack/react-query";
import { statusQuery } from "../api/queries";
import { bytes, moment } from "../lib/format";
import { Link } from "../lib/router";
import { Copy } from "../ui/controls";
import { Age, Loaded } from "../ui/feedback";
import { Facts, Page, Panel } from "../ui/page";

export default function Settings() {
  const status = useQuery(statusQuery);
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
