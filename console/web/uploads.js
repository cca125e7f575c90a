// Uploads: a queue of files with progress. Large files go in parts, and continue where they stopped: after an error, and
// also if the same file is chosen again later.

import { html, useEffect, useState, Button, IconButton, Progress } from "./ui.js";
import { headers, sessionEnded } from "./api.js";
import { s3, s3url, s3xml, all, text, escapeXML, parseError } from "./s3.js";
import { bytes, plural } from "./format.js";

const FILES = 6; // files at once
const PARTS = 4; // parts of a file at once
const LARGE = 16 << 20; // a larger file goes in parts
const MIN_PART = 8 << 20;
const MAX_PARTS = 10000;
const TRIES = 6;
const STORED = "orcas.uploads"; // unfinished uploads of large files, in localStorage

const jobs = []; // {id, bucket, key, prefix, file, state, sent, size, error, abort}
const watchers = new Set();
const uploaded = new Set();
let last = 0;
let scheduled = false;

/** Calls fn({bucket, prefix}) after files were uploaded there. Returns a function that stops that. */
export function onUploaded(fn) {
  uploaded.add(fn);
  return () => uploaded.delete(fn);
}

function changed() {
  if (scheduled) return;
  scheduled = true;
  setTimeout(() => {
    scheduled = false;
    watchers.forEach((fn) => fn());
  }, 100);
}

/** Adds files [{file, path}] to the queue. */
export function addFiles(bucket, prefix, files) {
  for (const { file, path } of files) {
    jobs.push({ id: ++last, bucket, prefix, key: prefix + path, file, size: file.size, sent: 0, state: "waiting", error: null });
  }
  changed();
  work();
}

/** Returns the files of a drop, with those in folders: [{file, path}]. */
export async function filesOf(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  const walk = async (entry, path) => {
    if (entry.isFile) {
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: path + entry.name });
      return;
    }
    const reader = entry.createReader();
    for (;;) { // a reader returns at most 100 entries at once
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const child of some) await walk(child, `${path}${entry.name}/`);
    }
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}

/** Starts as many files as may run at once. */
function work() {
  let running = jobs.filter((job) => job.state === "running").length;
  for (const job of jobs) {
    if (running >= FILES) return;
    if (job.state === "waiting") {
      running++;
      run(job);
    }
  }
}

async function run(job) {
  job.state = "running";
  job.error = null;
  job.abort = new AbortController();
  changed();
  try {
    if (job.size > LARGE) await sendParts(job);
    else await retry(job, () => put(job, s3url(job.bucket, job.key), job.file, (sent) => { job.sent = sent; }, { "Content-Type": job.file.type || "application/octet-stream" }));
    job.sent = job.size;
    job.state = "done";
    if (!jobs.some((other) => other.bucket === job.bucket && other.prefix === job.prefix && (other.state === "waiting" || other.state === "running"))) {
      uploaded.forEach((fn) => fn(job));
    }
  } catch (error) {
    job.state = job.abort.signal.aborted ? "canceled" : "failed";
    job.error = error;
  }
  changed();
  work();
}

/** Repeats something that failed for a reason that may pass. */
async function retry(job, fn) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fn();
    } catch (error) {
      const passing = error.status === 0 || error.status === 429 || error.status >= 500;
      if (job.abort.signal.aborted || !passing || attempt === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.min(16000, 500 * 2 ** attempt) * (0.5 + Math.random() / 2)));
    }
  }
}

/** Sends a PUT with progress, which fetch does not have. Resolves to the ETag. */
function put(job, url, body, progress, more = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    for (const [name, value] of Object.entries(headers(more))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      progress(event.loaded);
      changed();
    };
    const stop = () => request.abort();
    job.abort.signal.addEventListener("abort", stop, { once: true });
    request.onloadend = () => {
      job.abort.signal.removeEventListener("abort", stop);
      if (request.status >= 200 && request.status < 300) resolve(request.getResponseHeader("ETag"));
      else if (request.status === 0) reject(Object.assign(new Error("The connection to the server was lost."), { status: 0 }));
      else {
        if (request.status === 401) sessionEnded();
        reject(parseError(request.status, request.responseText));
      }
    };
    request.send(body);
  });
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) || {};
  } catch {
    return {};
  }
}

function remember(name, value) {
  const list = remembered();
  delete list[name];
  if (value) list[name] = value;
  const names = Object.keys(list);
  names.slice(0, Math.max(0, names.length - 200)).forEach((old) => delete list[old]);
  localStorage.setItem(STORED, JSON.stringify(list));
}

/** Identifies a file that may be chosen again. */
function nameOf(job) {
  return JSON.stringify([job.bucket, job.key, job.size, job.file.lastModified]);
}

/** Returns the parts that the server has, by number: {etag, size}; null if it does not know the upload. */
async function partsOf(job, upload) {
  const parts = new Map();
  let after = 0;
  for (;;) {
    let document;
    try {
      document = await s3xml("GET", { bucket: job.bucket, key: job.key, query: { uploadId: upload, "part-number-marker": after || undefined }, signal: job.abort.signal });
    } catch (error) {
      if (error.code === "NoSuchUpload") return null;
      throw error;
    }
    for (const part of all(document, "Part")) {
      parts.set(Number(text(part, "PartNumber")), { etag: text(part, "ETag"), size: Number(text(part, "Size")) });
    }
    if (text(document, "IsTruncated") !== "true") return parts;
    after = text(document, "NextPartNumberMarker");
  }
}

async function sendParts(job) {
  const name = nameOf(job);
  const before = remembered()[name];
  let upload = before?.upload;
  let size = before?.part;
  let parts = upload ? await retry(job, () => partsOf(job, upload)) : null;
  if (!parts) {
    size = Math.max(MIN_PART, Math.ceil(job.size / MAX_PARTS / (1 << 20)) * (1 << 20));
    const begun = await retry(job, () => s3xml("POST", { // without the signal: a canceled upload needs its ID to be deleted
      bucket: job.bucket, key: job.key, query: { uploads: true }, headers: { "Content-Type": job.file.type || "application/octet-stream" },
    }));
    upload = text(begun, "UploadId");
    if (job.abort.signal.aborted) {
      drop(job, upload);
      throw new Error("canceled");
    }
    parts = new Map();
    remember(name, { upload, part: size });
  }
  job.upload = upload;
  const total = Math.ceil(job.size / size);
  const lengthOf = (number) => Math.min(size, job.size - (number - 1) * size);
  const missing = [];
  let done = 0;
  for (let number = 1; number <= total; number++) {
    if (parts.get(number)?.size === lengthOf(number)) done += lengthOf(number);
    else missing.push(number);
  }
  job.resumed = done;
  const inFlight = new Map();
  const show = () => { job.sent = done + [...inFlight.values()].reduce((a, b) => a + b, 0); };
  show();
  const sendSome = async () => {
    for (let number = missing.shift(); number && !job.abort.signal.aborted; number = missing.shift()) {
      const from = (number - 1) * size;
      const etag = await retry(job, () => put(job, s3url(job.bucket, job.key, { partNumber: number, uploadId: upload }),
        job.file.slice(from, from + lengthOf(number)), (sent) => { inFlight.set(number, sent); show(); }));
      inFlight.delete(number);
      done += lengthOf(number);
      parts.set(number, { etag, size: lengthOf(number) });
      show();
      changed();
    }
  };
  const results = await Promise.allSettled(Array.from({ length: PARTS }, sendSome));
  const failed = results.find((r) => r.status === "rejected");
  if (failed) throw failed.reason;
  if (job.abort.signal.aborted) throw new Error("canceled");
  const body = Array.from({ length: total }, (_, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escapeXML(parts.get(i + 1).etag)}</ETag></Part>`).join("");
  await retry(job, () => s3xml("POST", {
    bucket: job.bucket, key: job.key, query: { uploadId: upload }, body: `<CompleteMultipartUpload>${body}</CompleteMultipartUpload>`, signal: job.abort.signal,
  }));
  remember(name, null);
}

/** Stops a file. What the server has of a large one is deleted. */
function cancel(job) {
  if (job.state === "waiting") job.state = "canceled";
  job.abort?.abort();
  if (job.upload) {
    remember(nameOf(job), null);
    drop(job, job.upload);
  }
  changed();
  work();
}

/** Deletes the parts that the server has. If that fails, they are listed among the unfinished uploads of the bucket. */
function drop(job, upload) {
  s3("DELETE", { bucket: job.bucket, key: job.key, query: { uploadId: upload } }).catch(() => {});
}

function again(list) {
  list.forEach((job) => { job.state = "waiting"; });
  changed();
  work();
}

window.addEventListener("beforeunload", (event) => {
  if (jobs.some((job) => job.state === "running" || job.state === "waiting")) event.preventDefault();
});

/** The list of uploads, at the edge of all pages. */
export function Uploads() {
  const [, setTurn] = useState(0);
  const [small, setSmall] = useState(false);
  useEffect(() => {
    const fn = () => setTurn((n) => n + 1);
    watchers.add(fn);
    return () => watchers.delete(fn);
  }, []);
  if (!jobs.length) return null;
  const active = jobs.filter((job) => job.state === "running" || job.state === "waiting");
  const failed = jobs.filter((job) => job.state === "failed");
  const sum = (list, field) => list.reduce((total, job) => total + job[field], 0);
  const shown = [...jobs.filter((job) => job.state === "running"), ...failed, ...jobs.filter((job) => job.state === "waiting"),
    ...jobs.filter((job) => job.state === "done" || job.state === "canceled").reverse()].slice(0, 50);
  const title = active.length ? `Uploading ${plural(active.length, "file")}` : failed.length ? `${plural(failed.length, "upload")} failed`
    : `${plural(jobs.filter((job) => job.state === "done").length, "file")} uploaded`;
  return html`<section class="uploads" aria-label="Uploads">
    <header><h2>${title}</h2><div class="row">
      ${failed.length > 0 && html`<${Button} kind="quiet" onClick=${() => again(failed)}>Try again<//>`}
      <${IconButton} icon=${small ? "up" : "down"} label=${small ? "Show the list" : "Hide the list"} onClick=${() => setSmall(!small)} />
      <${IconButton} icon="close" label=${active.length ? "Cancel all uploads" : "Close"} onClick=${() => { active.forEach(cancel); jobs.length = 0; changed(); }} /></div></header>
    ${!small && html`<ul>
      ${active.length > 1 && html`<li><span class="muted">${bytes(sum(jobs, "sent"))} of ${bytes(sum(jobs, "size"))}</span>
        <${Progress} label="All uploads" value=${sum(jobs, "sent")} max=${sum(jobs, "size")} /></li>`}
      ${shown.map((job) => html`<li key=${job.id}>
        <div class="row"><span class="wrap">${job.key}</span>${(job.state === "running" || job.state === "waiting") && html`
          <${IconButton} icon="close" label=${`Cancel ${job.key}`} onClick=${() => cancel(job)} />`}</div>
        ${job.state === "running" && html`<${Progress} label=${job.key} value=${job.sent} max=${job.size} />`}
        <span class=${job.state === "failed" ? "error-text" : "hint"}>${describe(job)}</span></li>`)}
      ${jobs.length > shown.length && html`<li class="hint">and ${plural(jobs.length - shown.length, "more file")}</li>`}
    </ul>`}
  </section>`;
}

function describe(job) {
  if (job.state === "failed") {
    return `${job.error.message}${job.upload ? " To continue later, choose the same file again: what the server has is not sent twice." : ""}`;
  }
  const resumed = job.resumed ? `, continued at ${bytes(job.resumed)}` : "";
  return { waiting: "waiting", running: `${bytes(job.sent)} of ${bytes(job.size)}${resumed}`, done: `uploaded, ${bytes(job.size)}${resumed}`, canceled: "canceled" }[job.state];
}
