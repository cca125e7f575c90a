// Background work: its state, and buttons that start it.

import { html, useEffect, useState, Badge, Button, Card, Check, ErrorBox, Field, Input, Loaded, Page, Progress, Stat, Table, Tabs, attempt, toast, useAction, useLoad } from "./ui.js";
import { call, lines, may } from "./api.js";
import { ago, bytes, count, date, duration, plural } from "./format.js";

const TABS = [
  ["scrub", "Scrub", Scrub, "GetScrub"], ["reclaim", "Reclaim", Reclaim, "GetReclaim"], ["check", "Check", Fsck, "CheckStore"], ["backup", "Backups", Backup, "CreateBackup"],
  ["lifecycle", "Lifecycle", Lifecycle, "GetLifecycle"], ["encryption", "Encryption keys", MasterKeys, "GetMasterKeys"], ["tools", "Tools", Tools, "FlushCache"],
];

export function Maintenance({ params }) {
  const shown = TABS.filter(([, , , needs]) => may(needs));
  const found = shown.find(([id]) => id === params[0]) || shown[0];
  return html`<${Page} title="Maintenance"><${Tabs} label="Maintenance" current=${`/maintenance/${found[0]}`} tabs=${shown.map(([id, title]) => [`/maintenance/${id}`, title])} />
    <${found[2]} key=${found[0]} /><//>`;
}

/** Loads a status, and again every few seconds. */
function useStatus(path) {
  const load = useLoad((signal) => call("GET", path, { signal }), [path]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || load.reload(), 3000);
    return () => clearInterval(timer);
  }, []);
  return load;
}

/** A button that starts work. */
function Start({ path, query, needs, label, body, reload, disabled }) {
  const start = useAction(async () => {
    await call("POST", path, { query });
    toast(body);
    reload();
  });
  return may(needs) && html`<${ErrorBox} error=${start.error} /><div><${Button} kind="primary" busy=${start.busy} disabled=${disabled} onClick=${start.run}>${label}<//></div>`;
}

const when = (time) => (time && !time.startsWith("0001") ? `${date(time)} (${ago(time)})` : "not since the start");

function Scrub() {
  const load = useStatus("scrub");
  const [rate, setRate] = useState("");
  const [restart, setRestart] = useState(false);
  return html`<${Loaded} of=${load}>${(s) => html`<${Card} title="Scrub" actions=${html`<${Badge} kind=${s.running ? "good" : ""}>${s.running ? "running" : "waiting"}<//>`}>
    <p class="muted">The scrub reads everything that is stored, verifies its checksums, and repairs what it can.</p>
    ${s.bytes_total > 0 && html`<${Progress} label="This pass" value=${s.bytes_done} max=${s.bytes_total} /><p>${bytes(s.bytes_done)} of ${bytes(s.bytes_total)}, ${count(s.blocks_done)} of ${count(s.blocks_total)} blocks</p>`}
    <${ErrorBox} error=${s.error} />
    <dl class="facts"><dt>Last complete pass</dt><dd>${when(s.pass_ended)}</dd><dt>Damage found since the start</dt><dd>${count(s.damaged_ever)}, of which ${count(s.mended)} repaired</dd>
      <dt>Missing blocks</dt><dd>${count(s.missing_blocks)}</dd><dt>Rate</dt><dd>${s.bytes_per_second ? `at most ${bytes(s.bytes_per_second)} per second` : "no limit"}</dd></dl>
    ${s.damaged?.length > 0 && html`<div class="box error"><p>${plural(s.damaged_total, "piece")} of content cannot be repaired. Restore these objects from a backup, and check the drive.</p></div>
      <${Table} label="Damage" rows=${s.damaged} rowKey=${(d) => d.block + d.text} columns=${[{ name: "text", title: "What" }, { name: "block", title: "Block", render: (d) => html`<span class="mono">${d.block}</span>` },
        { name: "objects", title: "Objects", render: (d) => (d.objects || []).map((o) => `${o.bucket}/${o.key}`).join(", ") }, { name: "found", title: "Found", render: (d) => date(d.found) }]} />`}
    ${may("StartScrub") && html`<div class="row fields"><${Field} label="Rate limit, per second" hint="Such as 50MiB; empty for no limit"><${Input} value=${rate} onValue=${setRate} /><//><${Check} label="From the beginning" checked=${restart} onValue=${setRestart} /></div>`}
    <${Start} path="scrub" query=${{ rate, restart: restart ? "true" : "" }} needs="StartScrub" label="Verify everything now" body="The scrub has begun." reload=${load.reload} /><//>
    ${may("ListLost") && html`<${Lost} />`}`}<//>`;
}

function Lost() {
  const [rows, setRows] = useState(null);
  const find = useAction(async () => {
    const found = [];
    let sum = null;
    for await (const line of lines("lost")) {
      if (line.error) throw new Error(line.error);
      if (line.key === undefined) sum = line;
      else if (found.length < 1000) found.push(line);
    }
    setRows({ found, sum });
  });
  return html`<${Card} title="Lost objects" actions=${html`<${Button} busy=${find.busy} onClick=${find.run}>Look for lost objects<//>`}>
    <p class="muted">Lists objects whose content is in blocks that are missing.</p><${ErrorBox} error=${find.error} />
    ${rows && (rows.found.length ? html`<p>${plural(rows.sum.lost_objects, "object")}, ${bytes(rows.sum.lost_bytes)}</p><${Table} label="Lost objects" rows=${rows.found} rowKey=${(o) => o.bucket + o.key + o.version} columns=${[{ name: "bucket", title: "Bucket" }, { name: "key", title: "Key" }, { name: "size", title: "Size", align: "right", render: (o) => bytes(o.size) }]} />` : html`<div class="box good"><p>No object is lost.</p></div>`)}<//>`;
}

function Reclaim() {
  const load = useStatus("reclaim");
  return html`<${Loaded} of=${load}>${(s) => html`<${Card} title="Reclaim" actions=${html`<${Badge} kind=${s.running ? "good" : ""}>${s.running ? s.phase || "running" : "waiting"}<//>`}>
    <p class="muted">Reclaim frees the space of deleted and overwritten objects. It runs automatically; a full round frees all of it now.</p>
    ${s.running && s.blocks_todo > 0 && html`<${Progress} label="This phase" value=${s.blocks_done} max=${s.blocks_todo} />`}
    <${ErrorBox} error=${s.last.error} />
    <dl class="facts"><dt>Freed since the start</dt><dd>${bytes(s.bytes_freed)}</dd><dt>Last success</dt><dd>${when(s.last_success)}</dd><dt>Last snapshot of the metadata</dt><dd>${when(s.last_snapshot)}</dd>
      <dt>Last round</dt><dd>${bytes(s.last.bytes_freed)} freed, ${bytes(s.last.garbage_bytes)} of garbage left, ${duration(s.last.seconds)}</dd></dl>
    <${Start} path="reclaim" needs="StartReclaim" label="Free all garbage now" body="Reclaim has begun." reload=${load.reload} /><//>`}<//>`;
}

function Fsck() {
  const [content, setContent] = useState(false);
  const [report, setReport] = useState(null);
  const run = useAction(async () => setReport(await call("POST", "fsck", { query: { content: content ? "true" : "" } })));
  return html`<${Card} title="Check"><p class="muted">Counts the metadata again and compares it with the blocks. With content, it also reads all content, which takes long. Nothing is changed.</p>
    <${Check} label="Read all content, too" checked=${content} onValue=${setContent} /><${ErrorBox} error=${run.error} />
    <div><${Button} kind="primary" busy=${run.busy} onClick=${run.run}>Check now<//></div>
    ${report && html`<div class=${`box ${report.found ? "error" : "good"}`}><p>${report.found ? `${plural(report.found, "difference")} found.` : "Everything is consistent."}</p></div><${ErrorBox} error=${report.error} />
      <dl class="stats"><${Stat} label="Versions" value=${count(report.versions)} /><${Stat} label="Pieces of content" value=${count(report.contents)} hint=${bytes(report.content_bytes)} />
        <${Stat} label="Blocks" value=${count(report.blocks)} hint=${bytes(report.block_bytes)} /><${Stat} label="Garbage" value=${bytes(report.garbage_bytes)} /><${Stat} label="Time" value=${duration(report.seconds)} /></dl>
      <${Table} label="Differences" rows=${report.differences || []} rowKey=${(d) => d.kind + d.where + d.text} columns=${[{ name: "kind", title: "Kind" }, { name: "where", title: "Where" }, { name: "text", title: "What" }]} />`}<//>`;
}

function Backup() {
  const [dir, setDir] = useState(localStorage.getItem("orcas.backup") || "");
  const [keep, setKeep] = useState("7");
  const [report, setReport] = useState(null);
  const [list, setList] = useState(null);
  const show = useAction(async () => {
    localStorage.setItem("orcas.backup", dir);
    setList((await call("GET", "backup", { query: { dir } })).backups);
  });
  const create = useAction(async () => {
    setReport(await call("POST", "backup", { query: { dir, keep } }));
    if (may("ListBackups")) await show.run();
  });
  const wrong = dir && !dir.startsWith("/") ? "Enter the whole path; it begins with a slash." : "";
  return html`<${Card} title="Backups"><p class="muted">A backup is written to a directory on the server's machine, preferably on another drive. Later backups into the same directory copy only what is new.</p>
    <form class="stack" onSubmit=${(event) => { event.preventDefault(); if (dir && !wrong) create.run(); }}>
      <div class="row fields"><${Field} label="Directory" error=${wrong}><${Input} value=${dir} onValue=${setDir} placeholder="/mnt/backup/orcas" /><//>
        <${Field} label="Keep the newest" hint="Older ones are deleted; 0 keeps all"><${Input} value=${keep} onValue=${setKeep} inputmode="numeric" /><//></div>
      <${ErrorBox} error=${create.error || show.error} />
      <div class="row"><${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!dir || Boolean(wrong)}>Back up now<//>${may("ListBackups") && html`<${Button} busy=${show.busy} disabled=${!dir || Boolean(wrong)} onClick=${show.run}>Show backups<//>`}</div></form>
    ${report && html`<div class="box good"><p>Backed up ${plural(report.blocks, "block")} (${bytes(report.bytes)}); ${bytes(report.copied_bytes)} were copied.</p></div>
      ${(report.problems || []).map((p) => html`<div class="box warn" key=${p}><p>${p}</p></div>`)}`}
    ${list && html`<${Table} label="Backups" rows=${list} empty=${html`<p class="muted">There are no backups in this directory.</p>`} columns=${[{ name: "name", title: "Name", render: (b) => html`<span class="mono">${b.name}</span>` },
      { name: "time", title: "Time", render: (b) => (b.error ? "" : date(b.time)) }, { name: "bytes", title: "Size", align: "right", render: (b) => (b.error ? "" : bytes(b.bytes)) }, { name: "state", title: "State", render: (b) => (b.error ? html`<${Badge} kind="bad">unreadable<//> ${b.error}` : html`<${Badge} kind="good">complete<//>`) }]} />`}
    <p class="hint">To restore, stop the server and run <code>orcas restore</code>; its help says what it needs.</p><//>`;
}

function Lifecycle() {
  const load = useStatus("lifecycle");
  return html`<${Loaded} of=${load}>${(s) => html`<${Card} title="Lifecycle" actions=${html`<${Badge} kind=${s.running ? "good" : ""}>${s.running ? `in ${s.bucket}` : "waiting"}<//>`}>
    <p class="muted">Applies the lifecycle rules of all buckets. It runs automatically.</p><${ErrorBox} error=${s.last.error} />
    <dl class="facts"><dt>Last success</dt><dd>${when(s.last_success)}</dd><dt>Last pass</dt><dd>${count(s.last.scanned)} looked at in ${plural(s.last.buckets, "bucket")}; deleted: ${count(s.last.expired)} objects, ${count(s.last.noncurrent)} older versions, ${count(s.last.markers)} delete markers, ${count(s.last.uploads)} uploads</dd>
      <dt>Kept because of a lock</dt><dd>${count(s.last.held)}</dd></dl>
    <${Start} path="lifecycle" needs="StartLifecycle" label="Apply the rules now" body="The lifecycle rules are being applied." reload=${load.reload} /><//>`}<//>`;
}

function MasterKeys() {
  const load = useStatus("keys");
  return html`<${Loaded} of=${load}>${(s) => html`<${Card} title="Encryption keys"><p class="muted">Content is encrypted with data keys, which are wrapped with a master key. After a new master key was added, a rotation wraps all data keys with it, so that older master keys are no longer needed.</p>
    <dl class="facts"><dt>Newest master key</dt><dd>${s.newest || "none: set ORCAS_MASTER_KEY_FILE to use encryption"}</dd><dt>Keys that are needed</dt><dd>${(s.needed || []).join(", ") || "none"}</dd>
      <dt>Last rotation</dt><dd>${count(s.rewrapped)} data keys wrapped${s.retired?.length ? `; no longer needed: ${s.retired.join(", ")}` : ""}</dd></dl>
    <${Start} path="keys" needs="RotateMasterKeys" label="Rotate" body="The rotation has begun." reload=${load.reload} disabled=${!s.newest || s.running} /><//>`}<//>`;
}

function Tools() {
  const flush = () => attempt(async () => toast(`The caches were dropped: ${bytes((await call("POST", "cache/flush")).bytes_freed)} of memory freed.`));
  return html`<${Card} title="Tools"><p class="muted">Dropping the caches of the metadata frees memory. Reads are slower for a while.</p><div><${Button} onClick=${flush}>Drop the caches<//></div><//>`;
}
