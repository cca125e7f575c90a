// Requests and log lines as they happen.

import { html, useEffect, useRef, useState, Badge, Button, Check, ErrorBox, Field, Input, Page, Select, Table, attempt, copyText, toast } from "./ui.js";
import { call, lines, may } from "./api.js";
import { bytes, date, duration } from "./format.js";

const ROWS = 500; // rows that a page keeps

/** Reads a response line by line while running, and keeps the last rows. The stream ends when the page is left. With again,
 * the response begins with rows that were shown before a pause. The state is connecting, live, paused or ended. */
function useStream(path, query, running, again) {
  const [stream, setStream] = useState({ ...NOTHING, state: "connecting" });
  const [turn, setTurn] = useState(0);
  const waiting = useRef([]);
  const shown = useRef("");
  useEffect(() => {
    if (!running) {
      setStream((s) => ({ ...s, state: "paused" }));
      return undefined;
    }
    let last = Date.now() * 1000;
    const abort = new AbortController();
    const change = (more) => abort.signal.aborted || setStream((s) => ({ ...s, ...more }));
    const show = () => {
      const fresh = waiting.current.splice(0);
      if (!fresh.length) return;
      const dropped = fresh.reduce((n, row) => n + (row.dropped_before || row.dropped || 0), 0);
      const rows = fresh.filter((row) => row.dropped === undefined && row.end === undefined).map((row) => ({ ...row, n: ++last }));
      setStream((s) => ({ ...s, rows: [...s.rows, ...rows].slice(-ROWS), dropped: s.dropped + dropped }));
    };
    const timer = setInterval(show, 250);
    (async () => {
      try {
        for await (const line of lines(path, { query, signal: abort.signal, begun: () => change({ state: "live" }) })) {
          waiting.current.push(line);
          if (waiting.current.length > 2 * ROWS) waiting.current.splice(0, ROWS);
          if (line.end) throw new Error(`The server has ended the stream: ${line.end}`);
        }
        throw new Error("The server has ended the stream");
      } catch (error) {
        change({ error, state: "ended" });
      }
    })();
    const what = JSON.stringify(query);
    change({ ...(again || what !== shown.current ? NOTHING : { error: null }), state: "connecting" });
    shown.current = what;
    return () => {
      abort.abort();
      clearInterval(timer);
      show();
    };
  }, [path, JSON.stringify(query), running, turn]);
  return { ...stream, clear: () => setStream((s) => ({ ...s, ...NOTHING })), retry: () => setTurn(turn + 1) };
}

const NOTHING = { rows: [], dropped: 0, error: null };
const STATES = { connecting: ["", "connecting"], live: ["good", "live"], paused: ["warn", "paused"], ended: ["bad", "ended"] };

/** What a page says about a stream beside its title, and buttons to pause and clear it. */
function StreamActions({ stream, running, setRunning, children }) {
  const [kind, label] = STATES[stream.state];
  return html`<${Badge} kind=${kind}>${label}<//><${Button} onClick=${() => setRunning(!running)}>${running ? "Pause" : "Resume"}<//>
    ${children}<${Button} onClick=${stream.clear}>Clear<//>`;
}

/** What a page says while there are no rows of what ("requests"). */
function NoRows({ stream, what }) {
  const words = { connecting: "Connecting…", live: `Waiting for ${what}…`, paused: "Paused.", ended: "" };
  return html`<p class="muted">${words[stream.state]}</p>`;
}

export function Trace() {
  const [draft, setDraft] = useState({ operation: "", bucket: "", key: "", status: "", "min-duration": "", errors: false });
  const [query, setQuery] = useState({});
  const [running, setRunning] = useState(true);
  const stream = useStream("trace", query, running);
  const set = (name) => (value) => setDraft({ ...draft, [name]: value });
  const apply = (event) => {
    event.preventDefault();
    setQuery({ ...draft, errors: draft.errors ? "true" : "" });
  };
  return html`<${Page} title="Live trace" actions=${html`<${StreamActions} stream=${stream} running=${running} setRunning=${setRunning} />`}>
    <form class="row fields many" onSubmit=${apply}>
      <${Field} label="Operation"><${Input} value=${draft.operation} onValue=${set("operation")} placeholder="PutObject" /><//>
      <${Field} label="Bucket"><${Input} value=${draft.bucket} onValue=${set("bucket")} /><//><${Field} label="Key begins with"><${Input} value=${draft.key} onValue=${set("key")} /><//>
      <${Field} label="Status"><${Input} value=${draft.status} onValue=${set("status")} placeholder="404 or 5xx" /><//><${Field} label="At least"><${Input} value=${draft["min-duration"]} onValue=${set("min-duration")} placeholder="100ms" /><//>
      <${Check} label="Errors only" checked=${draft.errors} onValue=${set("errors")} /><${Button} type="submit">Filter<//></form>
    <${ErrorBox} error=${stream.error} retry=${stream.retry} />
    ${stream.dropped > 0 && html`<p class="hint">${stream.dropped} requests were left out, because there were too many.</p>`}
    <${Table} label="Requests" rows=${stream.rows.slice().reverse().slice(0, 200)} rowKey=${(r) => r.id} empty=${html`<${NoRows} stream=${stream} what="requests" />`} columns=${[
      { name: "time", title: "Time", narrow: true, render: (r) => date(r.time).slice(11) }, { name: "operation", title: "Operation", narrow: true, render: (r) => r.operation || r.method },
      { name: "what", title: "What", render: (r) => [r.bucket, r.key].filter(Boolean).join("/") || r.target || "" },
      { name: "status", title: "Status", narrow: true, render: (r) => html`<span class=${r.status >= 400 ? "error-text" : ""}>${r.status || "–"}${r.code ? ` ${r.code}` : ""}</span>` },
      { name: "took", title: "Took", align: "right", render: (r) => duration(r.took_us / 1e6) }, { name: "size", title: "In / out", align: "right", render: (r) => `${bytes(r.in)} / ${bytes(r.out)}` },
      { name: "from", title: "From", narrow: true, render: (r) => html`${r.address}${r.access_key && html`<br />${r.access_key}`}` }]} /><//>`;
}

const LEVELS = [["", "All levels"], ["warn", "Warnings and errors"], ["error", "Errors"]];

export function Log() {
  const [level, setLevel] = useState("");
  const [running, setRunning] = useState(true);
  const [current, setCurrent] = useState("");
  const stream = useStream("log/stream", { level, lines: 200 }, running && may("ReadLog"), true);
  const end = useRef(null);
  useEffect(() => {
    if (may("GetLogLevel")) attempt(async () => setCurrent((await call("GET", "log")).level));
  }, []);
  useEffect(() => {
    if (running && end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [stream.rows]);
  const change = (value) => attempt(async () => setCurrent((await call("POST", "log", { query: { level: value } })).level), "The level applies until the server stops.");
  const line = (r) => `${date(r.time)} ${r.level} ${r.message}${Object.entries(r.attributes || {}).map(([k, v]) => ` ${k}=${typeof v === "string" ? v : JSON.stringify(v)}`).join("")}`;
  return html`<${Page} title="Log" actions=${may("ReadLog") && html`<${StreamActions} stream=${stream} running=${running} setRunning=${setRunning}>
      <${Button} onClick=${() => copyText(stream.rows.map(line).join("\n")).then(() => toast("Copied."))}>Copy<//><//>`}>
    <div class="row fields">${may("SetLogLevel") && current && html`<${Field} label="The server logs"><${Select} value=${current} onValue=${change} options=${[["off", "nothing"], ["errors", "warnings and errors"], ["summary", "also a summary of the requests"], ["requests", "also every request"]]} /><//>`}
      ${may("ReadLog") && html`<${Field} label="Show"><${Select} value=${level} onValue=${setLevel} options=${LEVELS} /><//>`}</div>
    <${ErrorBox} error=${stream.error} retry=${stream.retry} />
    ${stream.dropped > 0 && html`<p class="hint">${stream.dropped} lines were left out, because there were too many.</p>`}
    ${may("ReadLog") && html`<div class="log" ref=${end} tabindex="0" role="log" aria-label="Log">${stream.rows.length ? stream.rows.map((r) => html`<p key=${r.n} class=${r.level}>${line(r)}</p>`) : html`<${NoRows} stream=${stream} what="lines" />`}</div>`}<//>`;
}
