// What a word of a status says: fine, under way, or broken.
import type { Tone } from "../ui/feedback";

const BAD = /error|fail|backoff|crash|invalid|lost|evicted|unknown|oomkilled|notready/i;
const GOOD = /^(running|active|bound|ready|available|true|succeeded|completed?|normal|established)$/i;
const BUSY = /^(pending|terminating|containercreating|creating|released|podinitializing|init:.*|progressing)$/i;

export function toneOf(text: string): Tone | undefined {
  if (GOOD.test(text)) return "good";
  if (BUSY.test(text)) return "busy";
  return BAD.test(text) ? "bad" : undefined;
}
