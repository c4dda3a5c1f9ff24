// What there may be at most: fields for it. Empty is no limit.
import type { Quota } from "../api/types";
import { TextField } from "../ui/controls";

export interface QuotaTexts {
  environments: string;
  awake: string;
  /** `team-x=3, blank=1`. */
  templates: string;
  /** Limits that have no field here stay as they are. */
  rest: Quota;
}

export function quotaTexts(quota: Quota): QuotaTexts {
  const text = (value: number | undefined): string => (value === undefined ? "" : String(value));
  const { environments, awake, templates, ...rest } = quota;
  const limits = Object.entries(templates ?? {}).map(([name, limit]) => `${name}=${limit}`);
  return { environments: text(environments), awake: text(awake), templates: limits.join(", "), rest };
}

const COUNT = /^\d{1,9}$/;
const ENTRY = /^([a-z0-9][a-z0-9-]*)=(\d{1,9})$/;
const entries = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

export function quotaProblem(texts: QuotaTexts): string | undefined {
  for (const text of [texts.environments, texts.awake]) if (text !== "" && !COUNT.test(text)) return "A limit is a whole number, or nothing";
  const wrong = entries(texts.templates).find((each) => !ENTRY.test(each));
  return wrong === undefined ? undefined : `Write TEMPLATE=NUMBER instead of ${wrong}`;
}

export function quotaOf(texts: QuotaTexts): Quota {
  const templates = Object.fromEntries(
    entries(texts.templates).flatMap((each) => {
      const [, name, limit] = ENTRY.exec(each) ?? [];
      return name === undefined ? [] : [[name, Number(limit)]];
    }),
  );
  return {
    ...texts.rest,
    ...(texts.environments === "" ? {} : { environments: Number(texts.environments) }),
    ...(texts.awake === "" ? {} : { awake: Number(texts.awake) }),
    ...(Object.keys(templates).length === 0 ? {} : { templates }),
  };
}

/** How a quota reads in one line. */
export function quotaText(quota: Quota): string {
  const { environments, awake, templates } = quotaTexts(quota);
  return [environments === "" ? "" : `${environments} environments`, awake === "" ? "" : `${awake} awake`, templates].filter(Boolean).join(", ") || "no limit";
}

export function QuotaFields({ texts, onChange }: { texts: QuotaTexts; onChange: (texts: QuotaTexts) => void }) {
  const wrong = (text: string): string | undefined => (text === "" || COUNT.test(text) ? undefined : "A whole number, or nothing");
  return (
    <div className="form">
      <TextField label="Environments" value={texts.environments} inputMode="numeric" placeholder="no limit" error={wrong(texts.environments)} onChange={(environments) => onChange({ ...texts, environments })} />
      <TextField label="Awake at the same time" value={texts.awake} inputMode="numeric" placeholder="no limit" error={wrong(texts.awake)} onChange={(awake) => onChange({ ...texts, awake })} />
      <div className="wide">
        <TextField label="By template" value={texts.templates} placeholder="no limit" hint="Such as team-x=3, blank=1" mono onChange={(templates) => onChange({ ...texts, templates })} />
      </div>
    </div>
  );
}
