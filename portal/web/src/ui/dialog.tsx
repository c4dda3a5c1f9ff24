// Dialogs: the focus stays inside, Escape closes, the page behind is out of reach.
import { type ReactNode, useState } from "react";
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { Button, TextField } from "./controls";
import { ErrorNote } from "./feedback";

export function Dialog({ title, onClose, wide = false, children }: { title: string; onClose: () => void; wide?: boolean; children: ReactNode }) {
  return (
    <ModalOverlay className="veil" isOpen isDismissable onOpenChange={(open) => !open && onClose()}>
      <Modal className={wide ? "dialog wide" : "dialog"}>
        <AriaDialog>
          <Heading slot="title">{title}</Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export interface ConfirmProps {
  title: string;
  /** What is lost. */
  children: ReactNode;
  /** Must be typed; nothing for an act that can be undone. */
  typed?: string;
  verb: string;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something is lost: by the name of what is lost, typed. */
export function Confirm({ title, children, typed, verb, onConfirm, onClose }: ConfirmProps) {
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const ready = typed === undefined || text === typed;
  const reason = busy ? "It is under way" : typed === undefined || ready ? undefined : `Type ${typed} first`;
  const confirm = async (): Promise<void> => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready && !busy) void confirm();
        }}
      >
        <div className="soft">{children}</div>
        {typed !== undefined && <TextField label={`Type ${typed} to confirm`} value={text} onChange={setText} autoFocus mono />}
        {error !== undefined && <ErrorNote error={error} />}
        <div className="buttons">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="danger primary" type="submit" disabledReason={reason}>
            {busy ? `${verb}…` : verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
