// What an environment used over the last hours: processors, memory, requests to its API.
import { useQuery } from "@tanstack/react-query";
import { Suspense, lazy, useMemo } from "react";
import { seriesQuery } from "../../api/queries";
import type { Environment, UsageSeries } from "../../api/types";
import { bytes } from "../../lib/format";
import { useQueryValue } from "../../lib/router";
import { Button } from "../../ui/controls";
import { Empty, Loaded, Skeleton } from "../../ui/feedback";
import { Panel } from "../../ui/page";

const Plot = lazy(() => import("../../ui/plot"));

/** How far back, and how long a step is then: some hundred points, whatever the span. */
type Span = [since: string, step: string, label: string];
const HOUR: Span = ["1h", "1m", "1 hour"];
const SPANS: Span[] = [
  HOUR,
  ["6h", "2m", "6 hours"],
  ["24h", "10m", "24 hours"],
];

export interface Columns {
  times: number[];
  cpu: (number | null)[];
  memory: (number | null)[];
  requests: (number | null)[];
}

/** The series with every step of its time: those without a point are gaps. */
export function columnsOf(series: UsageSeries): Columns {
  const step = Math.max(60, series.stepSeconds);
  const [since, until] = [Date.parse(series.since) / 1000, Date.parse(series.until) / 1000];
  const points = new Map(series.points.map((point) => [Math.round(Date.parse(point.at) / 1000), point]));
  const columns: Columns = { times: [], cpu: [], memory: [], requests: [] };
  // A day of minutes, whatever a server says.
  for (let at = since; at < until && columns.times.length < 1440; at += step) {
    const point = points.get(Math.round(at));
    columns.times.push(at);
    columns.cpu.push(point ? point.cpuNanoCores / 1e9 : null);
    columns.memory.push(point ? point.memoryBytes : null);
    columns.requests.push(point ? point.requests : null);
  }
  return columns;
}

export function coresText(cores: number): string {
  if (cores === 0) return "0";
  return cores < 0.1 ? `${Number((cores * 1000).toPrecision(2))} m` : String(Number(cores.toPrecision(2)));
}

const count = (value: number): string => (Number.isInteger(value) ? value.toLocaleString("en") : "");

export function Usage({ environment }: { environment: Environment }) {
  const [span, setSpan] = useQueryValue("span", "1h");
  const [since, step, label] = SPANS.find(([id]) => id === span) ?? HOUR;
  const query = useQuery({ ...seriesQuery(environment.name, since, step), placeholderData: (before) => before });
  return (
    <div className="stack">
      <div className="toolbar">
        <div className="group" role="group" aria-label="Time">
          {SPANS.map(([id, , title]) => (
            <Button key={id} pressed={id === since} onPress={() => setSpan(id)}>
              {title}
            </Button>
          ))}
        </div>
      </div>
      <Loaded query={query}>
        {(series) =>
          series.points.length === 0 ? (
            <Empty icon="workers" title={`Nothing was used in the last ${label}`}>
              <p>A sample is taken every minute while something runs or its API is asked.</p>
            </Empty>
          ) : (
            <Plots series={series} />
          )
        }
      </Loaded>
    </div>
  );
}

function Plots({ series }: { series: UsageSeries }) {
  const { times, cpu, memory, requests } = useMemo(() => columnsOf(series), [series]);
  const each = series.stepSeconds === 60 ? "a minute" : `${series.stepSeconds / 60} minutes`;
  return (
    <Suspense fallback={<Skeleton />}>
      <div className="stack">
        <Panel title="Processors">
          <Plot label="Cores" times={times} values={cpu} text={coresText} colour="--accent" />
        </Panel>
        <Panel title="Memory">
          <Plot label="Working set" times={times} values={memory} text={bytes} colour="--good" />
        </Panel>
        <Panel title="Requests to its API">
          <Plot label={`Requests in ${each}`} times={times} values={requests} text={count} colour="--busy" bars />
        </Panel>
      </div>
    </Suspense>
  );
}
