// Configurations of buckets that are lists of rules in XML. Rules are added and removed in the document itself, so parts
// that a form does not know stay as they are.

import { html, useState, Button, Card, ErrorBox, Field, Loaded, TextArea, confirm, useAction, useLoad, toast } from "./ui.js";
import { Only } from "./allowed.js";
import { s3, s3configuration, putConfiguration } from "./s3.js";

/** Returns a document in XML with line breaks and indentation. */
function pretty(document) {
  const lines = [];
  const walk = (element, depth) => {
    const pad = "  ".repeat(depth);
    const elements = [...element.children];
    const name = element.nodeName;
    if (!elements.length) {
      lines.push(`${pad}${new XMLSerializer().serializeToString(element).replace(/ xmlns="[^"]*"/, "")}`);
      return;
    }
    lines.push(`${pad}<${name}>`);
    elements.forEach((child) => walk(child, depth + 1));
    lines.push(`${pad}</${name}>`);
  };
  walk(document.documentElement, 0);
  return lines.join("\n");
}

/** A card with the rules of a configuration: a table or the text of the document. may is what the user may change. */
export function RuleList({ bucket, may, title, subresource, root, element, intro, describe, Form, beside }) {
  const load = useLoad((signal) => s3configuration({ bucket, query: { [subresource]: true }, signal }).then((d) => ({ document: d })), [bucket, subresource]);
  const [mode, setMode] = useState("list");
  const [draft, setDraft] = useState("");
  const save = useAction(async (body) => {
    const parsed = new DOMParser().parseFromString(body, "application/xml");
    if (body.trim() && parsed.getElementsByTagName("parsererror").length) throw new Error("This is not valid XML.");
    if (!body.trim() || !parsed.documentElement.children.length) await s3("DELETE", { bucket, query: { [subresource]: true } });
    else await putConfiguration(bucket, subresource, body);
    toast("Saved.");
    setMode("list");
    load.reload();
  });
  const current = (document) => (document ? pretty(document) : `<${root}>\n</${root}>`);
  const add = (document, rule) => save.run(current(document).replace(new RegExp(`</${root}>\\s*$`), () => `${rule}</${root}>`)); // a text could contain "$&"
  const remove = async (document, index) => {
    if (!(await confirm({ title: "Delete this rule?", body: "The other rules stay.", action: "Delete rule", danger: true }))) return;
    const copy = new DOMParser().parseFromString(current(document), "application/xml");
    copy.getElementsByTagName(element)[index].remove();
    save.run(pretty(copy));
  };
  return html`<${Loaded} of=${load}>${({ document }) => html`
    <${Card} title=${title} actions=${mode === "list" && may.ok && html`
        <${Button} onClick=${() => { setDraft(current(document)); setMode("xml"); }}>Edit as XML<//>
        <${Button} kind="primary" icon="plus" onClick=${() => setMode("form")}>Add rule<//>`}>
      ${intro && html`<p class="muted">${intro}</p>`}
      <${ErrorBox} error=${save.error} />
      ${mode === "list" && html`${document ? html`<ul class="plain stack">${[...document.getElementsByTagName(element)].map((rule, i) => html`
        <li class="box" key=${i}><div>${describe(rule)}</div>${may.ok && html`<${Button} kind="danger" onClick=${() => remove(document, i)}>Delete rule<//>`}</li>`)}</ul>` : html`<p>There are no rules.</p>`}<${Only} may=${may} />`}
      ${mode === "form" && html`<${Form} busy=${save.busy} onSave=${(rule) => add(document, rule)} onCancel=${() => { save.clear(); setMode("list"); }} number=${document ? document.getElementsByTagName(element).length + 1 : 1} />`}
      ${mode === "xml" && html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); save.run(draft); }}>
        <${Field} label="Configuration"><${TextArea} class="code-input" value=${draft} onValue=${setDraft} /><//>
        <div class="row"><${Button} kind="primary" type="submit" busy=${save.busy}>Save<//><${Button} onClick=${() => { save.clear(); setMode("list"); }}>Cancel<//></div></form>`}
    <//>
    ${beside && beside(mode === "xml" ? draft : "")}`}<//>`;
}
