// Help in the editor: names and values of fields while one types, and what a field means under the pointer, from what the environment serves.
import { type Completion, type CompletionContext, type CompletionResult, autocompletion, completionKeymap } from "@codemirror/autocomplete";
import type { Extension, Text } from "@codemirror/state";
import { type EditorView, type Tooltip, hoverTooltip, keymap } from "@codemirror/view";
import { type Field, type OpenApi, type Schema, fieldsOf, resolved, schemaAt, spotAt, typeOf, valuesOf } from "./schema";

/** The document of a kind, and the kind's schema in it. */
export interface Help {
  document: OpenApi;
  root: Schema;
}

function linesOf(text: Text): string[] {
  return text.toString().split("\n");
}

/** What is written after the name of a field: an object or a list goes on in the next line. */
function applied(field: Field, indent: number): string {
  const deeper = `\n${" ".repeat(indent + 2)}`;
  if (field.type.startsWith("[]")) return `${field.name}:${deeper}- `;
  return field.type === "object" || field.type.startsWith("map[") ? `${field.name}:${deeper}` : `${field.name}: `;
}

function about(type: string, description: string, required: boolean): HTMLElement {
  const element = document.createElement("div");
  const head = document.createElement("div");
  head.textContent = `${type}${required ? ", needed" : ""}`;
  head.className = "cm-help-type";
  const text = document.createElement("div");
  text.textContent = description;
  element.className = "cm-help";
  element.append(head, text);
  return element;
}

export function completions(help: Help, lines: string[], line: number, column: number): { from: number; options: Completion[] } | null {
  const spot = spotAt(lines, line, column);
  if (!spot) return null;
  const written = (lines[line] ?? "").slice(0, column);
  const schema = schemaAt(help.document, help.root, spot.place);
  if (spot.atValue && spot.key !== undefined) {
    const value = resolved(help.document, schema?.properties?.[spot.key]);
    const from = column - (/[^\s"']*$/.exec(written)?.[0].length ?? 0);
    return { from, options: valuesOf(value).map((each) => ({ label: each, type: "enum" })) };
  }
  // A list begins with a dash.
  if (schema?.type === "array") return null;
  const from = Math.min(spot.column, column);
  const fields = fieldsOf(help.document, schema).filter((each) => each.name === spot.key || !spot.siblings.has(each.name));
  // The name alone where there is a colon already.
  const whole = (field: Field): string => (spot.key === undefined ? applied(field, spot.column) : field.name);
  return { from, options: fields.map((field) => ({ label: field.name, detail: field.type, type: "property", boost: field.required ? 1 : 0, info: () => about(field.type, field.description, field.required), apply: whole(field) })) };
}

/** Extensions of an editor of one object; `load` is asked once, when help is wanted first. Without a document there is no help. */
export function schemaHelp(load: () => Promise<Help | null>): Extension {
  let loading: Promise<Help | null> | undefined;
  const loaded = (): Promise<Help | null> => (loading ??= load().catch(() => ((loading = undefined), null)));
  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const word = context.matchBefore(/[\w.$/-]+$/);
    const line = context.state.doc.lineAt(context.pos);
    const afterColon = /:\s+$/.test(line.text.slice(0, context.pos - line.from));
    if (!context.explicit && !word && !afterColon) return null;
    const help = await loaded();
    if (!help || context.aborted) return null;
    const found = completions(help, linesOf(context.state.doc), line.number - 1, context.pos - line.from);
    return found && found.options.length > 0 ? { from: line.from + found.from, options: found.options, validFor: /^[\w.-]*$/ } : null;
  };
  const hover = async (view: EditorView, at: number): Promise<Tooltip | null> => {
    const line = view.state.doc.lineAt(at);
    const column = at - line.from;
    const spot = spotAt(linesOf(view.state.doc), line.number - 1, column);
    if (!spot || spot.key === undefined || spot.atValue || column < spot.column) return null;
    const help = await loaded();
    if (!help) return null;
    const parent = schemaAt(help.document, help.root, spot.place);
    const schema = schemaAt(help.document, help.root, [...spot.place, spot.key]);
    if (!schema) return null;
    const dom = about(typeOf(help.document, schema), schema.description ?? "", parent?.required?.includes(spot.key) === true);
    return { pos: line.from + spot.column, end: line.from + spot.column + spot.key.length, above: true, create: () => ({ dom }) };
  };
  return [autocompletion({ override: [complete], activateOnTyping: true, icons: false }), hoverTooltip(hover, { hoverTime: 300 }), keymap.of(completionKeymap)];
}
