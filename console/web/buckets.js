// The list of buckets, and creating one.

import { html, useState, Badge, Button, Check, Dialog, Empty, ErrorBox, Field, Input, Link, Loaded, Menu, Page, Select, Table, confirm, toast, useAction, useLoad, attempt } from "./ui.js";
import { call, may } from "./api.js";
import { s3, listBuckets, listVersions, putConfiguration } from "./s3.js";
import { bytes, count, date, parseBytes, plural } from "./format.js";
import { deleteItems, pathOf } from "./objects.js";
import { useAllowed } from "./allowed.js";

const DETAILS = 100; // for more buckets, the list does not ask for the details of each

export function Buckets() {
  const [create, setCreate] = useState(false);
  const [filter, setFilter] = useState("");
  const load = useLoad((signal) => listBuckets(signal), []);
  const mayCreate = useAllowed({}, ["s3:CreateBucket"])("s3:CreateBucket").ok;
  return html`<${Page} title="Buckets" actions=${mayCreate && html`<${Button} kind="primary" icon="plus" onClick=${() => setCreate(true)}>Create bucket<//>`}>
    <${Loaded} of=${load}>${(buckets) => (buckets.length === 0 ? html`<${Empty} title="There are no buckets yet">
        <p>Or there are none that you may see.</p>${mayCreate && html`<${Button} kind="primary" onClick=${() => setCreate(true)}>Create bucket<//>`}<//>` : html`
      <div class="toolbar"><${Input} type="search" placeholder="Filter" aria-label="Filter buckets" value=${filter} onValue=${setFilter} /><span class="muted">${plural(buckets.length, "bucket")}</span></div>
      <${List} buckets=${buckets.filter((b) => b.name.includes(filter))} reload=${load.reload} />`)}<//>
    ${create && html`<${CreateBucket} onClose=${() => setCreate(false)} onDone=${() => { setCreate(false); load.reload(); }} />`}
  <//>`;
}

function List({ buckets, reload }) {
  const names = buckets.slice(0, DETAILS).map((b) => b.name);
  const details = useLoad(async (signal) => {
    if (!may("GetBucketSettings")) return {};
    const found = {};
    await Promise.all(names.map(async (name) => {
      found[name] = await call("GET", "bucket", { query: { name }, signal }).catch(() => ({}));
    }));
    return found;
  }, [names.join("\n")]);
  const of = (b) => details.data?.[b.name] || {};
  return html`<${Table} label="Buckets" rows=${buckets} empty=${html`<${Empty} title="No bucket has this in its name" />`} columns=${[
    { name: "name", title: "Name", render: (b) => html`<${Link} class="name" to=${pathOf(b.name, "")}>${b.name}<//> ${of(b).public && of(b).public !== "none" && html`<${Badge} kind="warn">public<//>`}` },
    { name: "objects", title: "Objects", align: "right", render: (b) => count(of(b).holds?.objects) },
    { name: "size", title: "Size", align: "right", render: (b) => bytes(of(b).holds?.bytes) },
    { name: "created", title: "Created", narrow: true, render: (b) => date(b.created) },
    { name: "actions", narrow: true, render: (b) => html`<${Actions} name=${b.name} reload=${reload} />` },
  ]} />`;
}

function Actions({ name, reload }) {
  const [opened, setOpened] = useState(false);
  const can = useAllowed(opened && { bucket: name }, ["s3:DeleteBucket"]);
  return html`<${Menu} label=${`Actions for ${name}`} onOpen=${() => setOpened(true)} items=${[
    { label: "Browse", onClick: () => { window.location.hash = pathOf(name, ""); } },
    { label: "Settings", onClick: () => { window.location.hash = `/buckets/${encodeURIComponent(name)}`; } },
    can("s3:DeleteBucket").ok && { label: "Delete…", danger: true, onClick: () => removeBucket(name).then((done) => done && reload()) },
  ]} />`;
}

/** Returns what is wrong with a bucket name, or "". */
export function wrongName(name) {
  if (!name) return "";
  if (name.length < 3 || name.length > 63) return "A name has 3 to 63 characters.";
  if (!/^[a-z0-9.-]*$/.test(name)) return "A name has lowercase letters, digits, hyphens and periods only.";
  if (!/^[a-z0-9].*[a-z0-9]$/.test(name)) return "A name begins and ends with a letter or a digit.";
  if (/\.\.|\.-|-\./.test(name)) return "A period stands between letters or digits.";
  if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) return "A name must not look like an IP address.";
  return "";
}

function CreateBucket({ onClose, onDone }) {
  const [name, setName] = useState("");
  const [versioning, setVersioning] = useState(false);
  const [lock, setLock] = useState(false);
  const [compression, setCompression] = useState("default");
  const [quota, setQuota] = useState("");
  const [encrypt, setEncrypt] = useState(false);
  const [block, setBlock] = useState(true);
  const can = useAllowed({}, ["s3:PutBucketVersioning", "s3:PutBucketObjectLockConfiguration", "s3:PutBucketPublicAccessBlock", "s3:PutEncryptionConfiguration"]);
  const wrong = wrongName(name);
  const wrongQuota = quota && !(parseBytes(quota) > 0) ? "Enter a size such as 10GiB." : "";
  const create = useAction(async () => {
    await s3("PUT", { bucket: name, headers: lock ? { "x-amz-bucket-object-lock-enabled": "true" } : {} });
    const failures = [];
    const step = (what, promise) => promise.catch((error) => failures.push(`${what}: ${error.message}`));
    if (versioning && !lock) await step("versioning", putConfiguration(name, "versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"));
    if (encrypt) await step("encryption", putConfiguration(name, "encryption", ENCRYPTION));
    if (!block) await step("public access", s3("DELETE", { bucket: name, query: { publicAccessBlock: true } }));
    const settings = { compression: compression === "default" ? "" : compression, "max-bytes": quota ? String(parseBytes(quota)) : "" };
    if (settings.compression || settings["max-bytes"]) await step("settings", call("POST", "bucket", { query: { name, ...settings } }));
    if (failures.length) toast(`The bucket exists, but not all settings were made: ${failures.join("; ")}`, "error");
    else toast(`The bucket ${name} was created.`);
    onDone(name);
  });
  return html`<${Dialog} title="Create bucket" onClose=${onClose} onSubmit=${() => name && !wrong && !wrongQuota && create.run()} footer=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!name || wrong || wrongQuota}>Create bucket<//>`}>
    <${ErrorBox} error=${create.error} />
    <${Field} label="Name" error=${wrong} hint="3 to 63 lowercase letters, digits and hyphens"><${Input} value=${name} onValue=${setName} autofocus maxlength="63" /><//>
    <${Check} label="Keep versions" hint="Overwritten and deleted objects can be brought back." checked=${versioning || lock} disabled=${lock || !can("s3:PutBucketVersioning").ok} onValue=${setVersioning} />
    <${Check} label="Object lock" hint="Versions can be protected from deletion for a time. It turns versions on." checked=${lock} disabled=${!can("s3:PutBucketVersioning", "s3:PutBucketObjectLockConfiguration").ok} onValue=${setLock} />
    <${Check} label="Block public access" hint="Policies cannot make objects public by mistake." checked=${block} disabled=${!can("s3:PutBucketPublicAccessBlock").ok} onValue=${setBlock} />
    <${Check} label="Encrypt new objects" hint="The server needs a master key." checked=${encrypt} disabled=${!can("s3:PutEncryptionConfiguration").ok} onValue=${setEncrypt} />
    ${may("PutBucketSettings") && html`<${Field} label="Compression"><${Select} value=${compression} onValue=${setCompression} options=${COMPRESSION} /><//>
      <${Field} label="Quota" error=${wrongQuota} hint="Such as 10GiB; empty for none"><${Input} value=${quota} onValue=${setQuota} /><//>`}
  <//>`;
}

export const COMPRESSION = [["default", "As the server is set"], ["off", "Off"], ["fast", "Fast"], ["better", "Better"]];
export const ENCRYPTION = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";

/** Deletes a bucket after a question, and offers to empty it. Returns whether it is gone. */
export async function removeBucket(name) {
  if (!(await confirm({ title: "Delete bucket?", body: "The bucket and its settings will be deleted.", action: "Delete bucket", danger: true, typed: name }))) return false;
  try {
    await s3("DELETE", { bucket: name });
  } catch (error) {
    if (error.code !== "BucketNotEmpty") {
      toast(error.message, "error");
      return false;
    }
    if (!(await confirm({ title: "The bucket is not empty", body: "Delete all objects in it, with all versions? This cannot be undone.", action: "Delete everything", danger: true, typed: name }))) return false;
    const done = await attempt(async () => {
      await emptyBucket(name);
      await s3("DELETE", { bucket: name });
    });
    if (!done) return false;
  }
  toast(`The bucket ${name} was deleted.`);
  return true;
}

async function emptyBucket(name) {
  let deleted = 0;
  for (;;) {
    const page = await listVersions({ bucket: name, max: 1000 });
    if (!page.versions.length) return;
    const failed = await deleteItems(name, page.versions);
    if (failed.length) throw new Error(`${plural(failed.length, "version")} could not be deleted: ${failed[0].message}`);
    deleted += page.versions.length;
    if (deleted % 10000 === 0) toast(`${plural(deleted, "version")} deleted so far…`, "info");
  }
}
