// An editor for policies in JSON, which shows at once where the text is not valid.

import { html, Button, Field, TextArea } from "./ui.js";

/** Returns what is wrong with a text as JSON, or "". */
export function problemOf(value) {
  if (!value.trim()) return "";
  try {
    const parsed = JSON.parse(value);
    return parsed && typeof parsed === "object" && !Array.isArray(parsed) ? "" : "A policy is an object: { … }";
  } catch (error) {
    const at = /position (\d+)/.exec(error.message);
    const line = /line (\d+) column (\d+)/.exec(error.message);
    if (line) return `Line ${line[1]}, column ${line[2]}: ${error.message.replace(/ in JSON at.*| \(line.*/, "")}`;
    if (!at) return error.message;
    const before = value.slice(0, Number(at[1])).split("\n");
    return `Line ${before.length}, column ${before[before.length - 1].length + 1}: ${error.message.replace(/ in JSON at.*/, "")}`;
  }
}

/** The editor: templates is [[label, text], ...]. */
export function PolicyEditor({ value, onValue, templates = [], label = "Policy in JSON", readonly = false }) {
  const problem = problemOf(value);
  const format = () => onValue(JSON.stringify(JSON.parse(value), null, 2));
  return html`<div class="stack">
    ${templates.length > 0 && !readonly && html`<div class="chips" role="group" aria-label="Templates">${templates.map(([name, text]) => html`
      <button type="button" key=${name} onClick=${() => onValue(text)}>${name}</button>`)}</div>`}
    <${Field} label=${label} error=${problem}><${TextArea} class="code-input" value=${value} onValue=${onValue} readonly=${readonly} /><//>
    ${!readonly && html`<div class="row"><${Button} kind="quiet" disabled=${!value.trim() || Boolean(problem)} onClick=${format}>Format<//></div>`}</div>`;
}
