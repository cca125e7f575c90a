// Links with which anybody can download an object until they expire.

import { html, useState, Button, Check, Code, Dialog, ErrorBox, Field, Select, useAction } from "./ui.js";
import { call } from "./api.js";
import { date } from "./format.js";

const TIMES = [["900", "15 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["259200", "3 days"], ["604800", "7 days"]];

export function ShareDialog({ bucket, row, onClose }) {
  const [seconds, setSeconds] = useState("86400");
  const [inline, setInline] = useState(false);
  const [link, setLink] = useState(null);
  const create = useAction(async () => setLink(await call("POST", "../console/presign", {
    body: { bucket, key: row.key, version: row.version || "", seconds: Number(seconds), method: "GET", inline },
  })));
  return html`<${Dialog} title=${`Share ${row.key}`} onClose=${onClose} onSubmit=${create.run} footer=${html`
      <${Button} onClick=${onClose}>Close<//><${Button} kind="primary" type="submit" busy=${create.busy}>${link ? "Create another link" : "Create link"}<//>`}>
    <p>Whoever has the link can download this object, without an account.</p>
    <${Field} label="Valid for"><${Select} options=${TIMES} value=${seconds} onValue=${setSeconds} /><//>
    <${Check} label="Show it in the browser instead of saving it" checked=${inline} onValue=${setInline} />
    <${ErrorBox} error=${create.error} />
    ${link && html`<${Code} text=${link.url} label="link" />
      <p class="hint">It works until ${date(link.expires)}. It ends earlier if your access key is disabled, deleted or rotated, or loses the right to read the object.</p>`}
  <//>`;
}
