// Changes of objects, as the server worked them out.
import type { ObjectChange } from "../api/types";
import { Diff } from "../ui/diff";
import { State } from "../ui/feedback";

const TONES = { create: "good", update: "busy", delete: "bad" } as const;
const WORDS = { create: "comes", update: "changes", delete: "goes" } as const;

export function Changes({ changes }: { changes: ObjectChange[] }) {
  return (
    <div className="stack">
      {changes.map((each) => (
        <section key={`${each.kind}/${each.namespace}/${each.name}`} className="stack tight" aria-label={`${each.kind} ${each.name}`}>
          <h3>
            {each.kind} {each.namespace === "" ? each.name : `${each.namespace}/${each.name}`} <State tone={TONES[each.change]}>{WORDS[each.change]}</State>
          </h3>
          {each.diff !== "" && <Diff label={`What changes of ${each.kind} ${each.name}`} text={each.diff} />}
        </section>
      ))}
    </div>
  );
}
