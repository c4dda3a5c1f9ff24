// What there may be at most: fields for it. Empty is no limit.
import type { Quota } from "../api/types";
import { TextField } from "../ui/controls";

export interface QuotaTexts {
  environments: string;
  awake: string;
  cpu: string;
  memory: string;
  storage: string;
  /** `team-x=3, blank=1`. */
  templates: string;
  /** Limits that have no field here stay as they are. */
  rest: Quota;
}

export function quotaTexts(quota: Quota): QuotaTexts {
  const text = (value: number | undefined): string => (value === undefined ? "" : String(value));
  const { environments, awake, cpu = "", memory = "", storage = "", templates, ...rest } = quota;
  const limits = Object.entries(templates ?? {}).map(([name, limit]) => `${name}=${limit}`);
  return { environments: text(environments), awake: text(awake), cpu, memory, storage, templates: limits.join(", "), rest };
}

const COUNT = /^\d{1,9}$/;
const QUANTITY = /^\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/;
const ENTRY = /^([a-z0-9][a-z0-9-]*)=(\d{1,9})$/;
const entries = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);
const wrongCount = (text: string): string | undefined => (text === "" || COUNT.test(text) ? undefined : "A whole number, or nothing");
const wrongQuantity = (text: string): string | undefined => (text === "" || QUANTITY.test(text) ? undefined : "A quantity such as 500m, 4 or 16Gi, or nothing");

export function quotaProblem(texts: QuotaTexts): string | undefined {
  for (const text of [texts.environments, texts.awake]) if (wrongCount(text)) return "A limit is a whole number, or nothing";
  for (const text of [texts.cpu, texts.memory, texts.storage]) if (wrongQuantity(text)) return "Write a quantity such as 500m, 4 or 16Gi, or nothing";
  const wrong = entries(texts.templates).find((each) => !ENTRY.test(each));
  return wrong === undefined ? undefined : `Write TEMPLATE=NUMBER instead of ${wrong}`;
}

export function quotaOf(texts: QuotaTexts): Quota {
  const { environments, awake, cpu, memory, storage, rest } = texts;
  const templates = Object.fromEntries(
    entries(texts.templates).flatMap((each) => {
      const [, name, limit] = ENTRY.exec(each) ?? [];
      return name === undefined ? [] : [[name, Number(limit)]];
    }),
  );
  return {
    ...rest,
    ...(environments === "" ? {} : { environments: Number(environments) }),
    ...(awake === "" ? {} : { awake: Number(awake) }),
    ...(cpu === "" ? {} : { cpu }),
    ...(memory === "" ? {} : { memory }),
    ...(storage === "" ? {} : { storage }),
    ...(Object.keys(templates).length === 0 ? {} : { templates }),
  };
}

/** How a quota reads in one line. */
export function quotaText(quota: Quota): string {
  const { environments, awake, cpu, memory, storage, templates } = quotaTexts(quota);
  const named = (text: string, name: string): string => (text === "" ? "" : `${text} ${name}`);
  const all = [named(environments, "environments"), named(awake, "awake"), named(cpu, "CPU"), named(memory, "memory"), named(storage, "storage"), templates];
  return all.filter(Boolean).join(", ") || "no limit";
}

interface Fields {
  texts: QuotaTexts;
  onChange: (texts: QuotaTexts) => void;
}

export function QuotaFields({ texts, onChange }: Fields) {
  return (
    <div className="form">
      <TextField label="Environments" value={texts.environments} inputMode="numeric" placeholder="no limit" error={wrongCount(texts.environments)} onChange={(environments) => onChange({ ...texts, environments })} />
      <TextField label="Awake at the same time" value={texts.awake} inputMode="numeric" placeholder="no limit" error={wrongCount(texts.awake)} onChange={(awake) => onChange({ ...texts, awake })} />
      <Amounts texts={texts} onChange={onChange} />
      <div className="wide">
        <TextField label="By template" value={texts.templates} placeholder="no limit" hint="Such as team-x=3, blank=1" mono onChange={(templates) => onChange({ ...texts, templates })} />
      </div>
    </div>
  );
}

/** Without numbers of environments. */
export function AmountFields(fields: Fields) {
  return (
    <div className="form">
      <Amounts {...fields} />
    </div>
  );
}

function Amounts({ texts, onChange }: Fields) {
  return (
    <>
      <TextField label="CPU" value={texts.cpu} placeholder="no limit" hint="What pods request, such as 4 or 500m" error={wrongQuantity(texts.cpu)} mono onChange={(cpu) => onChange({ ...texts, cpu })} />
      <TextField label="Memory" value={texts.memory} placeholder="no limit" hint="What pods request, such as 16Gi" error={wrongQuantity(texts.memory)} mono onChange={(memory) => onChange({ ...texts, memory })} />
      <TextField label="Storage" value={texts.storage} placeholder="no limit" hint="What is claimed, such as 100Gi" error={wrongQuantity(texts.storage)} mono onChange={(storage) => onChange({ ...texts, storage })} />
    </>
  );
}
