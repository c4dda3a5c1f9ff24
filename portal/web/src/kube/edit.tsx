// The YAML of an object: read, change, see what the server would make of it, apply.
import { useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy, useCallback, useMemo, useState } from "react";
import { parse, stringify } from "yaml";
import { Problem } from "../api/client";
import { download } from "../lib/download";
import { Button, CopyButton } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { ErrorNote, Note, Skeleton, toast } from "../ui/feedback";
import { type KubeObject, type Resource, openApiQuery, replace } from "./client";
import type { Help } from "./help";
import { merge } from "./merge";
import { schemaOfKind } from "./schema";

const Editor = lazy(() => import("./editor"));

/** An object as YAML, without what servers keep for themselves and nobody reads. */
export function yamlOf(object: KubeObject): string {
  const metadata: Record<string, unknown> = { ...object.metadata };
  delete metadata.managedFields;
  return stringify({ ...object, metadata }, { lineWidth: 0 });
}

/** The object of a text that was edited: it must still be the same one. */
export function objectOf(text: string, original: KubeObject): KubeObject {
  const parsed: unknown = parse(text);
  if (typeof parsed !== "object" || parsed === null || !("metadata" in parsed)) throw new Error("This is no Kubernetes object: it has no metadata");
  const object = parsed as KubeObject;
  for (const field of ["apiVersion", "kind"] as const) {
    if (object[field] !== original[field]) throw new Error(`${field} must stay ${original[field] ?? ""}`);
  }
  if (object.metadata.name !== original.metadata.name || (object.metadata.namespace ?? "") !== (original.metadata.namespace ?? "")) {
    throw new Error("Name and namespace must stay: create another object with kubectl instead");
  }
  return object;
}

interface Review {
  before: string;
  after: string;
  object: KubeObject;
}

export default function Edit({ environment, resource, namespace, object }: { environment: string; resource: Resource; namespace: string; object: KubeObject }) {
  const [editing, setEditing] = useState<{ base: KubeObject; text: string; round: number } | null>(null);
  const [review, setReview] = useState<Review | null>(null);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const cache = useQueryClient();
  const current = useMemo(() => yamlOf(object), [object]);
  const cannot = resource.verbs.includes("update") ? undefined : "This kind cannot be changed";
  const stale = editing !== null && editing.base.metadata.resourceVersion !== object.metadata.resourceVersion;
  const { group, version, kind } = resource;
  const help = useCallback(async (): Promise<Help | null> => {
    const document = await cache.query(openApiQuery(environment, { group, version }));
    const root = document ? schemaOfKind(document, group, version, kind) : undefined;
    return document && root ? { document, root } : null;
  }, [cache, environment, group, version, kind]);
  const [conflicts, setConflicts] = useState<string[]>([]);
  const begin = (): void => {
    setError(undefined);
    setConflicts([]);
    setEditing({ base: object, text: current, round: (editing?.round ?? 0) + 1 });
  };
  /** What was changed here, in the newest state. */
  const bring = (): void => {
    if (!editing) return;
    try {
      // What the server counts is the newest one's, whatever is written here.
      const plain = (of: KubeObject): KubeObject => ({ ...of, metadata: { ...of.metadata, resourceVersion: "" } });
      const merged = merge(plain(parse(yamlOf(editing.base)) as KubeObject), plain(objectOf(editing.text, editing.base)), plain(parse(current) as KubeObject));
      const value = merged.value as KubeObject;
      setConflicts(merged.conflicts);
      setError(undefined);
      setReview(null);
      setEditing({ base: object, text: yamlOf({ ...value, metadata: { ...value.metadata, ...(object.metadata.resourceVersion === undefined ? {} : { resourceVersion: object.metadata.resourceVersion }) } }), round: editing.round + 1 });
    } catch (caught) {
      setError(caught);
    }
  };
  const attempt = async (what: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await what();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const look = (): Promise<void> =>
    attempt(async () => {
      if (!editing) return;
      const wanted = objectOf(editing.text, editing.base);
      const after = await replace(environment, resource, namespace, wanted, true);
      setReview({ before: yamlOf(editing.base), after: yamlOf(after), object: wanted });
    });
  const apply = (): Promise<void> =>
    attempt(async () => {
      if (!review) return;
      await replace(environment, resource, namespace, review.object, false);
      toast(`${resource.kind} ${object.metadata.name} was changed`);
      setReview(null);
      setEditing(null);
      await cache.invalidateQueries({ queryKey: ["kube", environment, "object"] });
    });
  return (
    <div className="stack tight">
      <div className="toolbar">
        {editing ? (
          <>
            <Button kind="primary" disabledReason={busy ? "The server is asked" : editing.text === yamlOf(editing.base) ? "Nothing has changed" : undefined} onPress={() => void look()}>
              Review changes
            </Button>
            <Button onPress={() => setEditing(null)}>Cancel</Button>
          </>
        ) : (
          <Button icon="edit" disabledReason={cannot} onPress={begin}>
            Edit
          </Button>
        )}
        <span className="spring" />
        <CopyButton text={editing?.text ?? current} label="Copy YAML" />
        <Button kind="quiet" icon="download" label="Save YAML" onPress={() => download(`${object.metadata.name}.yaml`, editing?.text ?? current, "application/yaml")} />
      </div>
      {stale && (
        <Note kind="busy" icon="warning">
          <span>Somebody else has changed it since you began. What you apply is refused then.</span>
          <span className="chips">
            <Button small kind="primary" onPress={bring}>
              Bring your changes to the newest
            </Button>
            <Button small onPress={begin}>
              Begin again without them
            </Button>
          </span>
        </Note>
      )}
      {editing !== null && !stale && conflicts.length > 0 && (
        <Note kind="bad" icon="warning">
          <span>Both of you changed {conflicts.join(", ")}. Yours is below: look at the review before you apply it.</span>
        </Note>
      )}
      {error !== undefined && review === null && <ErrorNote error={error} />}
      <Suspense fallback={<Skeleton rows={12} />}>
        {editing ? (
          <Editor key={editing.round} label={`YAML of ${object.metadata.name}`} text={editing.text} readOnly={false} help={help} onChange={(text) => setEditing((now) => (now ? { ...now, text } : now))} />
        ) : (
          <Editor label={`YAML of ${object.metadata.name}`} text={current} readOnly help={help} />
        )}
      </Suspense>
      {review && (
        <Dialog wide title="What the server would store" onClose={() => setReview(null)}>
          {review.before === review.after ? (
            <Note kind="">
              <span>Nothing would change: the server keeps these fields as they are.</span>
            </Note>
          ) : (
            <Suspense fallback={<Skeleton rows={8} />}>
              <Editor label="Changes" text={review.after} against={review.before} readOnly />
            </Suspense>
          )}
          {error !== undefined && <ErrorNote error={error instanceof Problem && error.status === 409 ? new Error(`${error.message}. Close this, and bring your changes to the newest.`) : error} />}
          <div className="buttons">
            <Button onPress={() => setReview(null)}>Back</Button>
            <Button kind="primary" disabledReason={busy ? "The server is asked" : review.before === review.after ? "Nothing would change" : undefined} onPress={() => void apply()}>
              Apply
            </Button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
