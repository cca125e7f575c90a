// Browsing a bucket: folders, objects, and what to do with them.

import { html, useEffect, useRef, useState, Badge, Button, Check, Dialog, Empty, ErrorBox, Field, Icon, Input, Link, Menu, Page, Spinner, Table, attempt, classes, confirm, toast } from "./ui.js";
import { s3, s3url, s3configuration, listObjects, listVersions, deleteObjects, text } from "./s3.js";
import { token } from "./api.js";
import { bytes, count, date, plural } from "./format.js";
import { addFiles, filesOf, onUploaded } from "./uploads.js";
import { ObjectDialog } from "./object.js";
import { ShareDialog } from "./share.js";
import { useAllowed } from "./allowed.js";

const PAGE = 500; // rows per request
const WINDOW = 2000; // rows that the page keeps; a longer listing goes on from there

/** Returns the address of a prefix in a bucket. */
export function pathOf(bucket, prefix) {
  return `/objects/${encodeURIComponent(bucket)}${prefix ? `/${prefix.split("/").map(encodeURIComponent).join("/")}` : ""}`;
}

/** Returns the last part of a key or prefix. */
export function nameOf(key, prefix = "") {
  return key.slice(prefix.length);
}

export function Objects({ params }) {
  const [bucket, ...rest] = params;
  const prefix = rest.join("/");
  return html`<${Listing} key=${`${bucket}/${prefix}`} bucket=${bucket} prefix=${prefix} />`;
}

/** Loads a listing page by page. */
function useListing(bucket, prefix, filter, versions) {
  const [state, setState] = useState({ rows: [], next: "", loading: true, dropped: 0 });
  const abort = useRef(null);
  const load = async (after) => {
    abort.current?.abort();
    const controller = new AbortController();
    abort.current = controller;
    setState((s) => ({ ...(after ? s : { rows: [], next: "", dropped: 0 }), loading: true, error: null }));
    try {
      const options = { bucket, prefix: prefix + filter, delimiter: "/", max: PAGE, signal: controller.signal };
      const page = versions ? await listVersions({ ...options, next: after }) : await listObjects({ ...options, token: after });
      const found = [
        ...page.prefixes.map((p) => ({ folder: true, key: p })),
        ...(page.objects || page.versions).filter((o) => o.key !== prefix || versions),
      ];
      setState((s) => {
        const rows = [...(after ? s.rows : []), ...found];
        const extra = Math.max(0, rows.length - WINDOW);
        return { rows: rows.slice(extra), next: page.next, loading: false, dropped: s.dropped + extra };
      });
    } catch (error) {
      if (!controller.signal.aborted) setState((s) => ({ ...s, loading: false, error }));
    }
  };
  useEffect(() => {
    const wait = setTimeout(() => load(null), filter ? 250 : 0);
    return () => {
      clearTimeout(wait);
      abort.current?.abort();
    };
  }, [bucket, prefix, filter, versions]);
  return { ...state, more: () => load(state.next), reload: () => load(null) };
}

// The actions that the page offers for an object, a version or a folder.
const ACTIONS = ["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"];

function Listing({ bucket, prefix }) {
  const [filter, setFilter] = useState("");
  const [versions, setVersions] = useState(false);
  const [selected, setSelected] = useState(new Set());
  const [shown, setShown] = useState(null);
  const [shared, setShared] = useState(null);
  const [folder, setFolder] = useState(false);
  const [over, setOver] = useState(false);
  const [versioning, setVersioning] = useState("");
  const can = useAllowed({ bucket, prefix }, [...ACTIONS, "s3:ListBucketVersions"]);
  const upload = can("s3:PutObject");
  const list = useListing(bucket, prefix, filter, versions);
  const picker = useRef(null);
  const folderPicker = useRef(null);

  useEffect(() => onUploaded((to) => to.bucket === bucket && to.prefix === prefix && list.reload()), [bucket, prefix, filter, versions]);
  useEffect(() => {
    s3configuration({ bucket, query: { versioning: true } }).then((d) => setVersioning(d ? text(d, "Status") : ""), () => {});
  }, [bucket]);

  const id = (row) => (row.version ? `${row.key}\n${row.version}` : row.key);
  const chosen = list.rows.filter((row) => selected.has(id(row)));
  const drop = async (event) => {
    event.preventDefault();
    setOver(false);
    if (upload.ok) addFiles(bucket, prefix, await filesOf(event.dataTransfer));
    else if (upload.why) toast(upload.why, "error");
  };
  const picked = (event) => {
    addFiles(bucket, prefix, [...event.currentTarget.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
    event.currentTarget.value = "";
  };
  const remove = async (rows) => {
    if (await removeRows(bucket, rows, versioning, versions)) {
      setSelected(new Set());
      list.reload();
    }
  };
  const columns = [
    { name: "name", title: "Name", render: (row) => html`<${Name} row=${row} bucket=${bucket} prefix=${prefix} open=${() => setShown(row)} />` },
    { name: "size", title: "Size", align: "right", render: (row) => (row.folder || row.marker ? "" : bytes(row.size)) },
    { name: "modified", title: "Changed", narrow: true, render: (row) => (row.folder ? "" : date(row.modified)) },
    { name: "actions", label: "Actions", narrow: true, render: (row) => html`<${RowMenu} bucket=${bucket} row=${row} before=${can} label=${`Actions for ${nameOf(row.key, prefix)}`} items=${(may) => actions(row, may)} />` },
  ];
  function actions(row, may) {
    const read = may(row.version ? "s3:GetObjectVersion" : "s3:GetObject").ok;
    const deletes = may(row.version || (row.folder && versions) ? "s3:DeleteObjectVersion" : "s3:DeleteObject").ok;
    if (row.folder) {
      return [
        read && { label: "Download as ZIP", onClick: () => zip(bucket, prefix, [row]) },
        deletes && { label: "Delete…", danger: true, onClick: () => remove([row]) },
      ];
    }
    return [
      { label: "Details", onClick: () => setShown(row) },
      !row.marker && read && { label: "Download", onClick: () => download(bucket, row) },
      !row.marker && read && { label: "Share…", onClick: () => setShared(row) },
      row.version && !row.latest && !row.marker && read && may("s3:PutObject").ok && { label: "Restore this version", onClick: () => restore(bucket, row).then(list.reload) },
      row.version && row.latest && row.marker && deletes && { label: "Undelete", onClick: () => undelete(bucket, row).then(list.reload) },
      deletes && { label: row.version ? "Delete this version…" : "Delete…", danger: true, onClick: () => remove([row]) },
    ];
  }
  const parts = prefix.split("/").filter((_, i, a) => i < a.length - 1);
  const crumbs = [["Buckets", "/buckets"], [bucket, prefix && pathOf(bucket, "")],
    ...parts.map((part, i) => [part || "(empty)", i < parts.length - 1 && pathOf(bucket, `${parts.slice(0, i + 1).join("/")}/`)])];
  return html`<${Page} title=${parts.length ? parts[parts.length - 1] || "(empty)" : bucket} crumbs=${crumbs} actions=${html`
      <${Link} class="button" to=${`/buckets/${encodeURIComponent(bucket)}`}>Settings<//>
      ${upload.ok && html`<${Button} icon="folder" onClick=${() => setFolder(true)}>New folder<//>
      <${Button} icon="folder" onClick=${() => folderPicker.current.click()}>Upload folder<//>
      <${Button} kind="primary" icon="up" onClick=${() => picker.current.click()}>Upload files<//>`}`}>
    <input type="file" multiple ref=${picker} class="hidden" tabindex="-1" aria-label="Files to upload" onChange=${picked} />
    <input type="file" webkitdirectory ref=${folderPicker} class="hidden" tabindex="-1" aria-label="Folder to upload" onChange=${picked} />
    <div class=${classes("drop", "stack", over && "over")} onDragOver=${(event) => { event.preventDefault(); setOver(upload.ok); }}
      onDragLeave=${(event) => event.currentTarget === event.target && setOver(false)} onDrop=${drop}>
      <div class="toolbar">
        <${Input} type="search" placeholder="Names that begin with…" aria-label="Show names that begin with" value=${filter} onValue=${setFilter} />
        ${versioning && can("s3:ListBucketVersions").ok && html`<${Check} label="Show versions" checked=${versions} onValue=${(on) => { setSelected(new Set()); setVersions(on); }} />`}
        <div class="actions">
          ${chosen.length > 0 && html`<span class="muted">${plural(chosen.length, "selected row")}</span>
            ${can("s3:GetObject").ok && html`<${Button} icon="down" disabled=${chosen.some((r) => r.version)} onClick=${() => zip(bucket, prefix, chosen)}>Download as ZIP<//>`}
            ${can(versions ? "s3:DeleteObjectVersion" : "s3:DeleteObject").ok && html`<${Button} kind="danger" icon="trash" onClick=${() => remove(chosen)}>Delete<//>`}`}
        </div>
      </div>
      ${list.error && html`<${ErrorBox} error=${list.error} retry=${list.reload} /><${OtherPrefix} bucket=${bucket} prefix=${prefix} error=${list.error} />`}
      ${list.dropped > 0 && html`<div class="box"><p>The first ${count(list.dropped)} rows are no longer shown. Narrow the list with a beginning of the name.</p>
        <${Button} onClick=${list.reload}>Back to the beginning<//></div>`}
      <${Table} label="Objects" columns=${columns} rows=${list.rows} rowKey=${id} selected=${selected} onSelect=${setSelected} />
      ${!list.loading && !list.error && !list.rows.length && html`<${Empty} title=${filter ? "No names begin with that" : prefix ? "This folder is empty" : "This bucket is empty"}>
        <p>${upload.ok ? "Drop files or folders here, or choose files to upload." : upload.why}</p><//>`}
      ${upload.why && list.rows.length > 0 && html`<p class="hint refused">${upload.why}</p>`}
      ${list.loading && html`<${Spinner} />`}
      ${list.next && !list.loading && html`<div class="row"><${Button} onClick=${list.more}>Load more<//><span class="muted">${plural(list.rows.length, "row")} so far, in the order of S3</span></div>`}
    </div>
    ${shown && html`<${ObjectDialog} bucket=${bucket} row=${shown} versioned=${Boolean(versioning)} onClose=${() => setShown(null)}
      onShare=${() => { setShared(shown); setShown(null); }} onChange=${list.reload} />`}
    ${shared && html`<${ShareDialog} bucket=${bucket} row=${shared} onClose=${() => setShared(null)} />`}
    ${folder && html`<${NewFolder} bucket=${bucket} prefix=${prefix} onClose=${() => setFolder(false)} onDone=${() => { setFolder(false); list.reload(); }} />`}
  <//>`;
}

/** The menu of a row. It asks about this row when it is opened, because policies may distinguish it from its neighbors. */
function RowMenu({ bucket, row, before, label, items }) {
  const [opened, setOpened] = useState(false);
  const can = useAllowed(opened && { bucket, [row.folder ? "prefix" : "key"]: row.key }, ACTIONS, before);
  return html`<${Menu} label=${label} items=${items(can)} onOpen=${() => setOpened(true)} />`;
}

function Name({ row, bucket, prefix, open }) {
  const name = nameOf(row.key, prefix) || "(empty)";
  if (row.folder) return html`<${Link} class="name" to=${pathOf(bucket, row.key)}><${Icon} name="folder" />${name}<//>`;
  return html`<button type="button" class="name" onClick=${open}><${Icon} name="file" />${name}</button>
    ${row.version && html` <span class="hint mono">${row.version.slice(0, 12)}</span> ${row.latest && html`<${Badge} kind="good">current<//>`}
      ${row.marker && html`<${Badge} kind="warn">delete marker<//>`}`}`;
}

/** A user whose policies allow only a prefix cannot list the bucket, but that prefix. */
function OtherPrefix({ bucket, prefix, error }) {
  const [value, setValue] = useState(prefix);
  if (error.status !== 403) return null;
  return html`<form class="row fields" onSubmit=${(event) => { event.preventDefault(); window.location.hash = pathOf(bucket, value); }}>
    <${Field} label="Prefix that you may list" hint="With a slash at the end to open a folder"><${Input} value=${value} onValue=${setValue} /><//>
    <${Button} type="submit">Open<//></form>`;
}

function NewFolder({ bucket, prefix, onClose, onDone }) {
  const [name, setName] = useState("");
  const [error, setError] = useState(null);
  const create = async () => {
    try {
      await s3("PUT", { bucket, key: `${prefix}${name.replace(/\/+$/, "")}/`, body: "" });
      onDone();
    } catch (e) {
      setError(e);
    }
  };
  return html`<${Dialog} title="New folder" onClose=${onClose} onSubmit=${() => name && create()} footer=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" disabled=${!name}>Create folder<//>`}>
    <${ErrorBox} error=${error} />
    <${Field} label="Name" hint="A folder is an empty object whose key ends with a slash. Uploads into a folder need none."><${Input} value=${name} onValue=${setName} autofocus /><//>
  <//>`;
}

/** Saves an object, or a version of it. */
export function download(bucket, row) {
  const link = document.createElement("a");
  link.href = s3url(bucket, row.key, { versionId: row.version, "x-orcas-download": 1 });
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}

/** Saves rows as a ZIP archive that the server streams. */
function zip(bucket, prefix, rows) {
  const form = document.createElement("form");
  form.method = "post";
  form.action = "../-/console/zip";
  const add = (name, value) => {
    const input = document.createElement("input");
    input.type = "hidden";
    input.name = name;
    input.value = encodeURIComponent(value); // forms would change line breaks
    form.append(input);
  };
  const base = rows.length === 1 && rows[0].folder ? rows[0].key.replace(/[^/]*\/$/, "") : prefix;
  const name = rows.length === 1 ? nameOf(rows[0].key, base).replace(/\/$/, "") : prefix.split("/").slice(-2)[0] || bucket;
  const secret = document.createElement("input");
  secret.type = "hidden";
  secret.name = "session";
  secret.value = token();
  form.append(secret);
  add("bucket", bucket);
  add("base", base);
  add("name", `${name || bucket}.zip`);
  rows.forEach((row) => add(row.folder ? "prefix" : "key", row.key));
  document.body.append(form);
  form.submit();
  form.remove();
}

/** Makes an old version the current one, by a copy. */
export async function restore(bucket, row) {
  await attempt(() => copyObject(bucket, row.key, bucket, row.key, { version: row.version }), "The version is the current one again.");
}

/** Removes the delete marker of an object. */
async function undelete(bucket, row) {
  await attempt(() => s3("DELETE", { bucket, key: row.key, query: { versionId: row.version } }), "The object is back.");
}

/** Copies an object. */
export async function copyObject(fromBucket, fromKey, bucket, key, { version, headers } = {}) {
  const source = `/${encodeURIComponent(fromBucket)}/${fromKey.split("/").map(encodeURIComponent).join("/")}${version ? `?versionId=${encodeURIComponent(version)}` : ""}`;
  const response = await s3("PUT", { bucket, key, headers: { "x-amz-copy-source": source, ...headers } });
  const body = await response.text();
  if (body.includes("<Error>")) throw new Error("The copy failed on the server. Try again.");
}

// Keys with these characters cannot stand in XML 1.0.
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/;

/** Deletes items [{key, version}], and returns the failures. */
export async function deleteItems(bucket, items, signal) {
  const failures = await (async () => {
    const list = items.filter((i) => !NO_XML.test(i.key));
    return list.length ? deleteObjects(bucket, list, signal) : [];
  })();
  for (const item of items.filter((i) => NO_XML.test(i.key))) {
    await s3("DELETE", { bucket, key: item.key, query: { versionId: item.version }, signal })
      .catch((error) => failures.push({ ...item, message: error.message }));
  }
  return failures;
}

/** Deletes rows after a question. Folders are deleted with everything in them. */
async function removeRows(bucket, rows, versioning, versions) {
  const folders = rows.filter((row) => row.folder);
  const what = rows.length === 1 ? `“${rows[0].key}”` : plural(rows.length, "selected row");
  const forever = versions || !versioning;
  const body = forever ? `${what} ${folders.length ? "and everything in folders " : ""}will be deleted. This cannot be undone.`
    : `${what} ${folders.length ? "and everything in folders " : ""}will be deleted. The bucket keeps versions, so you can bring objects back.`;
  if (!(await confirm({ title: "Delete?", body, action: "Delete", danger: true }))) return false;
  let deleted = 0;
  const failures = [];
  const send = async (items) => {
    for (let i = 0; i < items.length; i += 1000) {
      const part = items.slice(i, i + 1000);
      const failed = await deleteItems(bucket, part);
      failures.push(...failed);
      deleted += part.length - failed.length;
    }
  };
  await attempt(async () => {
    await send(rows.filter((row) => !row.folder));
    for (const folder of folders) {
      let next;
      let told = 0;
      do {
        const page = versions ? await listVersions({ bucket, prefix: folder.key, next, max: 1000 }) : await listObjects({ bucket, prefix: folder.key, token: next, max: 1000 });
        await send((page.objects || page.versions).map((o) => ({ key: o.key, version: o.version })));
        next = page.next;
        if (deleted - told >= 10000) {
          told = deleted;
          toast(`${plural(deleted, "object")} deleted so far…`, "info");
        }
      } while (next);
    }
  });
  if (failures.length) toast(`${plural(failures.length, "object")} could not be deleted: ${failures[0].message}`, "error");
  if (deleted) toast(`${plural(deleted, "object")} deleted.`);
  return true;
}
