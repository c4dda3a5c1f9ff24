// Buttons, fields and the like: React Aria's behaviour with our looks. What cannot be done now stays focusable and says why.
import { type ReactNode, useId, useState } from "react";
import {
  Button as AriaButton,
  Menu as AriaMenu,
  MenuItem,
  MenuTrigger,
  OverlayArrow,
  Popover,
  Tooltip,
  TooltipTrigger,
} from "react-aria-components";
import { Icon, type IconName } from "./icons";

export interface ButtonProps {
  children?: ReactNode;
  icon?: IconName;
  /** Spoken and shown as a tooltip where there is no text. */
  label?: string;
  kind?: "primary" | "quiet" | "danger" | "danger primary" | "plain";
  small?: boolean;
  type?: "button" | "submit";
  /** Why it cannot be pressed now; it can still be reached, and says so. */
  disabledReason?: string | undefined;
  pressed?: boolean;
  onPress?: () => void;
}

export function Button({ children, icon, label, kind = "plain", small = false, type = "button", disabledReason, pressed, onPress }: ButtonProps) {
  const disabled = disabledReason !== undefined && disabledReason !== "";
  const classes = ["button", kind === "plain" ? "" : kind, small ? "small" : "", children === undefined ? "icon-only" : ""].join(" ");
  const hint = disabled ? disabledReason : children === undefined ? label : undefined;
  const why = useId();
  const button = (
    <AriaButton
      className={classes}
      type={disabled ? "button" : type}
      aria-label={children === undefined ? label : undefined}
      aria-pressed={pressed}
      aria-disabled={disabled ? "true" : undefined}
      aria-describedby={disabled ? why : undefined}
      onPress={disabled ? undefined : onPress}
    >
      {icon && <Icon name={icon} />}
      {children}
    </AriaButton>
  );
  if (hint === undefined) return button;
  return (
    <>
      <TooltipTrigger delay={350} closeDelay={80}>
        {button}
        <Tooltip className="tooltip" offset={6}>
          <OverlayArrow />
          {hint}
        </Tooltip>
      </TooltipTrigger>
      {disabled && (
        <span id={why} className="hidden-visually">
          {disabledReason}
        </span>
      )}
    </>
  );
}

export interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  hint?: ReactNode;
  error?: string | undefined;
  required?: boolean;
  autoFocus?: boolean;
  mono?: boolean;
}

function useField(error: string | undefined, hint: ReactNode) {
  const id = useId();
  const described = [error ? `${id}-error` : "", hint ? `${id}-hint` : ""].filter(Boolean).join(" ");
  return { id, aria: { id, "aria-invalid": error ? true : undefined, "aria-describedby": described || undefined } as const };
}

function Frame({ id, label, required, error, hint, children }: { id: string; label: string; required?: boolean | undefined; error: string | undefined; hint: ReactNode; children: ReactNode }) {
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {required && (
          <span className="needed" aria-hidden="true">
            {" *"}
          </span>
        )}
      </label>
      {children}
      {error && (
        <span className="error-text" id={`${id}-error`} role="status">
          {error}
        </span>
      )}
      {hint && (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}

export function TextField({ label, value, onChange, hint, error, required, autoFocus, mono, type = "text", inputMode, placeholder }: FieldProps & { type?: "text" | "password"; inputMode?: "numeric" | "decimal"; placeholder?: string }) {
  const { id, aria } = useField(error, hint);
  return (
    <Frame {...{ id, label, required, error, hint }}>
      <input
        {...aria}
        className={mono ? "input mono" : "input"}
        type={type}
        inputMode={inputMode}
        placeholder={placeholder}
        value={value}
        required={required}
        autoFocus={autoFocus}
        autoComplete={type === "password" ? "new-password" : "off"}
        autoCapitalize="none"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
      />
    </Frame>
  );
}

export function TextArea({ label, value, onChange, hint, error, required, rows = 6 }: FieldProps & { rows?: number }) {
  const { id, aria } = useField(error, hint);
  return (
    <Frame {...{ id, label, required, error, hint }}>
      <textarea {...aria} className="input" rows={rows} spellCheck={false} value={value} onChange={(event) => onChange(event.target.value)} />
    </Frame>
  );
}

export function SelectField({ label, value, onChange, hint, error, required, options }: FieldProps & { options: { value: string; label: string }[] }) {
  const { id, aria } = useField(error, hint);
  return (
    <Frame {...{ id, label, required, error, hint }}>
      <select {...aria} className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </Frame>
  );
}

/** A select without a visible label, for toolbars. */
export function Choice({ label, value, onChange, options, className = "" }: { label: string; value: string; onChange: (value: string) => void; options: { value: string; label: string }[]; className?: string }) {
  return (
    <span className={className}>
      <select className="input" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </span>
  );
}

export function Switch({ children, selected, onChange }: { children: ReactNode; selected: boolean; onChange: (selected: boolean) => void }) {
  return (
    <label className="switch">
      <input type="checkbox" role="switch" className="hidden-visually" checked={selected} onChange={(event) => onChange(event.target.checked)} />
      <span className="track" />
      <span>{children}</span>
    </label>
  );
}

export function Search({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <div className="search" role="search">
      <Icon name="search" />
      <input className="input" type="search" aria-label={label} placeholder={label} value={value} autoComplete="off" spellCheck={false} onChange={(event) => onChange(event.target.value)} />
    </div>
  );
}

export interface MenuEntry {
  id: string;
  label: string;
  icon?: IconName;
  danger?: boolean;
  /** Why it cannot be done now; it can still be reached, and says so. */
  disabledReason?: string | undefined;
  onAction: () => void;
}

export function Menu({ label, icon = "more", entries, selected }: { label: string; icon?: IconName; entries: MenuEntry[]; selected?: string }) {
  const act = (entry: MenuEntry | undefined): void => {
    if (entry?.disabledReason === undefined) entry?.onAction();
  };
  const choice = selected === undefined ? {} : ({ selectionMode: "single", selectedKeys: [selected], disallowEmptySelection: true } as const);
  return (
    <MenuTrigger>
      <AriaButton className="button quiet icon-only" aria-label={label}>
        <Icon name={icon} />
      </AriaButton>
      <Popover className="popover" placement="bottom end" offset={4}>
        <AriaMenu aria-label={label} {...choice} onAction={(key) => act(entries.find((entry) => entry.id === key))}>
          {entries.map((entry) => (
            <MenuItem key={entry.id} id={entry.id} className={entry.disabledReason !== undefined ? "off" : entry.danger ? "danger" : ""} textValue={entry.label}>
              {entry.icon && <Icon name={entry.icon} />}
              <span>
                {entry.label}
                {entry.disabledReason !== undefined && <span className="why">{entry.disabledReason}</span>}
              </span>
            </MenuItem>
          ))}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}

/** A command or an address that can be taken along. */
export function Copy({ text, label }: { text: string; label: string }) {
  return (
    <div className="copy">
      <code tabIndex={0} role="textbox" aria-readonly="true" aria-label={label}>
        {text}
      </code>
      <CopyButton text={text} label={`Copy: ${label}`} />
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <>
      <Button kind="quiet" icon={copied ? "check" : "copy"} label={label} onPress={() => void copy()} />
      <span className="hidden-visually" role="status">
        {copied ? "Copied" : ""}
      </span>
    </>
  );
}
