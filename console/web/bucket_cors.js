// The CORS rules of a bucket: which web pages of other sites may use it.

import { html, useState, Button, Check, Field, Input } from "./ui.js";
import { children, escapeXML, text } from "./s3.js";
import { RuleList } from "./xml_rules.js";

const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE"];

export function Cors({ bucket, can }) {
  return html`<${RuleList} bucket=${bucket} may=${can("s3:PutBucketCORS")} title="CORS rules" subresource="cors" root="CORSConfiguration" element="CORSRule" Form=${RuleForm} describe=${describe}
    intro="Browsers let pages of other sites use this bucket only if a rule allows it. Programs other than browsers do not need one." />`;
}

const list = (rule, name) => children(rule, name).map((e) => e.textContent).join(", ");

function describe(rule) {
  return html`<p><strong>${text(rule, "ID") || list(rule, "AllowedOrigin")}</strong><br />${list(rule, "AllowedMethod")} from ${list(rule, "AllowedOrigin")}
    ${children(rule, "AllowedHeader").length > 0 && html`<br />request headers: ${list(rule, "AllowedHeader")}`}
    ${children(rule, "ExposeHeader").length > 0 && html`<br />response headers: ${list(rule, "ExposeHeader")}`}</p>`;
}

function RuleForm({ onSave, onCancel, busy }) {
  const [origins, setOrigins] = useState("");
  const [methods, setMethods] = useState(["GET", "HEAD"]);
  const [headers, setHeaders] = useState("*");
  const [expose, setExpose] = useState("ETag");
  const split = (value) => value.split(/[\s,]+/).filter(Boolean);
  const wrong = origins && split(origins).some((o) => o !== "*" && !/^https?:\/\/[^/]+$/.test(o)) ? "An origin is *, or looks like https://www.example.com." : "";
  const submit = (event) => {
    event.preventDefault();
    if (wrong || !split(origins).length || !methods.length) return;
    const elements = (name, values) => values.map((v) => `<${name}>${escapeXML(v)}</${name}>`).join("");
    onSave(`<CORSRule>${elements("AllowedOrigin", split(origins))}${elements("AllowedMethod", methods)}${elements("AllowedHeader", split(headers))}${elements("ExposeHeader", split(expose))}</CORSRule>`);
  };
  return html`<form class="stack" onSubmit=${submit}>
    <${Field} label="Origins" error=${wrong} hint="Separated by spaces, such as https://www.example.com"><${Input} value=${origins} onValue=${setOrigins} /><//>
    <fieldset><legend>Methods</legend><div class="row">${METHODS.map((m) => html`<${Check} key=${m} label=${m} checked=${methods.includes(m)} onValue=${(on) => setMethods(on ? [...methods, m] : methods.filter((x) => x !== m))} />`)}</div></fieldset>
    <${Field} label="Request headers"><${Input} value=${headers} onValue=${setHeaders} /><//>
    <${Field} label="Response headers that pages may read"><${Input} value=${expose} onValue=${setExpose} /><//>
    <div class="row"><${Button} kind="primary" type="submit" busy=${busy} disabled=${!split(origins).length || !methods.length}>Save rule<//><${Button} onClick=${onCancel}>Cancel<//></div></form>`;
}
