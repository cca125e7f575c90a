// What the server does, and what needs attention.

import { html, useEffect, useState, Badge, Card, CopyButton, Empty, ErrorBox, Link, Loaded, Page, Progress, Spinner, Stat, Table, useLoad } from "./ui.js";
import { call, may, session } from "./api.js";
import { listBuckets } from "./s3.js";
import { ago, bytes, count, date, duration, percent, short } from "./format.js";
import { Chart } from "./chart.js";
import { pathOf } from "./objects.js";

const EVERY = 10000; // milliseconds

/** Loads again and again while the page is visible. */
function usePolled(fn) {
  const [state, setState] = useState({});
  useEffect(() => {
    const abort = new AbortController();
    const load = async () => {
      if (document.hidden) return;
      try {
        const data = await fn(abort.signal);
        if (!abort.signal.aborted) setState({ data });
      } catch (error) {
        if (!abort.signal.aborted) setState((s) => ({ ...s, error }));
      }
    };
    load();
    const timer = setInterval(load, EVERY);
    document.addEventListener("visibilitychange", load);
    return () => {
      abort.abort();
      clearInterval(timer);
      document.removeEventListener("visibilitychange", load);
    };
  }, []);
  return state;
}

export function Overview() {
  return may("GetStatus") ? html`<${Status} />` : html`<${Simple} />`;
}

/** The page for users who may not see the state of the server. */
function Simple() {
  const load = useLoad((signal) => listBuckets(signal), []);
  return html`<${Page} title="Your buckets"><${Loaded} of=${load}>${(buckets) => html`<${Table} label="Buckets" rows=${buckets}
    empty=${html`<${Empty} title="There are no buckets that you may list"><p>If you know the name of a bucket that you may use, add it to the address: #/objects/NAME</p><//>`} columns=${[
      { name: "name", title: "Name", render: (b) => html`<${Link} class="name" to=${pathOf(b.name, "")}>${b.name}<//>` },
      { name: "created", title: "Created", narrow: true, render: (b) => date(b.created) }]} />`}<//><${Endpoint} /><//>`;
}

function Endpoint() {
  return html`<${Card} title="Endpoint"><div class="row"><code class="wrap">${session.public_url || session.endpoint}</code><${CopyButton} text=${session.public_url || session.endpoint} label="Copy the endpoint" />
    <span class="muted">region ${session.region}</span><${Link} to="/connect">How to connect clients<//></div><//>`;
}

const STATES = { ready: ["good", "ready"], degraded: ["warn", "blocks are missing"], readonly: ["bad", "read-only"], stopping: ["warn", "stopping"] };

function Status() {
  const status = usePolled((signal) => call("GET", "status", { signal }));
  const buckets = useLoad((signal) => listBuckets(signal), []); // the status counts them only now and then
  const s = status.data;
  if (!s) return html`<${Page} title="Overview">${status.error ? html`<${ErrorBox} error=${status.error} />` : html`<${Spinner} />`}<//>`;
  const [kind, state] = STATES[s.state] || ["", s.state];
  return html`<${Page} title="Overview" actions=${html`<${Badge} kind=${kind}>${state}<//><span class="muted">ORCAS ${s.version}, up ${duration(s.uptime_seconds)}</span>`}>
    ${status.error && html`<${ErrorBox} error=${status.error} />`}
    ${s.warnings.map((w) => html`<div class="box warn" key=${w.problem} role="alert"><p><strong>${w.problem[0].toUpperCase() + w.problem.slice(1)}.</strong> What to do: ${w.action}.</p></div>`)}
    ${buckets.data?.length === 0 && may("CreateKey") && html`<div class="box"><p>The server is ready and empty.</p><${Link} class="button primary" to="/first">First steps<//></div>`}
    <${Endpoint} />
    ${may("GetHistory") && html`<${Traffic} />`}
    <div class="cards"><${Drive} s=${s} /><${Holdings} s=${s} /></div>
    <${Saved} s=${s} />
    <${WorkList} s=${s} />
  <//>`;
}

function Traffic() {
  const history = usePolled((signal) => call("GET", "history", { signal }));
  if (!history.data) return html`<${Card} title="Traffic">${history.error ? html`<${ErrorBox} error=${history.error} />` : html`<${Spinner} />`}<//>`;
  const { points, interval_seconds: every } = history.data;
  const times = points.map((p) => new Date(p.time).getTime() / 1000);
  const per = (field) => points.map((p) => p[field] / every);
  const last = points[points.length - 1] || { requests: 0, errors: 0, bytes_in: 0, bytes_out: 0 };
  const latency = (v) => duration(v);
  const charts = [
    ["Requests per second", short, [{ label: "Requests", values: per("requests"), color: "--accent" }, { label: "Errors", values: per("errors"), color: "--bad" }]],
    ["Bytes per second", bytes, [{ label: "Received", values: per("bytes_in"), color: "--accent" }, { label: "Sent", values: per("bytes_out"), color: "--good" }]],
    ["Latency", latency, [{ label: "Median", values: points.map((p) => p.p50_seconds), color: "--accent" }, { label: "99th percentile", values: points.map((p) => p.p99_seconds), color: "--warn" }]],
  ];
  return html`<${Card} title="Traffic of the last hour"><dl class="stats">
      <${Stat} label="Requests per second" value=${short(last.requests / every)} /><${Stat} label="Errors per second" value=${short(last.errors / every)} />
      <${Stat} label="Received per second" value=${bytes(last.bytes_in / every)} /><${Stat} label="Sent per second" value=${bytes(last.bytes_out / every)} />
      <${Stat} label="Median latency" value=${last.requests ? duration(last.p50_seconds) : "–"} hint=${last.requests ? `99th percentile ${duration(last.p99_seconds)}` : ""} /></dl>
    <div class="charts">${charts.map(([label, format, series]) => html`<div key=${label}><h3>${label}</h3><${Chart} label=${label} times=${times} series=${series} format=${format} /></div>`)}</div><//>`;
}

function Drive({ s }) {
  const d = s.drive;
  return html`<${Card} title="Drive and memory">${d ? html`<${Progress} label="Drive in use" value=${d.total_bytes - d.free_bytes} max=${d.total_bytes} />
    <p>${bytes(d.free_bytes)} of ${bytes(d.total_bytes)} are free; writes stop when ${bytes(d.reserve_bytes)} are left.</p>` : html`<p class="muted">The space is not known.</p>`}
    <p>Memory: ${bytes(s.memory.used_bytes)}${s.memory.limit_bytes ? ` of ${bytes(s.memory.limit_bytes)}` : ""}. ${count(s.connections)} connections, ${count(s.requests_in_flight)} requests in progress.</p><//>`;
}

function Holdings({ s }) {
  const h = s.store;
  return html`<${Card} title="Content">${h ? html`<dl class="stats"><${Stat} label="Buckets" value=${count(h.buckets)} /><${Stat} label="Objects" value=${count(h.objects)} />
      ${h.space && html`<${Stat} label="Size for clients" value=${bytes(h.space.logical_bytes)} /><${Stat} label="Size on the drive" value=${bytes(h.space.stored_bytes)} />`}</dl>
    <p class="hint">As of ${ago(h.time)}.${h.space && h.space.reclaimable_bytes ? ` ${bytes(h.space.reclaimable_bytes)} can be freed.` : ""}</p>` : html`<p class="muted">The server counts every few minutes. The first count has not ended yet.</p>`}<//>`;
}

function Saved({ s }) {
  if (!s.saved) return null;
  return html`<${Card} title="Saved"><dl class="stats">
    <${Stat} label="Files not created" value=${count(s.saved.files)} hint="Small objects share blocks: these have no file of their own." />
    <${Stat} label="Bytes not stored" value=${bytes(s.saved.bytes_stored)} hint="Equal content is stored once, and compressed where that is on." />
    <${Stat} label="Bytes not sent" value=${bytes(s.saved.bytes_sent)} hint="Clients did not send content that the server had (instant upload); since the start." /></dl><//>`;
}

const NAMES = { reclaim: "Reclaim: frees the space of deleted objects", snapshot: "Snapshot of the metadata", scrub: "Scrub: reads and verifies everything", lifecycle: "Lifecycle: deletes what rules say", survey: "Survey: counts objects and space" };

function WorkList({ s }) {
  return html`<${Card} title="Background work"><${Table} label="Background work" rows=${s.work} columns=${[
    { name: "name", title: "Work", render: (w) => NAMES[w.name] || w.name },
    { name: "state", title: "State", render: (w) => (w.last_error ? html`<${Badge} kind="bad">failed<//> ${w.last_error}` : w.running
      ? html`<${Badge} kind="good">running<//>${w.name === "scrub" && s.scrub.progress ? ` ${percent(s.scrub.progress)}` : ""}` : html`<${Badge}>${w.enabled ? "waiting" : "on request"}<//>`) },
    { name: "success", title: "Last success", narrow: true, render: (w) => ago(w.last_success) }]} /><//>`;
}
