// First steps: a bucket, a key for it, the settings of a client, and a test.

import { html, useState, Button, Card, ErrorBox, Field, Input, Link, Loaded, Page, Select, useAction, useLoad } from "./ui.js";
import { call } from "./api.js";
import { s3, listBuckets } from "./s3.js";
import { duration } from "./format.js";
import { wrongName } from "./buckets.js";
import { createKey, SecretBox } from "./keys.js";
import { Snippets } from "./connect.js";
import { pathOf } from "./objects.js";

export function First() {
  const load = useLoad((signal) => listBuckets(signal), []);
  return html`<${Page} title="First steps"><${Loaded} of=${load}>${(buckets) => html`<${Steps} buckets=${buckets.map((b) => b.name)} />`}<//><//>`;
}

function Steps({ buckets }) {
  const [bucket, setBucket] = useState("");
  const [made, setMade] = useState(null);
  return html`<div class="steps">
    <${BucketStep} buckets=${buckets} bucket=${bucket} onDone=${setBucket} />
    ${bucket && html`<${KeyStep} key=${bucket} bucket=${bucket} made=${made} onDone=${setMade} />`}
    ${made && html`<${Card} title="Connect a client"><${Snippets} access=${{ bucket, access: made.access_key, secret: made.secret_key }} /><//>
      <${TestStep} bucket=${bucket} made=${made} />
      <${Card} title="Upload and share"><p>Drop files into the bucket, and share them with a link.</p><div><${Link} class="button primary" to=${pathOf(bucket, "")}>Open ${bucket}<//></div><//>`}
  </div>`;
}

function BucketStep({ buckets, bucket, onDone }) {
  const [name, setName] = useState(buckets.length ? "" : "my-bucket");
  const [old, setOld] = useState(buckets[0] || "");
  const wrong = wrongName(name);
  const create = useAction(async () => {
    await s3("PUT", { bucket: name });
    onDone(name);
  });
  if (bucket) return html`<${Card} title="A bucket"><p>You use the bucket <strong>${bucket}</strong>.</p><//>`;
  return html`<${Card} title="A bucket"><p class="muted">Objects are in buckets. A bucket has its own settings, and keys can be limited to it.</p>
    <${ErrorBox} error=${create.error} />
    <form class="row fields" onSubmit=${(event) => { event.preventDefault(); if (name && !wrong) create.run(); }}>
      <${Field} label="Name of a new bucket" error=${wrong}><${Input} value=${name} onValue=${setName} maxlength="63" /><//>
      <${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!name || Boolean(wrong)}>Create bucket<//></form>
    ${buckets.length > 0 && html`<form class="row fields" onSubmit=${(event) => { event.preventDefault(); onDone(old); }}>
      <${Field} label="Or use one that exists"><${Select} value=${old} onValue=${setOld} options=${buckets.map((b) => [b, b])} /><//><${Button} type="submit">Use it<//></form>`}<//>`;
}

function KeyStep({ bucket, made, onDone }) {
  const [name, setName] = useState(`${bucket}-app`);
  const create = useAction(async () => onDone(await createKey({ name, bucket, prefix: "", access: "readwrite", expires: "" })));
  return html`<${Card} title="A key for an application"><p class="muted">Applications get keys of their own, so that you can revoke one without changing the others. This one may read and write ${bucket}.</p>
    ${made ? html`<${SecretBox} made=${made} />` : html`<${ErrorBox} error=${create.error} />
    <form class="row fields" onSubmit=${(event) => { event.preventDefault(); if (name) create.run(); }}>
      <${Field} label="Name of the key"><${Input} value=${name} onValue=${setName} maxlength="64" /><//>
      <${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!name}>Create key<//></form>`}<//>`;
}

/** Uploads an object with the new key and reads it back: signed requests from the server to its own endpoint. */
function TestStep({ bucket, made }) {
  const [steps, setSteps] = useState(null);
  const test = useAction(async () => setSteps((await call("POST", "../console/test-key", {
    body: { access_key: made.access_key, secret_key: made.secret_key, bucket, prefix: made.prefix || "" },
  })).steps));
  return html`<${Card} title="Test it" actions=${html`<${Button} kind="primary" busy=${test.busy} onClick=${test.run}>Test it<//>`}>
    <p class="muted">Uploads a small object with the new key, reads it back, compares it, and deletes it.</p>
    <${ErrorBox} error=${test.error} />
    ${steps && html`<ul class="plain stack">${steps.map((s) => html`<li key=${s.name} class=${`box ${s.error ? "error" : "good"}`}><p>${s.name}: ${s.error || "OK"}</p><span>${duration(s.seconds)}</span></li>`)}</ul>`}<//>`;
}
