// CodeMirror with YAML. It lives in a shadow root, where its styles are adopted style sheets, which the policy of the page allows.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, bracketMatching, foldGutter, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { type Help, schemaHelp } from "./help";

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "light-dark(#3f4fc4, #98a4ff)" },
    { tag: [tags.string, tags.special(tags.string), tags.content], color: "light-dark(#15181c, #e7e9ec)" },
    { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "light-dark(#12703f, #4cc38a)" },
    { tag: tags.comment, color: "light-dark(#646d78, #8d97a3)", fontStyle: "italic" },
  ]),
);

const looks = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "12.5px", maxHeight: "min(68vh, 48rem)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent) !important" },
  ".cm-changedLine": { backgroundColor: "color-mix(in srgb, var(--good) 12%, transparent) !important" },
  ".cm-deletedChunk": { backgroundColor: "color-mix(in srgb, var(--bad) 12%, transparent) !important" },
  ".cm-changedText, .cm-deletedText": { background: "color-mix(in srgb, currentColor 8%, transparent) !important", boxShadow: "inset 0 -1px currentColor" },
  ".cm-collapsedLines": { color: "var(--text-3)", background: "var(--sunken)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "6px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "light-dark(#fff, #15181c)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.8" },
  ".cm-help": { maxWidth: "26rem", padding: "6px 8px", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-help-type": { fontFamily: "var(--mono)", color: "var(--text-2)" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)" },
});

export interface EditorProps {
  label: string;
  text: string;
  /** Show what differs from this. */
  against?: string;
  readOnly: boolean;
  /** What its fields mean; asked when it is wanted. */
  help?: () => Promise<Help | null>;
  onChange?: (text: string) => void;
}

export default function Editor({ label, text, against, readOnly, help, onChange }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const changed = useRef(onChange);
  const first = useRef(text);
  useEffect(() => {
    changed.current = onChange;
  }, [onChange]);
  useEffect(() => {
    first.current = text;
  }, [text]);
  // A text that is being edited is the editor's; another one to begin with comes with another key.
  const shown = readOnly ? text : null;
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const extensions: Extension[] = [
      lineNumbers(),
      foldGutter(),
      yaml(),
      colours,
      looks,
      bracketMatching(),
      highlightSelectionMatches(),
      EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
      keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap]),
      EditorState.readOnly.of(readOnly),
      EditorView.editable.of(true),
    ];
    if (help) extensions.push(schemaHelp(help));
    if (!readOnly) {
      extensions.push(history(), indentOnInput(), highlightActiveLine(), keymap.of([indentWithTab]));
      extensions.push(EditorView.updateListener.of((update) => update.docChanged && changed.current?.(update.state.doc.toString())));
    }
    if (against !== undefined) extensions.push(unifiedMergeView({ original: against, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }));
    const view = new EditorView({ state: EditorState.create({ doc: shown ?? first.current, extensions }), parent: root, root });
    return () => view.destroy();
  }, [label, readOnly, against, shown, help]);
  return <div className="editor" ref={place} />;
}
