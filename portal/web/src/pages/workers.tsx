import { useQuery } from "@tanstack/react-query";
import { workersQuery } from "../api/queries";
import type { Worker } from "../api/types";
import { bytes, cores, plural } from "../lib/format";
import { Age, Empty, Loaded, State } from "../ui/feedback";
import { Page } from "../ui/page";
import { type Column, Table } from "../ui/table";

const COLUMNS: Column<Worker>[] = [
  { id: "name", title: "Name", width: "minmax(7rem, 1.4fr)", cell: (w) => w.name },
  { id: "agent", title: "Agent", width: "minmax(8rem, 1fr)", cell: (w) => (w.connected ? <State tone="good">Connected</State> : <State tone="bad">Not connected</State>) },
  { id: "kind", title: "Kind", width: "6rem", cell: (w) => w.kind, from: 480 },
  { id: "pods", title: "Pods", width: "4rem", right: true, cell: (w) => w.pods.toLocaleString("en") },
  { id: "cpu", title: "CPU", width: "5rem", right: true, cell: (w) => cores(w.cpuMillis), from: 560 },
  { id: "memory", title: "Memory", width: "6rem", right: true, cell: (w) => bytes(w.memoryBytes), from: 560 },
  { id: "runtime", title: "Runtime", width: "minmax(8rem, 1.4fr)", cell: (w) => w.runtime || "–", from: 820 },
  { id: "seen", title: "Heard of", width: "5rem", right: true, cell: (w) => (w.lastSeen ? <Age time={w.lastSeen} /> : "–"), from: 700 },
];

export default function Workers() {
  const query = useQuery(workersQuery);
  return (
    <Page title="Workers" sub="Machines and clusters that run the pods of environments.">
      <Loaded query={query}>
        {(workers) =>
          workers.length === 0 ? (
            <Empty icon="workers" title="No workers">
              <p>Pods stay Pending until one connects.</p>
            </Empty>
          ) : (
            <Table label="Workers" rows={workers} columns={COLUMNS} rowKey={(w) => w.name} foot={plural(workers.length, "worker")} />
          )
        }
      </Loaded>
    </Page>
  );
}
