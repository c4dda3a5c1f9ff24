// The steps of a job, live: what is done, what runs, what was said.
import { useEffect, useRef } from "react";
import type { Job, JobState } from "../api/types";
import { useNow } from "../lib/clock";
import { elapsed } from "../lib/format";
import { ErrorNote } from "../ui/feedback";
import { Icon, type IconName } from "../ui/icons";

const ICONS: Record<JobState, IconName> = { pending: "circle", running: "turning", succeeded: "approvals", failed: "cross", cancelled: "circle" };

export function Steps({ job }: { job: Job }) {
  const now = useNow();
  const done = job.steps.filter((step) => step.state === "succeeded").length;
  return (
    <div className="stack tight">
      <div className="bar" role="progressbar" aria-label="Steps" aria-valuemin={0} aria-valuemax={job.steps.length} aria-valuenow={done}>
        <span style={{ flexGrow: done }} />
        <span className="rest" style={{ flexGrow: Math.max(job.steps.length - done, done === 0 ? 1 : 0) }} />
      </div>
      <ol className="steps">
        {job.steps.map((step) => (
          <li key={step.name} className={`step ${step.state}`}>
            <Icon name={ICONS[step.state]} className="dot" />
            <span>
              {step.name}
              <span className="hidden-visually">: {step.state}</span>
            </span>
            <span className="faint number">{step.startedAt ? elapsed(step.startedAt, step.finishedAt ?? (step.state === "running" ? now : step.startedAt)) : ""}</span>
            {step.message !== "" && <span className="message">{step.message}</span>}
          </li>
        ))}
      </ol>
      {job.error !== "" && <ErrorNote error={new Error(job.error)} />}
    </div>
  );
}

export function JobLog({ job }: { job: Job }) {
  const box = useRef<HTMLDivElement>(null);
  const lines = job.log ?? [];
  useEffect(() => {
    const element = box.current;
    // Follow, unless who reads has scrolled up.
    if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 120) element.scrollTop = element.scrollHeight;
  }, [lines.length]);
  if (lines.length === 0) return <p className="faint">Nothing was said yet.</p>;
  return (
    <div className="log job-log" ref={box} role="log" aria-label="Log" tabIndex={0}>
      {lines.map((line, index) => (
        <div key={index} className="line">
          <time dateTime={line.at}>{line.at.slice(11, 19)}</time>
          <span>
            <span className="from">{line.step}</span> {line.message}
          </span>
        </div>
      ))}
    </div>
  );
}
