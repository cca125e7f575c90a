// The simulator: decides about a request that is not made.

import { html, useState, Badge, Button, Card, Check, ErrorBox, Field, Input, Page, Select, Table, TextArea, useAction } from "./ui.js";
import { call } from "./api.js";
import { PolicyEditor, problemOf } from "./policy_editor.js";

/** Returns a draft that another page has left, once. */
function takeDraft(bucket) {
  const draft = bucket ? sessionStorage.getItem("orcas.draft") || "" : "";
  sessionStorage.removeItem("orcas.draft");
  return draft;
}

export function Simulator({ params }) {
  const [bucket] = params;
  const [who, setWho] = useState("user");
  const [name, setName] = useState("");
  const [action, setAction] = useState("s3:GetObject");
  const [resource, setResource] = useState(bucket ? `arn:aws:s3:::${bucket}/example.txt` : "arn:aws:s3:::my-bucket/example.txt");
  const [context, setContext] = useState("");
  const [draft, setDraft] = useState(() => takeDraft(bucket));
  const [useDraft, setUseDraft] = useState(Boolean(draft));
  const [result, setResult] = useState(null);
  const run = useAction(async () => {
    const query = { action, resource, context: context.split("\n").filter(Boolean), [who]: who === "anonymous" ? "true" : name };
    setResult(await (useDraft ? call("POST", "policy/simulate", { query, body: { bucket_policy: JSON.parse(draft) } }) : call("GET", "policy/simulate", { query })));
  });
  const kind = { allow: "good", explicitDeny: "bad", implicitDeny: "warn" };
  const words = { allow: "Allowed", explicitDeny: "Denied by a statement", implicitDeny: "Not allowed by any statement" };
  return html`<${Page} title="Simulator"><p class="muted">Would this request be allowed? Nothing is changed, and no request is made.</p>
    <div class="cards"><${Card} title="The request"><form class="stack" onSubmit=${(event) => { event.preventDefault(); run.run(); }}>
      <${Field} label="Who"><${Select} value=${who} onValue=${setWho} options=${[["user", "A user"], ["key", "An access key, or a key by its name"], ["role", "A role"], ["anonymous", "Anybody, without credentials"]]} /><//>
      ${who !== "anonymous" && html`<${Field} label="Name"><${Input} value=${name} onValue=${setName} /><//>`}
      <${Field} label="Action"><${Input} value=${action} onValue=${setAction} /><//>
      <${Field} label="Resource" hint="Empty for actions on the server"><${Input} value=${resource} onValue=${setResource} /><//>
      <${Field} label="Context" hint="One NAME=VALUE per line, such as aws:SourceIp=192.0.2.1"><${TextArea} value=${context} onValue=${setContext} /><//>
      <${Check} label="With a draft of the bucket's policy" checked=${useDraft} onValue=${setUseDraft} />
      ${useDraft && html`<${PolicyEditor} label="Draft" value=${draft} onValue=${setDraft} />`}
      <${ErrorBox} error=${run.error} />
      <div><${Button} kind="primary" type="submit" busy=${run.busy} disabled=${(who !== "anonymous" && !name) || (useDraft && (!draft.trim() || Boolean(problemOf(draft))))}>Simulate<//></div></form><//>
      ${result && html`<${Card} title="The decision"><p aria-live="polite"><${Badge} kind=${kind[result.decision]}>${words[result.decision] || result.decision}<//></p>
        <dl class="facts"><dt>Sender</dt><dd>${result.principal}</dd><dt>Action</dt><dd>${result.action}</dd><dt>Resource</dt><dd>${result.resource}</dd></dl>
        <${Table} label="Statements" rows=${result.statements || []} rowKey=${(s) => s.source + s.of + s.index} empty=${html`<p class="muted">No statement decided.</p>`} columns=${[
          { name: "effect", title: "Effect", render: (s) => html`<${Badge} kind=${s.effect === "Allow" ? "good" : "bad"}>${s.effect}<//>` },
          { name: "policy", title: "Policy", render: (s) => `${s.policy} (${s.source})` }, { name: "where", title: "Statement", render: (s) => `${s.index}${s.sid ? `, ${s.sid}` : ""}, line ${s.line}` }]} /><//>`}</div><//>`;
}
