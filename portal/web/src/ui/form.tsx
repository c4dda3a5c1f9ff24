// A dialog that asks for something and sends it: what is wrong is said before and after; what somebody else has changed meanwhile is merged.
import { type ReactNode, useState } from "react";
import { Changed, type Merge } from "../api/edit";
import { type Choice, differences, keyOf, merged } from "../lib/merging";
import { Button } from "./controls";
import { Dialog } from "./dialog";
import { ErrorNote } from "./feedback";
import { Merging } from "./merging";

export interface FormDialogProps {
  title: string;
  verb: string;
  /** Why it cannot be sent yet. */
  problem?: string | undefined;
  wide?: boolean;
  danger?: boolean;
  /** Resolves when it is done: the dialog closes. After a `Changed` it is called again with what came of the merge. */
  onSubmit: (merge?: Merge) => Promise<void>;
  onClose: () => void;
  children: ReactNode;
}

export function FormDialog({ title, verb, problem, wide = false, danger = false, onSubmit, onClose, children }: FormDialogProps) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [changed, setChanged] = useState<Changed | null>(null);
  const [choices, setChoices] = useState<Record<string, Choice>>({});
  const all = changed ? differences(changed.base, changed.mine, changed.theirs) : [];
  const open = all.some((each) => each.whose === "conflict" && choices[keyOf(each)] === undefined) ? "Choose for every field first" : undefined;
  const wrong = changed ? open : problem;
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await (changed ? onSubmit({ now: changed.now, settings: merged(changed.base, changed.mine, changed.theirs, choices) }) : onSubmit());
      onClose();
    } catch (caught) {
      if (caught instanceof Changed) {
        setChanged(caught);
        setChoices({});
      } else setError(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} wide={wide} onClose={onClose}>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (wrong === undefined && !busy) void submit();
        }}
      >
        {changed ? <Merging differences={all} choices={choices} onChoose={setChoices} /> : children}
        {error !== undefined && <ErrorNote error={error} />}
        <div className="buttons">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind={danger ? "danger primary" : "primary"} type="submit" disabledReason={busy ? "It is under way" : wrong}>
            {changed ? "Apply" : verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** A list of words that a person edits as lines or with commas between them. */
export function words(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}
