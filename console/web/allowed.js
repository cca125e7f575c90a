// What the user's policies allow for a bucket, a key or a prefix, so that pages show nothing else. The server decides about
// every request again.

import { html, useEffect, useState } from "./ui.js";
import { call, onSession } from "./api.js";

const KEPT = 200; // answers, by their questions
const answers = new Map();
onSession(() => answers.clear());

/** What S3 actions do, for people. */
const NAMES = {
  "s3:CreateBucket": "create buckets", "s3:DeleteBucket": "delete this bucket", "s3:PutObject": "upload here", "s3:GetObject": "read here",
  "s3:GetObjectVersion": "read older versions here", "s3:DeleteObject": "delete objects here", "s3:DeleteObjectVersion": "delete versions here",
  "s3:PutObjectTagging": "change tags here", "s3:PutObjectVersionTagging": "change tags of versions here",
};

/** Asks about actions, and returns can(action, ...): {ok, why}, which is ok if all of them are allowed. Until the server has
 * answered, before decides or, without it, nothing is allowed; if it cannot answer, everything is. where is {bucket, key} or
 * {bucket, prefix}; null asks nothing. An earlier answer is used until the new one arrives. */
export function useAllowed(where, actions, before) {
  const question = where && JSON.stringify({ ...where, actions });
  const [, setTurn] = useState(0);
  useEffect(() => {
    if (!question) return undefined;
    const abort = new AbortController();
    call("POST", "../console/allowed", { body: { ...where, actions }, signal: abort.signal }).then((a) => a.decisions, (error) => (error.status === 401 ? {} : null))
      .then((decisions) => {
        if (abort.signal.aborted) return;
        answers.delete(question);
        answers.set(question, decisions);
        if (answers.size > KEPT) answers.delete(answers.keys().next().value);
        setTurn((n) => n + 1);
      });
    return () => abort.abort();
  }, [question]);
  const decisions = answers.get(question);
  return (...needed) => {
    if (decisions === undefined) return before ? before(...needed) : { ok: false, why: "" };
    const refused = decisions && needed.find((a) => decisions[a] !== "allow");
    return refused ? { ok: false, why: reason(refused, decisions[refused]) } : { ok: true, why: "" };
  };
}

function reason(action, decision) {
  const what = NAMES[action] ? `${NAMES[action]} (${action})` : `do this (${action})`;
  return decision === "explicitDeny" ? `A policy forbids you to ${what}.` : `No policy allows you to ${what}.`;
}

/** Controls that work only if they are allowed; otherwise it says why not. */
export function Only({ may, children }) {
  return html`<fieldset class="stack" disabled=${!may.ok}>${children}${may.why && html`<p class="hint refused">${may.why}</p>`}</fieldset>`;
}
