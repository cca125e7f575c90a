// The settings of a bucket. Each part loads and saves on its own.

import { html, useState, Button, Card, Check, ErrorBox, Field, Input, Link, Loaded, Page, Select, Stat, Table, Tabs, attempt, confirm, toast, useAction, useLoad } from "./ui.js";
import { call, may } from "./api.js";
import { s3, s3xml, s3configuration, all, text, putConfiguration } from "./s3.js";
import { bytes, count, date, parseBytes } from "./format.js";
import { COMPRESSION, ENCRYPTION, removeBucket } from "./buckets.js";
import { pathOf } from "./objects.js";
import { TagRows, tagging, tagsOf } from "./object.js";
import { Lifecycle } from "./bucket_lifecycle.js";
import { Cors } from "./bucket_cors.js";
import { Policy } from "./bucket_policy.js";
import { UsageChart } from "./chart.js";
import { Only, useAllowed } from "./allowed.js";

// The tabs: their addresses, titles and content, and the actions that they need to show something.
const TABS = [
  ["overview", "Overview", Overview, []],
  ["versions", "Versions and lock", Versions, ["s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration"]],
  ["lifecycle", "Lifecycle", Lifecycle, ["s3:GetLifecycleConfiguration"]],
  ["policy", "Policy", Policy, ["s3:GetBucketPolicy"]],
  ["public", "Public access", PublicAccess, ["s3:GetBucketPublicAccessBlock", "s3:GetBucketPolicyStatus"]],
  ["cors", "CORS", Cors, ["s3:GetBucketCORS"]],
  ["storage", "Storage", Storage, ["s3:GetEncryptionConfiguration"]],
  ["tags", "Tags", Tags, ["s3:GetBucketTagging"]],
];

// The actions that change something.
const CHANGES = [
  "s3:DeleteBucket", "s3:ListBucketMultipartUploads", "s3:PutBucketVersioning", "s3:PutBucketObjectLockConfiguration", "s3:PutLifecycleConfiguration", "s3:PutBucketPolicy",
  "s3:DeleteBucketPolicy", "s3:PutBucketPublicAccessBlock", "s3:PutBucketCORS", "s3:PutEncryptionConfiguration", "s3:PutBucketTagging",
];

export function Bucket({ params }) {
  const [bucket, tab = "overview"] = params;
  const path = (id) => `/buckets/${encodeURIComponent(bucket)}/${id}`;
  const found = TABS.find(([id]) => id === tab) || TABS[0];
  const can = useAllowed({ bucket }, [...TABS.flatMap(([, , , needs]) => needs), ...CHANGES]);
  const shown = TABS.filter((t) => t === found || can(...t[3]).ok);
  return html`<${Page} title=${bucket} crumbs=${[["Buckets", "/buckets"], [bucket]]} actions=${html`
      <${Link} class="button primary" to=${pathOf(bucket, "")}>Browse objects<//>`}>
    <${Tabs} label="Settings" current=${path(found[0])} tabs=${shown.map(([id, title]) => [path(id), title])} />
    <${found[2]} key=${bucket + found[0]} bucket=${bucket} can=${can} />
  <//>`;
}

/** A form that saves: its fields, a button, and what happened. may is what the user may do, from useAllowed. */
function Saver({ save, disabled, label = "Save", children, done = "Saved.", may }) {
  const action = useAction(async () => {
    await save();
    toast(done);
  });
  return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); if (!disabled) action.run(); }}>
    <${Only} may=${may}>${children}<${ErrorBox} error=${action.error} />
      <div class="row"><${Button} kind="primary" type="submit" busy=${action.busy} disabled=${disabled}>${label}<//></div><//></form>`;
}

function Overview({ bucket, can }) {
  const settings = useLoad((signal) => call("GET", "bucket", { query: { name: bucket }, signal }), [bucket]);
  return html`<div class="stack">
    ${may("GetBucketSettings") && html`<${Card} title="Content"><${Loaded} of=${settings}>${({ holds }) => html`<dl class="stats">
      <${Stat} label="Objects" value=${count(holds.objects)} hint=${bytes(holds.bytes)} />
      <${Stat} label="Older versions" value=${count(holds.noncurrent_versions)} hint=${bytes(holds.noncurrent_bytes)} />
      <${Stat} label="Delete markers" value=${count(holds.delete_markers)} />
      <${Stat} label="Unfinished uploads" value=${count(holds.uploads)} hint=${bytes(holds.upload_bytes)} /></dl>`}<//><//>`}
    ${may("GetUsage") && html`<${Card} title="Usage over time"><${UsageChart} bucket=${bucket} /><//>`}
    ${can("s3:ListBucketMultipartUploads").ok && html`<${UploadList} bucket=${bucket} />`}
    ${can("s3:DeleteBucket").ok && html`<${Card} title="Delete bucket" actions=${html`<${Button} kind="danger" onClick=${async () => { if (await removeBucket(bucket)) window.location.hash = "/buckets"; }}>Delete bucket…<//>`}>
      <p class="muted">Only an empty bucket can be deleted. If it is not, you will be asked whether to empty it.</p><//>`}
  </div>`;
}

function UploadList({ bucket }) {
  const load = useLoad(async (signal) => {
    const document = await s3xml("GET", { bucket, query: { uploads: true, "encoding-type": "url", "max-uploads": 1000 }, signal });
    return {
      more: text(document, "IsTruncated") === "true",
      list: all(document, "Upload").map((u) => ({ key: decodeURIComponent(text(u, "Key").replace(/\+/g, " ")), id: text(u, "UploadId"), begun: text(u, "Initiated") })),
    };
  }, [bucket]);
  const abort = (rows) => attempt(async () => {
    for (const u of rows) await s3("DELETE", { bucket, key: u.key, query: { uploadId: u.id } });
    load.reload();
  }, rows.length === 1 ? "The upload was deleted." : "The uploads were deleted.");
  const abortAll = async (rows) => {
    if (await confirm({ title: "Delete all unfinished uploads?", body: "Clients that are still uploading have to start again.", action: "Delete all", danger: true })) abort(rows);
  };
  return html`<${Card} title="Unfinished uploads" actions=${load.data?.list.length > 1 && html`<${Button} onClick=${() => abortAll(load.data.list)}>Delete all…<//>`}>
    <${Loaded} of=${load}>${({ list, more }) => (list.length === 0 ? html`<p class="muted">There are none.</p>` : html`
      <${Table} label="Unfinished uploads" rows=${list} rowKey=${(u) => u.id} columns=${[
        { name: "key", title: "Key" }, { name: "begun", title: "Begun", render: (u) => date(u.begun), narrow: true },
        { name: "actions", narrow: true, render: (u) => html`<${Button} onClick=${() => abort([u])}>Delete<//>` },
      ]} />${more && html`<p class="hint">There are more.</p>`}`)}<//><//>`;
}

function Versions({ bucket, can }) {
  const load = useLoad(async (signal) => {
    const [versioning, lock] = await Promise.all([
      s3configuration({ bucket, query: { versioning: true }, signal }), s3configuration({ bucket, query: { "object-lock": true }, signal })]);
    return {
      versioning: versioning ? text(versioning, "Status") : "", lock: Boolean(lock), mode: lock ? text(lock, "Mode") : "",
      days: lock ? text(lock, "Days") : "", years: lock ? text(lock, "Years") : "",
    };
  }, [bucket]);
  return html`<${Loaded} of=${load}>${(state) => html`<${VersioningForm} key=${JSON.stringify(state)} bucket=${bucket} can=${can} state=${state} reload=${load.reload} />`}<//>`;
}

function VersioningForm({ bucket, can, state, reload }) {
  const [status, setStatus] = useState(state.versioning || "Off");
  const [mode, setMode] = useState(state.mode || "none");
  const [unit, setUnit] = useState(state.years ? "Years" : "Days");
  const [number, setNumber] = useState(state.years || state.days || "30");
  const options = [...(state.versioning ? [] : [["Off", "Off: a delete or overwrite is final"]]), ["Enabled", "On: older versions are kept"], ...(state.lock ? [] : [["Suspended", "Suspended: existing versions stay, no new ones"]])];
  const wrong = mode !== "none" && !(Number(number) > 0 && Number.isInteger(Number(number))) ? "Enter a whole number." : "";
  return html`<div class="cards"><${Card} title="Versions">
    <${Saver} may=${can("s3:PutBucketVersioning")} disabled=${status === (state.versioning || "Off")} save=${async () => { await putConfiguration(bucket, "versioning", `<VersioningConfiguration><Status>${status}</Status></VersioningConfiguration>`); reload(); }}>
      <${Field} label="Versioning"><${Select} value=${status} onValue=${setStatus} options=${options} /><//><//><//>
    <${Card} title="Object lock">
      <p class="muted">${state.lock ? "Object lock is on. It cannot be turned off." : "Object lock protects versions from deletion for a time. Once on, it stays on. It needs versions."}</p>
      <${Saver} may=${can("s3:PutBucketObjectLockConfiguration")} label=${state.lock ? "Save" : "Turn on object lock"} disabled=${Boolean(wrong) || (!state.lock && state.versioning !== "Enabled")} save=${async () => {
        const rule = mode === "none" ? "" : `<Rule><DefaultRetention><Mode>${mode}</Mode><${unit}>${number}</${unit}></DefaultRetention></Rule>`;
        await putConfiguration(bucket, "object-lock", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>${rule}</ObjectLockConfiguration>`);
        reload();
      }}>
        <${Field} label="New versions are kept"><${Select} value=${mode} onValue=${setMode} options=${[["none", "Only if the upload says so"], ["GOVERNANCE", "Governance: some users may shorten it"], ["COMPLIANCE", "Compliance: nobody may shorten it"]]} /><//>
        ${mode !== "none" && html`<div class="row fields"><${Field} label="For" error=${wrong}><${Input} type="number" min="1" value=${number} onValue=${setNumber} /><//>
          <${Field} label="Unit"><${Select} value=${unit} onValue=${setUnit} options=${[["Days", "days"], ["Years", "years"]]} /><//></div>`}<//><//></div>`;
}

const BLOCKS = [
  ["BlockPublicAcls", "Refuse new public ACLs"], ["IgnorePublicAcls", "Ignore public ACLs"],
  ["BlockPublicPolicy", "Refuse policies that make the bucket public"], ["RestrictPublicBuckets", "Limit a public policy to users of this account"],
];

function PublicAccess({ bucket, can }) {
  const load = useLoad(async (signal) => {
    const [block, status] = await Promise.all([
      s3configuration({ bucket, query: { publicAccessBlock: true }, signal }),
      s3configuration({ bucket, query: { policyStatus: true }, signal })]);
    return { block: BLOCKS.map(([name]) => (block ? text(block, name) === "true" : false)), open: status ? text(status, "IsPublic").toLowerCase() === "true" : false };
  }, [bucket]);
  return html`<${Loaded} of=${load}>${(state) => html`<${PublicForm} key=${JSON.stringify(state)} bucket=${bucket} can=${can} state=${state} reload=${load.reload} />`}<//>`;
}

function PublicForm({ bucket, can, state, reload }) {
  const [block, setBlock] = useState(state.block);
  return html`<${Card} title="Public access">
    <div class=${`box ${state.open ? "warn" : "good"}`}><p>${state.open ? "The policy of this bucket allows access without credentials." : "Nobody can read or write this bucket without credentials."}</p></div>
    <${Saver} may=${can("s3:PutBucketPublicAccessBlock")} disabled=${String(block) === String(state.block)} save=${async () => {
      await putConfiguration(bucket, "publicAccessBlock", `<PublicAccessBlockConfiguration>${BLOCKS.map(([name], i) => `<${name}>${block[i]}</${name}>`).join("")}</PublicAccessBlockConfiguration>`);
      reload();
    }}>${BLOCKS.map(([name, label], i) => html`<${Check} key=${name} label=${label} hint=${name} checked=${block[i]} onValue=${(on) => setBlock(block.map((b, j) => (j === i ? on : b)))} />`)}<//>
    <p class="hint">To share single objects for a time, use a link instead of a public bucket. Public access itself is granted by the <${Link} to=${`/buckets/${encodeURIComponent(bucket)}/policy`}>policy<//>.</p><//>`;
}

function Storage({ bucket, can }) {
  const settings = useLoad((signal) => (may("GetBucketSettings") ? call("GET", "bucket", { query: { name: bucket }, signal }) : Promise.resolve(null)), [bucket]);
  const encryption = useLoad(async (signal) => {
    const document = await s3configuration({ bucket, query: { encryption: true }, signal });
    return { algorithm: document ? text(document, "SSEAlgorithm") : "" };
  }, [bucket]);
  return html`<div class="cards">
    <${Card} title="Encryption"><${Loaded} of=${encryption}>${({ algorithm }) => html`
      <p>${algorithm ? `New objects are encrypted (${algorithm}).` : "New objects are encrypted only if the upload or the server asks for it."}</p>
      <${Saver} may=${can("s3:PutEncryptionConfiguration")} label=${algorithm ? "Turn off" : "Turn on"} save=${async () => {
        if (algorithm) await s3("DELETE", { bucket, query: { encryption: true } });
        else await putConfiguration(bucket, "encryption", ENCRYPTION);
        encryption.reload();
      }}><p class="hint">Existing objects stay as they are. The server needs a master key.</p><//>`}<//><//>
    <${Loaded} of=${settings}>${(s) => s && html`<${StorageForm} key=${JSON.stringify(s)} bucket=${bucket} settings=${s} reload=${settings.reload} />`}<//></div>`;
}

function StorageForm({ bucket, settings, reload }) {
  const [compression, setCompression] = useState(settings.compression);
  const [maxBytes, setMaxBytes] = useState(settings.max_bytes ? bytesText(settings.max_bytes) : "");
  const [maxObjects, setMaxObjects] = useState(settings.max_objects ? String(settings.max_objects) : "");
  const wrongBytes = maxBytes && !(parseBytes(maxBytes) > 0) ? "Enter a size such as 10GiB." : "";
  const wrongObjects = maxObjects && !/^[1-9][0-9]*$/.test(maxObjects) ? "Enter a whole number." : "";
  const post = async (query) => {
    await call("POST", "bucket", { query: { name: bucket, ...query } });
    reload();
  };
  const allowed = may("PutBucketSettings") ? { ok: true } : { ok: false, why: "No policy allows you to change the settings of buckets (orcas:PutBucketSettings)." };
  return html`<${Card} title="Compression"><${Saver} may=${allowed} disabled=${compression === settings.compression} save=${() => post({ compression })}>
      <${Field} label="New objects" hint="Objects that do not become smaller are stored as they are."><${Select} value=${compression} onValue=${setCompression} options=${COMPRESSION} /><//><//><//>
    <${Card} title="Quota"><p class="muted">In use: ${bytes(settings.holds.bytes + settings.holds.noncurrent_bytes)} in ${count(settings.holds.objects + settings.holds.noncurrent_versions)} versions.</p>
      <${Saver} may=${allowed} disabled=${Boolean(wrongBytes || wrongObjects)}
        save=${() => post({ "max-bytes": maxBytes ? String(parseBytes(maxBytes)) : "none", "max-objects": maxObjects || "none" })}>
        <${Field} label="Maximum size" error=${wrongBytes} hint="Such as 10GiB; empty for none. All versions count."><${Input} value=${maxBytes} onValue=${setMaxBytes} /><//>
        <${Field} label="Maximum number of versions" error=${wrongObjects} hint="Empty for none"><${Input} value=${maxObjects} onValue=${setMaxObjects} inputmode="numeric" /><//><//><//>`;
}

/** Returns a size in the largest unit in which it is whole. */
function bytesText(n) {
  for (const [unit, power] of [["TiB", 4], ["GiB", 3], ["MiB", 2], ["KiB", 1]]) if (n % 1024 ** power === 0) return `${n / 1024 ** power}${unit}`;
  return String(n);
}

function Tags({ bucket, can }) {
  const load = useLoad(async (signal) => tagsOf(await s3configuration({ bucket, query: { tagging: true }, signal })), [bucket]);
  const [edited, setEdited] = useState(null);
  return html`<${Card} title="Tags"><${Loaded} of=${load}>${(tags) => html`<${Saver} may=${can("s3:PutBucketTagging")} label="Save tags" disabled=${!edited} save=${async () => {
    if (edited.length) await putConfiguration(bucket, "tagging", tagging(edited));
    else await s3("DELETE", { bucket, query: { tagging: true } });
    setEdited(null);
    load.reload();
  }}><${TagRows} value=${edited || tags} onValue=${setEdited} /><//>`}<//><//>`;
}
