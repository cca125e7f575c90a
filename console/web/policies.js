// Policies that are attached to users, groups and roles.

import { html, useState, Badge, Button, Dialog, ErrorBox, Field, Input, Loaded, Menu, Page, Table, attempt, confirm, useAction, useLoad } from "./ui.js";
import { call, may } from "./api.js";
import { PolicyEditor, problemOf } from "./policy_editor.js";

const TEMPLATE = JSON.stringify({
  Version: "2012-10-17",
  Statement: [
    { Effect: "Allow", Action: "s3:ListBucket", Resource: "arn:aws:s3:::my-bucket" },
    { Effect: "Allow", Action: ["s3:GetObject", "s3:PutObject"], Resource: "arn:aws:s3:::my-bucket/*" },
  ],
}, null, 2);

export function Policies() {
  const load = useLoad((signal) => call("GET", "policy", { signal }), []);
  const [open, setOpen] = useState(null);
  const remove = async (p) => {
    if (!(await confirm({ title: `Delete ${p.name}?`, body: "It must not be attached to anybody.", action: "Delete policy", danger: true }))) return;
    await attempt(() => call("DELETE", "policy", { query: { name: p.name } }), "The policy was deleted.");
    load.reload();
  };
  return html`<${Page} title="Policies" actions=${may("PutPolicy") && html`<${Button} kind="primary" icon="plus" onClick=${() => setOpen({ name: "", text: TEMPLATE, fresh: true })}>Create policy<//>`}>
    <${Loaded} of=${load}>${({ policies }) => html`<${Table} label="Policies" rows=${policies} columns=${[
      { name: "name", title: "Name", render: (p) => html`<button type="button" class="name" onClick=${() => setOpen({ ...p, text: JSON.stringify(p.document, null, 2) })}>${p.name}</button> ${p.built_in && html`<${Badge}>built in<//>`}` },
      { name: "statements", title: "Statements", align: "right", render: (p) => [].concat(p.document.Statement || []).length },
      { name: "actions", narrow: true, render: (p) => !p.built_in && may("DeletePolicy") && html`<${Menu} label=${`Actions for ${p.name}`} items=${[{ label: "Delete…", danger: true, onClick: () => remove(p) }]} />` },
    ]} />`}<//>
    ${open && html`<${Editor} policy=${open} onClose=${() => setOpen(null)} onDone=${() => { setOpen(null); load.reload(); }} />`}
  <//>`;
}

function Editor({ policy, onClose, onDone }) {
  const [name, setName] = useState(policy.name);
  const [draft, setDraft] = useState(policy.text);
  const save = useAction(async () => {
    await call("POST", "policy", { query: { name }, body: draft });
    onDone();
  });
  const fixed = policy.built_in || !may("PutPolicy");
  return html`<${Dialog} wide title=${policy.name || "Create policy"} onClose=${onClose} footer=${html`<${Button} onClick=${onClose}>${fixed ? "Close" : "Cancel"}<//>
      ${!fixed && html`<${Button} kind="primary" busy=${save.busy} disabled=${!name || Boolean(problemOf(draft))} onClick=${save.run}>Save policy<//>`}`}>
    ${policy.fresh && html`<${Field} label="Name"><${Input} value=${name} onValue=${setName} autofocus /><//>`}
    ${policy.built_in && html`<p class="muted">This policy is part of the server and cannot be changed.</p>`}
    <${PolicyEditor} value=${draft} onValue=${fixed ? () => {} : setDraft} /><${ErrorBox} error=${save.error} /><//>`;
}
