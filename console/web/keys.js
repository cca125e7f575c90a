// Application keys: each may use one bucket, or the keys of a bucket with a prefix.

import { html, useState, Badge, Button, Check, Code, Dialog, Empty, ErrorBox, Field, Input, Loaded, Menu, Page, Select, Table, attempt, confirm, useAction, useLoad } from "./ui.js";
import { call, may } from "./api.js";
import { listBuckets } from "./s3.js";
import { ago, date } from "./format.js";
import { Snippets } from "./connect.js";

export const ACCESS = [["readwrite", "Read and write"], ["read", "Read only"], ["write", "Write only"]];
const EXPIRES = [["", "Never"], ["1d", "In 1 day"], ["7d", "In 7 days"], ["30d", "In 30 days"], ["90d", "In 90 days"], ["365d", "In 1 year"]];

export function Keys() {
  const load = useLoad((signal) => call("GET", "key", { signal }), []);
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState(null);
  return html`<${Page} title="Keys" actions=${may("CreateKey") && html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create key<//>`}>
    <p class="muted">Give each application a key of its own, which may do only what it needs. For people and finer rules there are users and policies.</p>
    <${Loaded} of=${load}>${({ keys }) => html`<${List} keys=${keys} reload=${load.reload} show=${setMade} create=${() => setCreating(true)} />`}<//>
    ${creating && html`<${CreateKey} onClose=${() => setCreating(false)} onDone=${(key) => { setCreating(false); setMade(key); load.reload(); }} />`}
    ${made && html`<${Secret} made=${made} onClose=${() => setMade(null)} />`}
  <//>`;
}

function List({ keys, reload, show, create }) {
  if (!keys.length) return html`<${Empty} title="There are no keys yet">${may("CreateKey") && html`<${Button} kind="primary" onClick=${create}>Create key<//>`}<//>`;
  const rotate = async (k) => {
    if (!(await confirm({ title: `Rotate ${k.name}?`, body: "The application gets a new access key and secret. The old ones work for another 24 hours.", action: "Rotate" }))) return;
    const key = await attempt(() => call("POST", "key/rotate", { query: { name: k.name, overlap: "24h" } }));
    if (key) show(key);
    reload();
  };
  const state = (k, enabled) => attempt(() => call("POST", "key/state", { query: { name: k.name, enabled: String(enabled) } }), enabled ? "The key is enabled." : "The key is disabled.").then(reload);
  const remove = async (k) => {
    if (!(await confirm({ title: `Delete ${k.name}?`, body: "Applications that use this key lose access at once.", action: "Delete key", danger: true, typed: k.name }))) return;
    await attempt(() => call("DELETE", "key", { query: { name: k.name } }), "The key was deleted.");
    reload();
  };
  return html`<${Table} label="Keys" rows=${keys} columns=${[
    { name: "name", title: "Name", render: (k) => html`<strong>${k.name}</strong><br /><span class="hint mono">${k.access_key}</span>` },
    { name: "may", title: "Access", render: (k) => allowed(k) },
    { name: "state", title: "State", render: (k) => html`<${State} of=${k} />` },
    { name: "used", title: "Last used", narrow: true, render: (k) => ago(k.last_used) },
    { name: "expires", title: "Expires", narrow: true, render: (k) => (k.expires ? html`<span title=${date(k.expires)}>${ago(k.expires)}</span>` : "never") },
    { name: "actions", narrow: true, render: (k) => html`<${Menu} label=${`Actions for ${k.name}`} items=${[
      may("RotateKey") && { label: "Rotate…", onClick: () => rotate(k) },
      may("UpdateKey") && { label: k.enabled ? "Disable" : "Enable", onClick: () => state(k, !k.enabled) },
      may("DeleteKey") && { label: "Delete…", danger: true, onClick: () => remove(k) },
    ]} />` },
  ]} />`;
}

/** Says what a key may do. */
export function allowed(k) {
  const what = { read: "read", write: "write", readwrite: "read and write" }[k.access] || k.access;
  return `${what} ${k.prefix ? `“${k.prefix}…” in ${k.bucket}` : `in ${k.bucket}`}${k.no_delete ? ", not delete" : ""}`;
}

function State({ of: k }) {
  if (k.works) return html`<${Badge} kind="good">active<//>${k.previous && html` <${Badge}>old key until ${date(k.previous.expires)}<//>`}`;
  if (!k.enabled) return html`<${Badge} kind="warn">disabled<//>`;
  return html`<${Badge} kind="bad">${k.expires && new Date(k.expires) < new Date() ? "expired" : "does not work"}<//>`;
}

/** The fields of a new key, which start with those of value. */
export function CreateKey({ onClose, onDone }) {
  const buckets = useLoad((signal) => listBuckets(signal), []);
  const [key, setKey] = useState({ name: "", bucket: "", prefix: "", access: "readwrite", expires: "", keep: false });
  const set = (field) => (value) => setKey({ ...key, [field]: value });
  const bucket = key.bucket || buckets.data?.[0]?.name || "";
  const create = useAction(async () => onDone(await createKey({ ...key, bucket })));
  return html`<${Dialog} title="Create key" onClose=${onClose} onSubmit=${() => key.name && bucket && create.run()} footer=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!key.name || !bucket}>Create key<//>`}>
    <${ErrorBox} error=${create.error} />
    <${Field} label="Name" hint="Such as the name of the application"><${Input} value=${key.name} onValue=${set("name")} autofocus maxlength="64" /><//>
    <${Loaded} of=${buckets}>${(list) => (list.length ? html`<${Field} label="Bucket"><${Select} value=${bucket} onValue=${set("bucket")} options=${list.map((b) => [b.name, b.name])} /><//>`
      : html`<div class="box warn"><p>There is no bucket yet. Create one first.</p></div>`)}<//>
    <${Field} label="Only keys that begin with" hint="Such as photos/; empty for the whole bucket"><${Input} value=${key.prefix} onValue=${set("prefix")} /><//>
    <${Field} label="Access"><${Select} value=${key.access} onValue=${set("access")} options=${ACCESS} /><//>
    ${key.access !== "read" && html`<${Check} label="May not delete" checked=${key.keep} onValue=${set("keep")} />`}
    <${Field} label="Expires"><${Select} value=${key.expires} onValue=${set("expires")} options=${EXPIRES} /><//>
  <//>`;
}

/** Creates a key, and returns it with its secret. */
export function createKey({ name, bucket, prefix, access, expires, keep }) {
  return call("POST", "key", { query: { name, bucket, prefix, access, expires, "no-delete": keep && access !== "read" ? "true" : "" } });
}

/** Shows the secret of a new key, once. */
function Secret({ made, onClose }) {
  return html`<${Dialog} wide title=${`The key ${made.name}`} onClose=${onClose} footer=${html`<${Button} kind="primary" onClick=${onClose}>Done<//>`}>
    <${SecretBox} made=${made} />
    <h3>Connect a client</h3>
    <${Snippets} access=${{ bucket: made.bucket, prefix: made.prefix, access: made.access_key, secret: made.secret_key }} /><//>`;
}

/** The access key and the secret, to copy or to save. */
export function SecretBox({ made }) {
  const file = `[default]\naws_access_key_id = ${made.access_key}\naws_secret_access_key = ${made.secret_key}\n`;
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([file], { type: "text/plain" }));
    link.download = `${made.name || "orcas"}-credentials`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  return html`<div class="stack"><div class="box warn"><p>The secret key is shown only now. Save it where the application finds it.</p><${Button} icon="down" onClick=${save}>Save as a file<//></div>
    <p class="hint">Access key</p><${Code} text=${made.access_key} label="access key" />
    <p class="hint">Secret key</p><${Code} text=${made.secret_key} label="secret key" /></div>`;
}
