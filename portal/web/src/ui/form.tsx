// A dialog that asks for something and sends it: what is wrong is said before and after.
import { type ReactNode, useState } from "react";
import { Button } from "./controls";
import { Dialog } from "./dialog";
import { ErrorNote } from "./feedback";

export interface FormDialogProps {
  title: string;
  verb: string;
  /** Why it cannot be sent yet. */
  problem?: string | undefined;
  wide?: boolean;
  danger?: boolean;
  /** Resolves when it is done: the dialog closes. */
  onSubmit: () => Promise<void>;
  onClose: () => void;
  children: ReactNode;
}

export function FormDialog({ title, verb, problem, wide = false, danger = false, onSubmit, onClose, children }: FormDialogProps) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await onSubmit();
      onClose();
    } catch (caught) {
      setError(caught);
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
          if (problem === undefined && !busy) void submit();
        }}
      >
        {children}
        {error !== undefined && <ErrorNote error={error} />}
        <div className="buttons">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind={danger ? "danger primary" : "primary"} type="submit" disabledReason={busy ? "It is under way" : problem}>
            {verb}
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
