// The policy of a bucket.

import { html, useState, Button, Card, ErrorBox, Loaded, confirm, toast, useAction, useLoad } from "./ui.js";
import { may } from "./api.js";
import { Only } from "./allowed.js";
import { s3, crc32 } from "./s3.js";
import { PolicyEditor, problemOf } from "./policy_editor.js";

export function Policy({ bucket, can }) {
  const load = useLoad(async (signal) => {
    try {
      const response = await s3("GET", { bucket, query: { policy: true }, signal });
      return { document: JSON.stringify(JSON.parse(await response.text()), null, 2) };
    } catch (error) {
      if (error.code === "NoSuchBucketPolicy") return { document: "" };
      throw error;
    }
  }, [bucket]);
  return html`<${Loaded} of=${load}>${({ document }) => html`<${Editor} bucket=${bucket} can=${can} document=${document} reload=${load.reload} />`}<//>`;
}

const templates = (bucket) => [
  ["Anybody may read", policy({ Sid: "PublicRead", Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${bucket}/*` })],
  ["Anybody may read below public/", policy({ Sid: "PublicPrefix", Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${bucket}/public/*` })],
  ["Only over HTTPS", policy({ Sid: "OnlyHTTPS", Effect: "Deny", Principal: "*", Action: "s3:*", Resource: [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`], Condition: { Bool: { "aws:SecureTransport": "false" } } })],
  ["Only from these addresses", policy({ Sid: "OnlyFrom", Effect: "Deny", Principal: "*", Action: "s3:*", Resource: [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`], Condition: { NotIpAddress: { "aws:SourceIp": ["192.0.2.0/24"] } } })],
];

function policy(statement) {
  return JSON.stringify({ Version: "2012-10-17", Statement: [statement] }, null, 2);
}

function Editor({ bucket, can, document, reload }) {
  const [draft, setDraft] = useState(document); // it stays when the saved policy is loaded again: the user may have gone on
  const saved = Boolean(draft.trim()) && !problemOf(draft) && JSON.stringify(JSON.parse(draft), null, 2) === document;
  const save = useAction(async () => {
    await s3("PUT", { bucket, query: { policy: true }, body: draft, headers: { "x-amz-checksum-crc32": crc32(draft) } });
    toast("The policy was saved.");
    reload();
  });
  const remove = useAction(async () => {
    if (!(await confirm({ title: "Delete the policy?", body: "Only users of this account whose own policies allow it keep access.", action: "Delete policy", danger: true }))) return;
    await s3("DELETE", { bucket, query: { policy: true } });
    setDraft("");
    reload();
  });
  const simulate = () => {
    sessionStorage.setItem("orcas.draft", draft);
    window.location.hash = `/simulator/${encodeURIComponent(bucket)}`;
  };
  return html`<${Card} title="Policy"><p class="muted">A policy allows or denies actions to users of any account, and to everybody. It applies in addition to the policies of users.</p>
    <${PolicyEditor} value=${draft} onValue=${setDraft} templates=${templates(bucket)} readonly=${!can("s3:PutBucketPolicy").ok} />
    <${Only} may=${can("s3:PutBucketPolicy")} />
    <${ErrorBox} error=${save.error || remove.error} />
    <div class="row"><${Button} kind="primary" busy=${save.busy} disabled=${!can("s3:PutBucketPolicy").ok || !draft.trim() || saved || Boolean(problemOf(draft))} onClick=${save.run}>Save policy<//>
      ${may("SimulatePolicy") && html`<${Button} disabled=${!draft.trim() || Boolean(problemOf(draft))} onClick=${simulate}>Try it in the simulator<//>`}
      ${document && can("s3:DeleteBucketPolicy").ok && html`<${Button} kind="danger" busy=${remove.busy} onClick=${remove.run}>Delete policy…<//>`}</div><//>`;
}
