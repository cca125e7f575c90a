// Lifecycle rules of a bucket, and what they would delete now.

import { html, useState, Badge, Button, Card, ErrorBox, Field, Input, Select, Table, useAction } from "./ui.js";
import { call, may } from "./api.js";
import { children, escapeXML, text } from "./s3.js";
import { bytes, count, date, plural } from "./format.js";
import { RuleList } from "./xml_rules.js";

export function Lifecycle({ bucket, can }) {
  return html`<${RuleList} bucket=${bucket} may=${can("s3:PutLifecycleConfiguration")} title="Lifecycle rules" subresource="lifecycle" root="LifecycleConfiguration" element="Rule" Form=${RuleForm} describe=${describe}
    intro="Rules delete objects, older versions and unfinished uploads automatically when they reach an age."
    beside=${(draft) => may("PreviewLifecycle") && html`<${Preview} bucket=${bucket} draft=${draft} />`} />`;
}

/** Says what a rule does. */
function describe(rule) {
  const part = (name) => children(rule, name)[0];
  const does = [];
  const expiration = part("Expiration");
  if (expiration) {
    if (text(expiration, "Days")) does.push(`deletes objects after ${plural(Number(text(expiration, "Days")), "day")}`);
    if (text(expiration, "Date")) does.push(`deletes objects from ${text(expiration, "Date").slice(0, 10)} on`);
    if (text(expiration, "ExpiredObjectDeleteMarker") === "true") does.push("removes delete markers without versions");
  }
  const noncurrent = part("NoncurrentVersionExpiration");
  if (noncurrent) {
    const newer = text(noncurrent, "NewerNoncurrentVersions");
    does.push(`deletes older versions after ${plural(Number(text(noncurrent, "NoncurrentDays")), "day")}${newer ? `, except the ${newer} newest` : ""}`);
  }
  const abort = part("AbortIncompleteMultipartUpload");
  if (abort) does.push(`deletes unfinished uploads after ${plural(Number(text(abort, "DaysAfterInitiation")), "day")}`);
  const filter = part("Filter") || rule;
  const only = [];
  if (text(filter, "Prefix")) only.push(`keys that begin with “${text(filter, "Prefix")}”`);
  for (const tag of filter.getElementsByTagName("Tag")) only.push(`objects with the tag ${text(tag, "Key")}=${text(tag, "Value")}`);
  if (text(filter, "ObjectSizeGreaterThan")) only.push(`objects larger than ${bytes(Number(text(filter, "ObjectSizeGreaterThan")))}`);
  if (text(filter, "ObjectSizeLessThan")) only.push(`objects smaller than ${bytes(Number(text(filter, "ObjectSizeLessThan")))}`);
  return html`<p><strong>${text(rule, "ID") || "(no name)"}</strong> ${text(rule, "Status") !== "Enabled" && html`<${Badge} kind="warn">off<//>`}<br />
    ${does.join("; ") || "does nothing"}${only.length ? ` – only ${only.join(" and ")}` : " – in the whole bucket"}</p>`;
}

function RuleForm({ onSave, onCancel, busy, number }) {
  const [id, setId] = useState(`rule-${number}`);
  const [what, setWhat] = useState("Expiration");
  const [days, setDays] = useState("30");
  const [newer, setNewer] = useState("");
  const [prefix, setPrefix] = useState("");
  const [tag, setTag] = useState("");
  const whole = (v) => /^[1-9][0-9]*$/.test(v);
  const wrongDays = whole(days) ? "" : "Enter a whole number, at least 1.";
  const wrongNewer = !newer || whole(newer) ? "" : "Enter a whole number.";
  const wrongTag = tag && !/^[^=]+=/.test(tag) ? "Write it as key=value." : "";
  const submit = (event) => {
    event.preventDefault();
    if (wrongDays || wrongNewer || wrongTag) return;
    const [key, ...value] = tag.split("=");
    const p = prefix ? `<Prefix>${escapeXML(prefix)}</Prefix>` : "";
    const t = tag ? `<Tag><Key>${escapeXML(key)}</Key><Value>${escapeXML(value.join("="))}</Value></Tag>` : "";
    const filter = p && t ? `<And>${p}${t}</And>` : p || t || "<Prefix></Prefix>";
    const action = {
      Expiration: `<Expiration><Days>${days}</Days></Expiration>`,
      Noncurrent: `<NoncurrentVersionExpiration><NoncurrentDays>${days}</NoncurrentDays>${newer ? `<NewerNoncurrentVersions>${newer}</NewerNoncurrentVersions>` : ""}</NoncurrentVersionExpiration>`,
      Abort: `<AbortIncompleteMultipartUpload><DaysAfterInitiation>${days}</DaysAfterInitiation></AbortIncompleteMultipartUpload>`,
    }[what];
    onSave(`<Rule><ID>${escapeXML(id)}</ID><Status>Enabled</Status><Filter>${filter}</Filter>${action}</Rule>`);
  };
  return html`<form class="stack" onSubmit=${submit}>
    <div class="row fields"><${Field} label="Name"><${Input} value=${id} onValue=${setId} maxlength="255" /><//>
      <${Field} label="Delete"><${Select} value=${what} onValue=${setWhat} options=${[["Expiration", "objects"], ["Noncurrent", "older versions"], ["Abort", "unfinished uploads"]]} /><//>
      <${Field} label="After days" error=${wrongDays}><${Input} value=${days} onValue=${setDays} inputmode="numeric" /><//>
      ${what === "Noncurrent" && html`<${Field} label="Keep the newest" error=${wrongNewer} hint="Number of older versions; empty for none"><${Input} value=${newer} onValue=${setNewer} inputmode="numeric" /><//>`}</div>
    <div class="row fields"><${Field} label="Only keys that begin with" hint="Empty for the whole bucket"><${Input} value=${prefix} onValue=${setPrefix} /><//>
      ${what !== "Abort" && html`<${Field} label="Only objects with the tag" error=${wrongTag} hint="key=value, or empty"><${Input} value=${tag} onValue=${setTag} /><//>`}</div>
    <div class="row"><${Button} kind="primary" type="submit" busy=${busy}>Save rule<//><${Button} onClick=${onCancel}>Cancel<//></div></form>`;
}

function Preview({ bucket, draft }) {
  const run = useAction(() => call("POST", "lifecycle/preview", { query: { bucket, limit: 50 }, body: draft }));
  const [result, setResult] = useState(null);
  return html`<${Card} title="What would be deleted now?" actions=${html`<${Button} busy=${run.busy} onClick=${async () => setResult(await run.run())}>${draft ? "Try this draft" : "Try the rules"}<//>`}>
    <${ErrorBox} error=${run.error} />
    ${!result && !run.error && html`<p class="muted">A look at the bucket, without deleting anything.</p>`}
    ${result && html`<p>${result.versions + result.uploads === 0 ? "Nothing would be deleted." : `${plural(result.versions, "version")} with ${bytes(result.bytes)} and ${plural(result.uploads, "unfinished upload")} would be deleted.`}
        ${" "}${count(result.scanned)} looked at${result.complete ? "." : ", and then stopped: the bucket has more."}</p>
      <${Table} label="Examples" rows=${result.samples || []} rowKey=${(s) => s.key + s.version_id + s.action} columns=${[
        { name: "key", title: "Key" }, { name: "action", title: "What" }, { name: "rule", title: "Rule" },
        { name: "size", title: "Size", align: "right", render: (s) => bytes(s.size) }, { name: "modified", title: "Changed", narrow: true, render: (s) => date(s.modified) },
      ]} />`}
  <//>`;
}
