// A terminal in a container: xterm.js over Kubernetes' websocket protocol (v5.channel.k8s.io).
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "react";
import { Button } from "../ui/controls";
import { State } from "../ui/feedback";
import { kube } from "./client";

// Channels of the protocol: the first byte of every message (kubernetes/apimachinery, pkg/util/remotecommand).
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const ERROR = 3;
const RESIZE = 4;
const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

export function framed(channel: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(data.length + 1);
  frame[0] = channel;
  frame.set(data, 1);
  return frame;
}

/** What the end of a command says. */
export function ending(status: { status?: string; message?: string; details?: { causes?: { reason?: string; message?: string }[] } }): string {
  if (status.status === "Success") return "The command has ended.";
  const code = status.details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
  return code === undefined ? (status.message ?? "The session has ended.") : `The command has ended with code ${code}.`;
}

/** An element that means nothing, for one of style, which the policy of the page forbids: its text becomes a style sheet of the document. */
function quietStyle(sheets: Set<CSSStyleSheet>): HTMLElement {
  const element = document.createElement("span");
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  sheets.add(sheet);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  new MutationObserver(() => sheet.replaceSync(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  return element;
}

/** An element whose attribute `style`, which the policy forbids to set as text, is set as properties. */
function withStyle(element: HTMLElement): HTMLElement {
  const set = element.setAttribute.bind(element);
  element.setAttribute = (name, value) => {
    if (name === "style") element.style.cssText = value;
    else set(name, value);
  };
  return element;
}

let terminals = 0;
/** Sheets of the terminal that is being opened. */
let opening: Set<CSSStyleSheet> | null = null;

function create(name: string): HTMLElement {
  const element = document.createElementNS("http://www.w3.org/1999/xhtml", name.toLowerCase());
  return name === "span" ? withStyle(element) : element;
}

/**
 * While there are terminals, what the document makes for xterm.js keeps to the policy of the page: its renderer takes the window's document
 * whatever document it is given.
 */
function beQuiet(): () => void {
  terminals += 1;
  Object.defineProperty(document, "createElement", { configurable: true, value: (name: string) => (name === "style" && opening ? quietStyle(opening) : create(name)) });
  return () => {
    terminals -= 1;
    if (terminals === 0) Reflect.deleteProperty(document, "createElement");
  };
}

export default function Terminal({ environment, namespace, pod, container, command }: { environment: string; namespace: string; pod: string; container: string; command: string[] }) {
  const place = useRef<HTMLDivElement>(null);
  const [status, setStatus] = useState("connecting");
  const [attempt, setAttempt] = useState(0);
  const words = command.join(" ");
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    setStatus("connecting");
    const sheets = new Set<CSSStyleSheet>();
    const terminal = new Xterm({
      fontFamily: 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace',
      fontSize: 13,
      cursorBlink: true,
      screenReaderMode: true,
      theme: { background: "#0b0d10", foreground: "#e7e9ec", cursor: "#98a4ff", selectionBackground: "#38418a" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    const loud = beQuiet();
    opening = sheets;
    terminal.open(element);
    opening = null;
    const query = new URLSearchParams({ container, stdin: "true", stdout: "true", tty: "true" });
    words.split(" ").forEach((word) => query.append("command", word));
    const path = kube(environment, `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec?${query.toString()}`);
    const socket = new WebSocket(`wss://${location.host}${path}`, PROTOCOLS);
    socket.binaryType = "arraybuffer";
    const encoder = new TextEncoder();
    const say = (channel: number, text: string): void => {
      if (socket.readyState === WebSocket.OPEN) socket.send(framed(channel, encoder.encode(text)));
    };
    const resize = (): void => {
      fit.fit();
      say(RESIZE, JSON.stringify({ Width: terminal.cols, Height: terminal.rows }));
    };
    let said = "";
    socket.addEventListener("open", () => {
      setStatus("open");
      resize();
      terminal.focus();
    });
    socket.addEventListener("message", (event: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(event.data);
      const data = bytes.subarray(1);
      if (bytes[0] === STDOUT || bytes[0] === STDERR) terminal.write(data);
      else if (bytes[0] === ERROR && data.length > 0) said = ending(JSON.parse(new TextDecoder().decode(data)) as Parameters<typeof ending>[0]);
    });
    socket.addEventListener("close", () => setStatus(said === "" ? "The connection has ended." : said));
    const typed = terminal.onData((text) => say(STDIN, text));
    const observer = new ResizeObserver(resize);
    observer.observe(element);
    return () => {
      observer.disconnect();
      typed.dispose();
      socket.close();
      terminal.dispose();
      loud();
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
    };
  }, [environment, namespace, pod, container, words, attempt]);
  return (
    <div className="stack tight">
      <div className="terminal" ref={place} />
      <div className="toolbar terminal-status" role="status">
        {status === "open" ? <State tone="good">Connected</State> : status === "connecting" ? <State tone="busy">Connecting</State> : <State tone="idle">{status}</State>}
        {status !== "open" && status !== "connecting" && (
          <Button small icon="refresh" onPress={() => setAttempt((count) => count + 1)}>
            Open again
          </Button>
        )}
      </div>
    </div>
  );
}
