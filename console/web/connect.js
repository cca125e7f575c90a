// How to connect clients.

import { html, useState, Code, Card, Field, Input, Page, Select, useLoad, Loaded } from "./ui.js";
import { session } from "./api.js";
import { listBuckets } from "./s3.js";
import { snippets } from "./snippets.js";

/** The settings of clients for an access, one at a time. */
export function Snippets({ access }) {
  const list = snippets({ endpoint: session.public_url || session.endpoint, region: session.region, ...access });
  const [name, setName] = useState(list[0].name);
  const found = list.find((s) => s.name === name);
  return html`<div class="stack">
    <div class="chips" role="group" aria-label="Client">${list.map((s) => html`
      <button type="button" key=${s.name} aria-pressed=${s.name === name ? "true" : "false"} onClick=${() => setName(s.name)}>${s.name}</button>`)}</div>
    ${found.hint && html`<p class="hint">${found.hint}</p>`}
    <${Code} text=${found.text} label=${`settings for ${found.name}`} />
    ${found.tls && html`<p class="hint">The endpoint uses HTTPS. If its certificate is self-signed, clients must trust the file self-signed.crt in the data directory, for example with AWS_CA_BUNDLE.</p>`}
  </div>`;
}

export function Connect() {
  const load = useLoad((signal) => listBuckets(signal), []);
  return html`<${Page} title="Connect"><p class="muted">Settings for common clients. Replace the secret key with your own: the server shows it only once, when it creates the key.</p>
    <${Loaded} of=${load}>${(buckets) => html`<${Form} buckets=${buckets.map((b) => b.name)} />`}<//><//>`;
}

function Form({ buckets }) {
  const [bucket, setBucket] = useState(buckets[0] || "my-bucket");
  const [key, setKey] = useState(session.principal.kind === "root" ? "ACCESS-KEY" : session.access_key);
  return html`<${Card}><div class="row fields">
    <${Field} label="Bucket">${buckets.length ? html`<${Select} value=${bucket} onValue=${setBucket} options=${buckets.map((b) => [b, b])} />` : html`<${Input} value=${bucket} onValue=${setBucket} />`}<//>
    <${Field} label="Access key" hint=${session.principal.kind === "root" ? "Make a key for each application instead of using the root key." : ""}><${Input} value=${key} onValue=${setKey} /><//></div>
    <${Snippets} access=${{ bucket, access: key, secret: "SECRET-KEY" }} /><//>`;
}
