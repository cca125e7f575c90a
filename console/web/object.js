// The details of an object: preview, metadata, tags, versions, and protection.

import { html, useState, Badge, Button, Check, Dialog, ErrorBox, Field, IconButton, Input, Loaded, Menu, Select, Spinner, Table, attempt, confirm, useAction, useLoad } from "./ui.js";
import { s3, s3url, s3xml, s3configuration, listVersions, all, text, escapeXML, crc32 } from "./s3.js";
import { bytes, date } from "./format.js";
import { Only, useAllowed } from "./allowed.js";
import { copyObject, deleteItems, download, restore } from "./objects.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/x-icon"];
const TEXT_MAX = 256 << 10;
const COPY_MAX = 5 * 2 ** 30; // a single copy request copies at most this much
const STANDARD = ["content-type", "cache-control", "content-disposition", "content-language", "content-encoding", "expires", "x-amz-website-redirect-location"];

const ACTIONS = [
  "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:PutObjectTagging",
  "s3:PutObjectVersionTagging", "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging", "s3:ListBucketVersions", "s3:GetBucketObjectLockConfiguration", "s3:GetObjectRetention",
  "s3:GetObjectLegalHold", "s3:PutObjectRetention", "s3:PutObjectLegalHold",
];

export function ObjectDialog({ bucket, row, versioned, onClose, onShare, onChange }) {
  const [tab, setTab] = useState("preview");
  const can = useAllowed({ bucket, key: row.key }, ACTIONS);
  const of = (verb, what = "") => `s3:${verb}Object${row.version ? "Version" : ""}${what}`; // the action that a request for this row needs
  const read = can(of("Get"));
  const head = useLoad(async (signal) => {
    if (row.marker) return { headers: new Headers() };
    const response = await s3("HEAD", { bucket, key: row.key, query: { versionId: row.version }, signal, headers: { "x-amz-checksum-mode": "ENABLED" } });
    return { headers: response.headers };
  }, [bucket, row.key, row.version]);
  const tabs = [["preview", "Preview"], ["details", "Details"], 
    ...(can(of("Get", "Tagging")).ok ? [["tags", "Tags"]] : []), ...(versioned && can("s3:ListBucketVersions").ok ? [["versions", "Versions"]] : []),
    ...(versioned && can("s3:GetBucketObjectLockConfiguration", "s3:GetObjectRetention", "s3:GetObjectLegalHold").ok ? [["lock", "Protection"]] : []),
    ...(read.ok ? [["move", "Copy or move"]] : [])];
  return html`<${Dialog} wide title=${row.key} onClose=${onClose} footer=${html`
      ${!row.marker && read.ok && html`<${Button} icon="down" onClick=${() => download(bucket, row)}>Download<//><${Button} icon="link" onClick=${onShare}>Share<//>`}
      <${Button} onClick=${onClose}>Close<//>`}>
    <div class="chips" role="group" aria-label="View">${tabs.map(([id, label]) => html`
      <button type="button" key=${id} aria-pressed=${tab === id ? "true" : "false"} onClick=${() => setTab(id)}>${label}</button>`)}</div>
    <${Loaded} of=${head}>${({ headers }) => html`
      ${tab === "preview" && html`<${Preview} bucket=${bucket} row=${row} headers=${headers} />`}
      ${tab === "details" && html`<${Details} bucket=${bucket} may=${can(of("Get"), "s3:PutObject")} row=${row} headers=${headers} reload=${head.reload} onChange=${onChange} />`}
      ${tab === "tags" && html`<${Tags} bucket=${bucket} row=${row} may=${can(of("Put", "Tagging"), of("Delete", "Tagging"))} />`}
      ${tab === "versions" && html`<${Versions} bucket=${bucket} row=${row} can=${can} onChange=${onChange} />`}
      ${tab === "lock" && html`<${Protection} bucket=${bucket} row=${row} can=${can} />`}
      ${tab === "move" && html`<${Move} bucket=${bucket} row=${row} mayDelete=${can(of("Delete"))} headers=${headers} onDone=${() => { onChange(); onClose(); }} />`}
    `}<//>
  <//>`;
}

function Preview({ bucket, row, headers }) {
  const type = (headers.get("content-type") || "").split(";")[0].trim().toLowerCase();
  const size = Number(headers.get("content-length"));
  const url = s3url(bucket, row.key, { versionId: row.version });
  if (row.marker) return html`<p class="muted">A delete marker has no content.</p>`;
  if (size === 0) return html`<p class="muted">The object is empty.</p>`;
  if (IMAGES.includes(type)) return html`<div class="preview"><img src=${url} alt=${row.key} /></div>`;
  if (type.startsWith("video/")) return html`<div class="preview"><video src=${url} controls preload="metadata"></video></div>`;
  if (type.startsWith("audio/")) return html`<div class="preview"><audio src=${url} controls preload="metadata"></audio></div>`;
  if (type === "application/pdf") return html`<p><a class="button" href=${url} target="_blank" rel="noopener">Open the PDF in a new tab</a></p>`;
  if (isText(type, row.key)) return html`<${TextPreview} bucket=${bucket} row=${row} size=${size} />`;
  return html`<p class="muted">There is no preview for ${type || "this type"}.</p>`;
}

function isText(type, key) {
  return type.startsWith("text/") || /[/+](json|xml|yaml|toml|javascript|x-sh|sql|csv)$/.test(type) ||
    /\.(txt|md|csv|tsv|log|json|jsonl|ya?ml|toml|ini|conf|xml|svg|html?|css|js|mjs|ts|go|py|rs|java|c|h|sh|sql)$/i.test(key);
}

/** Shows the beginning of an object as text, also of HTML and SVG. */
function TextPreview({ bucket, row, size }) {
  const load = useLoad(async (signal) => {
    const response = await s3("GET", { bucket, key: row.key, query: { versionId: row.version }, headers: { Range: `bytes=0-${TEXT_MAX - 1}` }, signal });
    return new TextDecoder().decode(await response.arrayBuffer());
  }, [bucket, row.key, row.version]);
  return html`<${Loaded} of=${load}>${(value) => html`<div class="preview"><pre tabindex="0" aria-label="Content">${value}</pre></div>
    ${size > TEXT_MAX && html`<p class="hint">The first ${bytes(TEXT_MAX)} of ${bytes(size)}.</p>`}`}<//>`;
}

function metadataOf(headers) {
  const list = [];
  headers.forEach((value, name) => name.startsWith("x-amz-meta-") && list.push([name.slice(11), value]));
  return list;
}

/** Returns the metadata of an object that S3 defines. Its Content-Disposition is in a header of its own (see mount.go). */
function standardOf(headers) {
  const found = {};
  for (const name of STANDARD) {
    const value = headers.get(name === "content-disposition" ? "x-orcas-content-disposition" : name);
    if (value) found[name] = value;
  }
  return found;
}

function Details({ bucket, may, row, headers, reload, onChange }) {
  const [edit, setEdit] = useState(false);
  const facts = [
    ["Size", `${bytes(Number(headers.get("content-length")))} (${headers.get("content-length")} bytes)`],
    ["Changed", date(headers.get("last-modified"))], ["ETag", headers.get("etag")], ["Version", headers.get("x-amz-version-id")],
    ["Type", headers.get("content-type")], ["Cache-Control", headers.get("cache-control")], ["Content-Encoding", headers.get("content-encoding")],
    ["Content-Language", headers.get("content-language")], ["Content-Disposition", headers.get("x-orcas-content-disposition")], ["Encryption", headers.get("x-amz-server-side-encryption")],
    ...["crc64nvme", "crc32", "crc32c", "sha1", "sha256"].map((a) => [`Checksum ${a.toUpperCase()}`, headers.get(`x-amz-checksum-${a}`)]),
    ["Parts", headers.get("x-amz-mp-parts-count")], ["Deleted by a rule", headers.get("x-amz-expiration")],
    ...metadataOf(headers).map(([name, value]) => [`Metadata ${name}`, value]),
  ].filter(([, value]) => value);
  if (edit) return html`<${EditMetadata} bucket=${bucket} row=${row} headers=${headers} onDone=${() => { setEdit(false); reload(); onChange(); }} onCancel=${() => setEdit(false)} />`;
  return html`<dl class="facts">${facts.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>
    ${!row.marker && (!row.version || row.latest) && html`<${Only} may=${may}><div><${Button} onClick=${() => setEdit(true)}>Edit metadata<//></div><//>`}`;
}

function EditMetadata({ bucket, row, headers, onDone, onCancel }) {
  const [type, setType] = useState(headers.get("content-type") || "");
  const [cache, setCache] = useState(headers.get("cache-control") || "");
  const [rows, setRows] = useState([...metadataOf(headers), ["", ""]]);
  const save = useAction(async () => {
    const kept = standardOf(headers);
    delete kept["content-type"];
    delete kept["cache-control"];
    const sent = { ...kept, "x-amz-metadata-directive": "REPLACE", "Content-Type": type };
    if (cache) sent["Cache-Control"] = cache;
    rows.filter(([name]) => name).forEach(([name, value]) => { sent[`x-amz-meta-${name}`] = encodeHeader(value); });
    await copyObject(bucket, row.key, bucket, row.key, { headers: sent });
    onDone();
  });
  const change = (i, j, value) => {
    const next = rows.map((r, k) => (k === i ? r.map((v, l) => (l === j ? value : v)) : r));
    setRows(next[next.length - 1][0] ? [...next, ["", ""]] : next);
  };
  return html`<div class="stack">
    <${ErrorBox} error=${save.error} />
    <${Field} label="Content-Type"><${Input} value=${type} onValue=${setType} /><//>
    <${Field} label="Cache-Control"><${Input} value=${cache} onValue=${setCache} /><//>
    <fieldset><legend>Metadata</legend>${rows.map(([name, value], i) => html`<div class="row fields" key=${i}>
      <${Field} label="Name"><${Input} value=${name} onValue=${(v) => change(i, 0, v)} /><//>
      <${Field} label="Value"><${Input} value=${value} onValue=${(v) => change(i, 1, v)} /><//></div>`)}</fieldset>
    <p class="hint">S3 cannot change an object, so saving copies it onto itself; in a bucket with versions, that adds one.</p>
    <div class="row"><${Button} kind="primary" busy=${save.busy} onClick=${save.run}>Save<//><${Button} onClick=${onCancel}>Cancel<//></div></div>`;
}

/** Encodes a header value that is not ASCII as S3 clients do (RFC 2047). */
function encodeHeader(value) {
  if (/^[\x20-\x7e]*$/.test(value)) return value;
  return `=?UTF-8?B?${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}?=`;
}

/** Rows of tags to edit: value is [[key, value], ...]. */
export function TagRows({ value, onValue }) {
  const rows = [...value, ["", ""]];
  const change = (i, j, v) => onValue(rows.map((r, k) => (k === i ? r.map((old, l) => (l === j ? v : old)) : r)).filter(([key, val]) => key || val));
  return html`<fieldset><legend class="hidden">Tags</legend>${rows.map(([key, val], i) => html`<div class="row fields" key=${i}>
    <${Field} label=${`Tag ${i + 1}`}><${Input} value=${key} onValue=${(v) => change(i, 0, v)} /><//>
    <${Field} label=${`Value ${i + 1}`}><${Input} value=${val} onValue=${(v) => change(i, 1, v)} /><//>
    ${i < value.length && html`<${IconButton} icon="trash" label=${`Remove tag ${key}`} onClick=${() => onValue(value.filter((_, k) => k !== i))} />`}</div>`)}</fieldset>`;
}

/** Returns the tags of a document, and the document of tags. */
export const tagsOf = (document) => (document ? all(document, "Tag").map((t) => [text(t, "Key"), text(t, "Value")]) : []);
export const tagging = (tags) => `<Tagging><TagSet>${tags.map(([k, v]) => `<Tag><Key>${escapeXML(k)}</Key><Value>${escapeXML(v)}</Value></Tag>`).join("")}</TagSet></Tagging>`;

function Tags({ bucket, row, may }) {
  const where = { bucket, key: row.key, query: { tagging: true, versionId: row.version } };
  const load = useLoad(async (signal) => tagsOf(await s3configuration({ ...where, signal })), [bucket, row.key, row.version]);
  const [edited, setEdited] = useState(null);
  const save = useAction(async () => {
    const body = tagging(edited);
    await s3(edited.length ? "PUT" : "DELETE", { ...where, ...(edited.length ? { body, headers: { "x-amz-checksum-crc32": crc32(body) } } : {}) });
    setEdited(null);
    load.reload();
  });
  return html`<${Loaded} of=${load}>${(tags) => html`<${ErrorBox} error=${save.error} />
    <${Only} may=${may}><${TagRows} value=${edited || tags} onValue=${setEdited} />
      <div class="row"><${Button} kind="primary" disabled=${!edited} busy=${save.busy} onClick=${save.run}>Save tags<//></div><//>`}<//>`;
}

function Versions({ bucket, row, can, onChange }) {
  const load = useLoad(async (signal) => (await listVersions({ bucket, prefix: row.key, max: 1000, signal })).versions.filter((v) => v.key === row.key)
    .sort((a, b) => b.modified.localeCompare(a.modified)), [bucket, row.key]);
  const after = () => { load.reload(); onChange(); };
  const remove = async (v) => {
    if (!(await confirm({ title: "Delete this version?", body: "It cannot be brought back.", action: "Delete", danger: true }))) return;
    await attempt(async () => {
      const failed = await deleteItems(bucket, [v]);
      if (failed.length) throw new Error(failed[0].message);
    }, "The version is deleted.");
    after();
  };
  return html`<${Loaded} of=${load}>${(list) => html`<${Table} label="Versions" rows=${list} rowKey=${(v) => v.version} columns=${[
    { name: "version", title: "Version", render: (v) => html`<span class="mono">${v.version}</span> ${v.latest && html`<${Badge} kind="good">current<//>`} ${v.marker && html`<${Badge} kind="warn">delete marker<//>`}` },
    { name: "modified", title: "Created", render: (v) => date(v.modified) },
    { name: "size", title: "Size", align: "right", render: (v) => (v.marker ? "" : bytes(v.size)) },
    { name: "actions", narrow: true, render: (v) => html`<${Menu} label=${`Actions for version ${v.version}`} items=${[
      !v.marker && can("s3:GetObjectVersion").ok && { label: "Download", onClick: () => download(bucket, v) },
      !v.marker && !v.latest && can("s3:GetObjectVersion", "s3:PutObject").ok && { label: "Restore this version", onClick: () => restore(bucket, v).then(after) },
      can("s3:DeleteObjectVersion").ok && { label: v.marker ? "Delete this marker" : "Delete this version…", danger: true, onClick: () => remove(v) },
    ]} />` },
  ]} />`}<//>`;
}

function Protection({ bucket, row, can }) {
  const query = (name) => ({ [name]: true, versionId: row.version });
  const load = useLoad(async (signal) => {
    const lock = await s3configuration({ bucket, query: { "object-lock": true }, signal });
    if (!lock) return { locked: false };
    const [retention, hold] = await Promise.all(["retention", "legal-hold"].map((name) => s3configuration({ bucket, key: row.key, query: query(name), signal })));
    return { locked: true, mode: retention ? text(retention, "Mode") : "", until: retention ? text(retention, "RetainUntilDate") : "", hold: hold ? text(hold, "Status") === "ON" : false };
  }, [bucket, row.key, row.version]);
  const [mode, setMode] = useState("GOVERNANCE");
  const [until, setUntil] = useState("");
  const put = async (name, body) => {
    await s3("PUT", { bucket, key: row.key, query: query(name), body, headers: { "x-amz-checksum-crc32": crc32(body) } });
    load.reload();
  };
  const retain = useAction(() => put("retention", `<Retention><Mode>${mode}</Mode><RetainUntilDate>${new Date(until).toISOString()}</RetainUntilDate></Retention>`));
  const hold = useAction((on) => put("legal-hold", `<LegalHold><Status>${on ? "ON" : "OFF"}</Status></LegalHold>`));
  return html`<${Loaded} of=${load}>${(state) => (!state.locked ? html`<p class="muted">Object lock is off for this bucket, so versions can be deleted at any time.</p>` : html`
    <p>${state.until ? `Kept until ${date(state.until)} (${state.mode.toLowerCase()}).` : "No retention: this version can be deleted."}</p>
    <${ErrorBox} error=${retain.error || hold.error} />
    <${Only} may=${can("s3:PutObjectLegalHold")}><${Check} label="Legal hold" hint="Nobody can delete this version while it is on." checked=${state.hold} disabled=${hold.busy} onValue=${hold.run} /><//>
    <${Only} may=${can("s3:PutObjectRetention")}><div class="row fields"><${Field} label="Mode"><${Select} value=${mode} onValue=${setMode} options=${[["GOVERNANCE", "Governance: some users may shorten it"], ["COMPLIANCE", "Compliance: nobody may shorten it"]]} /><//>
      <${Field} label="Keep until"><${Input} type="datetime-local" value=${until} onValue=${setUntil} /><//>
      <${Button} disabled=${!until} busy=${retain.busy} onClick=${retain.run}>Set retention<//></div><//>`)}<//>`;
}

function Move({ bucket, row, mayDelete, headers, onDone }) {
  const size = Number(headers.get("content-length"));
  const [to, setTo] = useState(bucket);
  const [key, setKey] = useState(row.key);
  const [progress, setProgress] = useState(null);
  const same = to === bucket && key === row.key;
  const run = useAction(async (move) => {
    if (size > COPY_MAX) await copyParts(bucket, row, to, key, headers, setProgress);
    else await copyObject(bucket, row.key, to, key, { version: row.version });
    if (move) await s3("DELETE", { bucket, key: row.key, query: { versionId: row.version } });
    onDone();
  });
  return html`<div class="stack"><${ErrorBox} error=${run.error} />
    <${Field} label="Bucket"><${Input} value=${to} onValue=${setTo} /><//>
    <${Field} label="Key"><${Input} value=${key} onValue=${setKey} /><//>
    ${run.busy && html`<${Spinner} label=${progress ? `Copied ${bytes(progress)}` : "Copying"} />`}
    <div class="row"><${Button} disabled=${same || !key || run.busy} onClick=${() => run.run(false)}>Copy<//>
      <${Button} disabled=${same || !key || run.busy || !mayDelete.ok} onClick=${() => run.run(true)}>Move<//></div>
    ${mayDelete.why && html`<p class="hint refused">${mayDelete.why}</p>`}</div>`;
}

/** Copies an object that is too large for one request, with its metadata and tags, which such an upload would not have. */
async function copyParts(bucket, row, to, key, headers, progress) {
  const size = Number(headers.get("content-length"));
  const sent = standardOf(headers);
  for (const [name, value] of metadataOf(headers)) sent[`x-amz-meta-${name}`] = encodeHeader(value);
  const tags = tagsOf(await s3configuration({ bucket, key: row.key, query: { tagging: true, versionId: row.version } }));
  if (tags.length) sent["x-amz-tagging"] = new URLSearchParams(tags).toString();
  const begun = await s3xml("POST", { bucket: to, key, query: { uploads: true }, headers: sent });
  const uploadId = text(begun, "UploadId");
  const source = `/${encodeURIComponent(bucket)}/${row.key.split("/").map(encodeURIComponent).join("/")}${row.version ? `?versionId=${encodeURIComponent(row.version)}` : ""}`;
  const part = Math.max(512 * 2 ** 20, Math.ceil(size / 10000));
  const parts = [];
  try {
    for (let from = 0; from < size; from += part) {
      const end = Math.min(size, from + part);
      const done = await s3xml("PUT", { bucket: to, key, query: { partNumber: parts.length + 1, uploadId },
        headers: { "x-amz-copy-source": source, "x-amz-copy-source-range": `bytes=${from}-${end - 1}` } });
      parts.push(text(done, "ETag"));
      progress(end);
    }
    await s3xml("POST", { bucket: to, key, query: { uploadId }, body: `<CompleteMultipartUpload>${parts.map((etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escapeXML(etag)}</ETag></Part>`).join("")}</CompleteMultipartUpload>` });
  } catch (error) {
    await s3("DELETE", { bucket: to, key, query: { uploadId } }).catch(() => {});
    throw error;
  }
}
