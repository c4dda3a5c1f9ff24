// Stopping a job that goes on, and beginning one anew that has failed. What cannot be done now says why.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Problem, json } from "../api/client";
import { apply } from "../api/live";
import { environmentQuery } from "../api/queries";
import type { Environment, Job } from "../api/types";
import { useMay } from "../lib/may";
import { navigate } from "../lib/router";
import { Button } from "../ui/controls";
import { Confirm } from "../ui/dialog";
import { toast } from "../ui/feedback";

const ended = (job: Job): boolean => job.state !== "pending" && job.state !== "running";

/** Why a job cannot be stopped; nothing when it can. */
export function whyNoCancel(job: Job): string | undefined {
  if (ended(job)) return "It has ended already";
  return job.operation === "delete" ? "A deletion cannot be cancelled: part of the environment is gone already" : undefined;
}

/** Why a job cannot be begun anew; `environment` is null when it is gone. */
export function whyNoResume(job: Job, environment: Environment | null | undefined): string | undefined {
  if (!ended(job)) return "It still goes on";
  if (job.state === "succeeded") return "It has not failed: there is nothing to resume";
  if (job.operation === "rotate-ca") return "Ask for another certificate authority again instead";
  if (environment === null) return "Its environment is gone";
  return environment !== undefined && environment.job !== job.id ? "It is not the last job of its environment: something else was asked for since" : undefined;
}

export function JobActions({ job, small = false }: { job: Job; small?: boolean }) {
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState(false);
  const cache = useQueryClient();
  const missing = useMay({ environment: job.environment })("jobs.cancel");
  const query = useQuery({ ...environmentQuery(job.environment), enabled: ended(job) });
  const gone = query.error instanceof Problem && query.error.status === 404;
  const act = async (what: "cancel" | "resume"): Promise<Job> => {
    const changed = await json<Job>(`/api/v1/jobs/${encodeURIComponent(job.id)}/${what}`, { method: "POST", json: {} });
    // As an event: it may have ended before this answer came.
    apply(cache, { kind: "job", object: changed });
    await cache.invalidateQueries({ queryKey: ["environment", job.environment] });
    return changed;
  };
  const resume = async (): Promise<void> => {
    setBusy(true);
    try {
      // Another job does the same from its first step.
      const next = await act("resume");
      toast(`${next.operation} ${next.environment} begins anew`);
      navigate(`/jobs/${next.id}`);
    } catch (error) {
      toast("It could not be resumed", error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {ended(job) ? (
        <Button small={small} icon="refresh" disabledReason={whyNoResume(job, gone ? null : query.data) ?? missing ?? (busy ? "It is being asked for" : undefined)} onPress={() => void resume()}>
          Resume
        </Button>
      ) : (
        <Button small={small} kind="danger" icon="cross" disabledReason={whyNoCancel(job) ?? missing} onPress={() => setAsked(true)}>
          Cancel job
        </Button>
      )}
      {asked && (
        <Confirm
          title={`Cancel ${job.operation} of ${job.environment}?`}
          verb="Cancel job"
          onClose={() => setAsked(false)}
          onConfirm={async () => {
            await act("cancel");
            toast(`${job.operation} ${job.environment} stops at its next step`);
          }}
        >
          It stops at its next step. What it has done until then stays, and the environment says so; it can be resumed.
        </Confirm>
      )}
    </>
  );
}
