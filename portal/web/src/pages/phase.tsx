import type { Environment, JobState, Phase } from "../api/types";
import { State, type Tone } from "../ui/feedback";

const TONES: Record<string, Tone> = { Ready: "good", Failed: "bad", Sleeping: "idle", PendingApproval: "idle" };

export function PhaseState({ phase }: { phase: Phase }) {
  return <State tone={TONES[phase] ?? "busy"}>{phase}</State>;
}

const JOB_TONES: Record<JobState, Tone> = { pending: "idle", running: "busy", succeeded: "good", failed: "bad", cancelled: "idle" };

export function JobStateText({ state }: { state: JobState }) {
  return <State tone={JOB_TONES[state]}>{state.slice(0, 1).toUpperCase() + state.slice(1)}</State>;
}

export function PodsText({ environment }: { environment: Environment }) {
  const { ready, total } = environment.pods;
  if (total === 0) return <span className="faint">no pods</span>;
  return (
    <span className="number">
      {ready}/{total} pods
    </span>
  );
}
