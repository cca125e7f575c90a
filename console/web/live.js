// Requests and log lines as they happen.

import { html, useEffect, useRef, useState, Button, Check, ErrorBox, Field, Input, Page, Select, Table, attempt, copyText, toast } from "./ui.js";
import { call, lines, may } from "./api.js";
import { bytes, date, duration } from "./format.js";

const ROWS = 500; // rows that a page keeps

/** Reads a response line by line while running, and keeps the last rows. The stream ends when the page is left. With again,
 * the response begins with rows that were shown before a pause. */
function useStream(path, query, running, again) {
  const [state, setState] = useState({ rows: [], dropped: 0, error: null });
  const waiting = useRef([]);
  const shown = useRef("");
  useEffect(() => {
    if (!running) return undefined;
    const abort = new AbortController();
    const show = () => {
      const fresh = waiting.current.splice(0);
      if (!fresh.length) return;
      const dropped = fresh.reduce((n, row) => n + (row.dropped_before || row.dropped || 0), 0);
      const rows = fresh.filter((row) => row.dropped === undefined && row.end === undefined).map((row) => ({ ...row, n: ++last }));
      setState((s) => ({ ...s, rows: [...s.rows, ...rows].slice(-ROWS), dropped: s.dropped + dropped }));
    };
    let last = Date.now() * 1000;
    const timer = setInterval(show, 250);
    (async () => {
      try {
        for await (const line of lines(path, { query, signal: abort.signal })) {
          waiting.current.push(line);
          if (waiting.current.length > 2 * ROWS) waiting.current.splice(0, ROWS);
          if (line.end) throw new Error(`The server has ended the stream: ${line.end}`);
        }
        if (!abort.signal.aborted) throw new Error("The server has ended the stream");
      } catch (error) {
        if (!abort.signal.aborted) setState((s) => ({ ...s, error }));
      }
    })();
    const what = JSON.stringify(query);
    setState((s) => (again || what !== shown.current ? { rows: [], dropped: 0, error: null } : { ...s, error: null }));
    shown.current = what;
    return () => {
      abort.abort();
      clearInterval(timer);
      show();
    };
  }, [path, JSON.stringify(query), running]);
  return { ...state, clear: () => setState({ rows: [], dropped: 0, error: null }) };
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
  return html`<${Page} title="Live trace" actions=${html`<${Button} onClick=${() => setRunning(!running)}>${running ? "Pause" : "Go on"}<//><${Button} onClick=${stream.clear}>Clear<//>`}>
    <form class="row fields" onSubmit=${apply}>
      <${Field} label="Operation"><${Input} value=${draft.operation} onValue=${set("operation")} placeholder="PutObject" /><//>
      <${Field} label="Bucket"><${Input} value=${draft.bucket} onValue=${set("bucket")} /><//><${Field} label="Key begins with"><${Input} value=${draft.key} onValue=${set("key")} /><//>
      <${Field} label="Status"><${Input} value=${draft.status} onValue=${set("status")} placeholder="404 or 5xx" /><//><${Field} label="At least"><${Input} value=${draft["min-duration"]} onValue=${set("min-duration")} placeholder="100ms" /><//>
      <${Check} label="Errors only" checked=${draft.errors} onValue=${set("errors")} /><${Button} type="submit">Filter<//></form>
    <${ErrorBox} error=${stream.error} />
    ${stream.dropped > 0 && html`<p class="hint">${stream.dropped} requests were left out, because there were too many.</p>`}
    <${Table} label="Requests" rows=${stream.rows.slice().reverse().slice(0, 200)} rowKey=${(r) => r.id} empty=${html`<p class="muted">${running ? "Waiting for requests…" : "Paused."}</p>`} columns=${[
      { name: "time", title: "Time", narrow: true, render: (r) => date(r.time).slice(11) }, { name: "operation", title: "Operation", render: (r) => r.operation || r.method },
      { name: "what", title: "What", render: (r) => [r.bucket, r.key].filter(Boolean).join("/") || r.target || "" },
      { name: "status", title: "Status", render: (r) => html`<span class=${r.status >= 400 ? "error-text" : ""}>${r.status || "–"}${r.code ? ` ${r.code}` : ""}</span>` },
      { name: "took", title: "Took", align: "right", render: (r) => duration(r.took_us / 1e6) }, { name: "size", title: "In / out", align: "right", render: (r) => `${bytes(r.in)} / ${bytes(r.out)}` },
      { name: "from", title: "From", render: (r) => `${r.address}${r.access_key ? `, ${r.access_key}` : ""}` }]} /><//>`;
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
  const change = (value) => attempt(async () => setCurrent((await call("POST", "log", { query: { level: value } })).level), "The server logs accordingly until its next start.");
  const line = (r) => `${date(r.time)} ${r.level} ${r.message}${Object.entries(r.attributes || {}).map(([k, v]) => ` ${k}=${typeof v === "string" ? v : JSON.stringify(v)}`).join("")}`;
  return html`<${Page} title="Log" actions=${html`<${Button} onClick=${() => setRunning(!running)}>${running ? "Pause" : "Go on"}<//>
      <${Button} onClick=${() => copyText(stream.rows.map(line).join("\n")).then(() => toast("Copied."))}>Copy<//><${Button} onClick=${stream.clear}>Clear<//>`}>
    <div class="row fields">${may("SetLogLevel") && current && html`<${Field} label="The server logs"><${Select} value=${current} onValue=${change} options=${[["off", "nothing"], ["errors", "warnings and errors"], ["summary", "also a summary of the requests"], ["requests", "also every request"]]} /><//>`}
      ${may("ReadLog") && html`<${Field} label="Show"><${Select} value=${level} onValue=${setLevel} options=${LEVELS} /><//>`}</div>
    <${ErrorBox} error=${stream.error} />
    ${stream.dropped > 0 && html`<p class="hint">${stream.dropped} lines were left out, because there were too many.</p>`}
    ${may("ReadLog") && html`<div class="log" ref=${end} tabindex="0" role="log" aria-label="Log">${stream.rows.length ? stream.rows.map((r) => html`<p key=${r.n} class=${r.level}>${line(r)}</p>`) : html`<p class="muted">Waiting for lines…</p>`}</div>`}<//>`;
}
