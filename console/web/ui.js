// The building blocks of all pages: Preact with htm, and components that look and behave alike.

import { Fragment, cloneElement, createContext, h, render } from "./vendor/preact.mjs";
import { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);
export { Fragment, createContext, h, render, useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState };

/** Returns class names that are true, separated by spaces. */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

const ICONS = {
  menu: "M3 6h18M3 12h18M3 18h18", close: "M5 5l14 14M19 5L5 19", copy: "M9 9h11v11H9zM5 15H4V4h11v1", check: "M4 12l6 6L20 6",
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-4H4zM14 8h6V4h-6z", bucket: "M4 7h16l-2 13H6zM8 7a4 3 0 0 1 8 0",
  key: "M14 10a4 4 0 1 1-1.2-2.8L21 7v4h-3v3h-3v-3l-1.2-.2", user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c1-5 4-6 8-6s7 1 8 6",
  policy: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h7", work: "M14 6a4 4 0 0 1 5-1l-3 3 2 2 3-3a4 4 0 0 1-5 5l-8 8-3-3 8-8a4 4 0 0 1 1-3z",
  live: "M3 12h4l3-8 4 16 3-8h4", folder: "M3 6h6l2 2h10v11H3z", file: "M6 3h8l5 5v13H6zM14 3v5h5", up: "M12 20V5M6 11l6-6 6 6",
  down: "M12 4v15M6 13l6 6 6-6", trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13", link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  more: "M12 5v.01M12 12v.01M12 19v.01", start: "M5 4l14 8-14 8z", plus: "M12 5v14M5 12h14", sun: "M12 17a5 5 0 1 0 0-10 5 5 0 0 0 0 10zM12 1v2M12 21v2M1 12h2M21 12h2M4 4l2 2M18 18l2 2M4 20l2-2M18 6l2-2",
};

/** A line icon that screen readers skip. */
export function Icon({ name }) {
  return html`<svg class=${classes("icon", `icon-${name}`)} viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name] || ICONS.file} /></svg>`;
}

export function Button({ kind = "", busy, icon, children, type = "button", disabled, ...rest }) {
  return html`<button type=${type} class=${classes("button", kind)} disabled=${disabled || busy} aria-busy=${busy ? "true" : undefined} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

export function IconButton({ icon, label, ...rest }) {
  return html`<button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} /></button>`;
}

/** A link to another page of the console. */
export function Link({ to, children, ...rest }) {
  return html`<a href=${`#${to}`} ...${rest}>${children}</a>`;
}

/** A page: its title, the path to it ([[label, path], ...]), and actions beside the title. */
export function Page({ title, crumbs = [], actions, children }) {
  useEffect(() => {
    document.title = `${typeof title === "string" ? title : "ORCAS"} · ORCAS`;
  }, [title]);
  return html`<div class="page">
    ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb">${crumbs.map(([label, to], i) => html`
      <span key=${i}>${to ? html`<${Link} to=${to}>${label}<//>` : label}</span>`)}</nav>`}
    <header class="page-head"><h1 tabindex="-1">${title}</h1><div class="actions">${actions}</div></header>
    ${children}
  </div>`;
}

export function Card({ title, actions, children, class: more }) {
  return html`<section class=${classes("card", more)}>
    ${(title || actions) && html`<header class="card-head">${title && html`<h2>${title}</h2>`}<div class="actions">${actions}</div></header>`}
    ${children}</section>`;
}

export function Stat({ label, value, hint }) {
  return html`<div class="stat"><dt>${label}</dt><dd>${value}</dd>${hint && html`<dd class="hint">${hint}</dd>`}</div>`;
}

/** A form field. Its single child is the control, which gets the ID of the label and of the texts. */
export function Field({ label, hint, error, children }) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const [control, ...others] = [].concat(children);
  return html`<div class=${classes("field", error && "wrong")}>
    <label for=${id}>${label}</label>
    ${cloneElement(control, { id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined })}${others}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="error-text" id=${`${id}-error`}>${error}</p>`}
  </div>`;
}

/** A text input. onValue gets the text. */
export function Input({ onValue, ...rest }) {
  return html`<input onInput=${(event) => onValue && onValue(event.currentTarget.value)} spellcheck="false" autocomplete="off" ...${rest} />`;
}

export function TextArea({ onValue, ...rest }) {
  return html`<textarea onInput=${(event) => onValue && onValue(event.currentTarget.value)} spellcheck="false" ...${rest}></textarea>`;
}

/** A list to select from: options is [[value, label], ...]. */
export function Select({ options, value, onValue, ...rest }) {
  return html`<select onChange=${(event) => onValue(event.currentTarget.value)} ...${rest}>
    ${options.map(([v, label]) => html`<option key=${v} value=${v} selected=${v === value}>${label}</option>`)}</select>`;
}

export function Check({ label, hint, onValue, ...rest }) {
  return html`<label class="check"><input type="checkbox" onChange=${(event) => onValue(event.currentTarget.checked)} ...${rest} />
    <span>${label}${hint && html`<span class="hint">${hint}</span>`}</span></label>`;
}

export function Badge({ kind = "", children }) {
  return html`<span class=${classes("badge", kind)}>${children}</span>`;
}

export function Spinner({ label = "Loading" }) {
  return html`<div class="spinner" role="status"><span class="turning" aria-hidden="true"></span>${label}…</div>`;
}

export function Progress({ value, max = 1, label }) {
  return html`<div class="progress"><progress value=${value} max=${max || 1} aria-label=${label}></progress>
    <span>${max ? Math.floor((100 * value) / max) : 0} %</span></div>`;
}

/** Tells what went wrong. */
export function ErrorBox({ error, retry }) {
  if (!error) return null;
  return html`<div class="box error" role="alert"><p>${sentence(error.message || String(error))}</p>
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}</div>`;
}

/** Returns a text with a capital at the beginning and a period at the end. */
function sentence(value) {
  const trimmed = String(value).trim();
  return trimmed && trimmed[0].toUpperCase() + trimmed.slice(1) + (/[.!?]$/.test(trimmed) ? "" : ".");
}

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** A table. Columns are {name, title, render(row), align, narrow}; with selected (a Set of keys), rows can be selected. */
export function Table({ label, columns, rows, rowKey = (row) => row.name, empty, selected, onSelect }) {
  if (!rows.length) return empty || null;
  const keys = rows.map(rowKey);
  const whole = selected && keys.every((k) => selected.has(k));
  const toggle = (key, on) => {
    const next = new Set(selected);
    if (on) next.add(key);
    else next.delete(key);
    onSelect(next);
  };
  return html`<div class="table-frame" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>
      ${selected && html`<th class="select"><input type="checkbox" aria-label="Select all rows" checked=${whole}
        onChange=${(event) => onSelect(event.currentTarget.checked ? new Set([...selected, ...keys]) : new Set([...selected].filter((k) => !keys.includes(k))))} /></th>`}
      ${columns.map((c) => html`<th key=${c.name} scope="col" class=${classes(c.align, c.narrow && "narrow")}>${c.title || html`<span class="hidden">${c.label || "Actions"}</span>`}</th>`)}
    </tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${keys[i]} class=${classes(selected && selected.has(keys[i]) && "selected")}>
      ${selected && html`<td class="select"><input type="checkbox" aria-label=${`Select ${keys[i]}`} checked=${selected.has(keys[i])}
        onChange=${(event) => toggle(keys[i], event.currentTarget.checked)} /></td>`}
      ${columns.map((c) => html`<td key=${c.name} data-title=${c.title} class=${classes(c.align, c.narrow && "narrow")}>${c.render ? c.render(row) : row[c.name]}</td>`)}
    </tr>`)}</tbody></table></div>`;
}

/** Links to the parts of a page: tabs is [[path, label], ...]. */
export function Tabs({ label, tabs, current }) {
  const root = useRef(null);
  useLayoutEffect(() => { // on a phone, not all fit
    const { offsetLeft, offsetWidth } = root.current.querySelector("[aria-current]");
    root.current.scrollLeft = offsetLeft + offsetWidth / 2 - root.current.offsetLeft - root.current.clientWidth / 2;
  }, [current]);
  return html`<nav class="tabs" aria-label=${label} ref=${root}>${tabs.map(([to, title]) => html`
    <${Link} key=${to} to=${to} aria-current=${to === current ? "page" : undefined}>${title}<//>`)}</nav>`;
}

/** A button with a list of actions: items are {label, onClick, danger, disabled, href}. onOpen is called when the list opens. */
export function Menu({ label, items: all, icon = "more", onOpen }) {
  const items = all.filter(Boolean);
  const [open, setOpen] = useState(false);
  const root = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    root.current.querySelector(".menu-items button:not(:disabled), .menu-items a")?.focus();
    const outside = (event) => !root.current.contains(event.target) && setOpen(false);
    document.addEventListener("click", outside);
    return () => document.removeEventListener("click", outside);
  }, [open]);
  const keys = (event) => {
    const list = [...root.current.querySelectorAll(".menu-items button:not(:disabled), .menu-items a")];
    const at = list.indexOf(document.activeElement);
    if (event.key === "Escape" && open) {
      setOpen(false);
      root.current.querySelector("button").focus();
      event.stopPropagation();
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      list[(at + (event.key === "ArrowDown" ? 1 : list.length - 1)) % list.length]?.focus();
      event.preventDefault();
    }
  };
  return html`<div class="menu" ref=${root} onKeyDown=${keys}>
    <button type="button" class="icon-button" aria-haspopup="true" aria-expanded=${open ? "true" : "false"} aria-label=${label} title=${label}
      onClick=${() => { if (!open) onOpen?.(); setOpen(!open); }}><${Icon} name=${icon} /></button>
    ${open && html`<div class="menu-items">${items.length === 0 && html`<p class="hint">Nothing that you may do</p>`}${items.map((item) => html`
      <button type="button" key=${item.label} class=${item.danger ? "danger" : ""} disabled=${item.disabled}
        onClick=${() => { setOpen(false); root.current.querySelector("button").focus(); item.onClick(); }}>${item.label}</button>`)}</div>`}
  </div>`;
}

/** A modal dialog. It closes with Escape, and the focus returns to where it was. */
export function Dialog({ title, onClose, children, footer, wide, onSubmit }) {
  const dialog = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    element.showModal();
    element.querySelector("[autofocus], .dialog-body input, .dialog-body textarea, .dialog-body select")?.focus();
    return () => {
      element.close(); // while it is open, nothing else can have the focus
      if (before?.isConnected) before.focus();
    };
  }, []);
  const submit = (event) => {
    event.preventDefault();
    if (onSubmit) onSubmit();
  };
  return html`<dialog ref=${dialog} class=${classes(wide && "wide")} aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <form onSubmit=${submit} novalidate>
      <header><h2 id=${id}>${title}</h2><${IconButton} icon="close" label="Close" onClick=${onClose} /></header>
      <div class="dialog-body">${children}</div>
      ${footer && html`<footer>${footer}</footer>`}
    </form></dialog>`;
}

/** A block of text to copy. */
export function Code({ text: value, label, children }) {
  return html`<div class="code"><pre tabindex="0" aria-label=${label}>${children || value}</pre><${CopyButton} text=${value} label=${`Copy ${label || "text"}`} /></div>`;
}

export function CopyButton({ text: value, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(value);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return html`<button type="button" class="icon-button copy" aria-label=${done ? "Copied" : label} title=${done ? "Copied" : label} onClick=${copy}>
    <${Icon} name=${done ? "check" : "copy"} /></button>`;
}

/** Copies a text. Over plain HTTP browsers have no clipboard API, except for this machine. */
export async function copyText(value) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(value);
    return;
  }
  const area = document.createElement("textarea");
  area.value = value;
  (document.querySelector("dialog[open]") || document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Loads data: fn(signal) returns a promise. An older load is aborted when deps change. */
export function useLoad(fn, deps) {
  const [state, setState] = useState({ loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((s) => ({ ...s, loading: true }));
    Promise.resolve().then(() => fn(abort.signal)).then(
      (data) => abort.signal.aborted || setState({ data, loading: false }),
      (error) => abort.signal.aborted || setState((s) => ({ data: s.data, error, loading: false })));
    return () => abort.abort();
  }, [...deps, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  return { ...state, reload };
}

/** Runs an action of a button: {run, busy, error}. A failure is kept as error. */
export function useAction(fn) {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (...values) => {
    setState({ busy: true, error: null });
    try {
      const result = await fn(...values);
      setState({ busy: false, error: null });
      return result;
    } catch (error) {
      setState({ busy: false, error });
      return undefined;
    }
  };
  return { ...state, run, clear: () => setState({ busy: false, error: null }) };
}

/** Shows what useLoad returned: a spinner, an error, or children(data). */
export function Loaded({ of, children }) {
  if (of.error && !of.data) return html`<${ErrorBox} error=${of.error} retry=${of.reload} />`;
  if (of.data === undefined) return html`<${Spinner} />`;
  return html`${of.error && html`<${ErrorBox} error=${of.error} retry=${of.reload} />`}${children(of.data)}`;
}

let addToast = () => {};
let askUser = () => Promise.resolve(false);

/** Shows a short message for some seconds; an error stays until it is closed. */
export function toast(message, kind = "ok") {
  addToast({ message, kind });
}

/** Asks the user, who must type a text if the question has typed. */
export function confirm(question) {
  return askUser(question);
}

/** Runs an action of a menu or a button without a place for errors: a failure becomes a message. */
export async function attempt(fn, done) {
  try {
    const result = await fn();
    if (done) toast(done);
    return result === undefined ? true : result;
  } catch (error) {
    if (error.name !== "AbortError") toast(sentence(error.message), "error");
    return undefined;
  }
}

/** Where messages and questions appear; once in the application. */
export function Messages() {
  const [toasts, setToasts] = useState([]);
  const [question, setQuestion] = useState(null);
  useEffect(() => {
    let last = 0;
    addToast = (t) => {
      const id = ++last;
      setToasts((list) => [...list.slice(-4), { ...t, id }]);
      if (t.kind !== "error") setTimeout(() => setToasts((list) => list.filter((x) => x.id !== id)), 6000);
    };
    askUser = (q) => new Promise((resolve) => setQuestion({ ...q, resolve }));
  }, []);
  const answer = (value) => {
    question.resolve(value);
    setQuestion(null);
  };
  return html`
    <div class="toasts" role="status" aria-live="polite">${toasts.map((t) => html`<div key=${t.id} class=${classes("toast", t.kind)}>
      <span>${t.message}</span><${IconButton} icon="close" label="Dismiss" onClick=${() => setToasts((list) => list.filter((x) => x.id !== t.id))} /></div>`)}</div>
    ${question && html`<${Question} question=${question} answer=${answer} />`}`;
}

function Question({ question, answer }) {
  const [typed, setTyped] = useState("");
  const wrong = question.typed !== undefined && typed !== question.typed;
  return html`<${Dialog} title=${question.title} onClose=${() => answer(false)} onSubmit=${() => !wrong && answer(true)} footer=${html`
      <${Button} onClick=${() => answer(false)}>Cancel<//>
      <${Button} kind=${question.danger ? "danger" : "primary"} type="submit" disabled=${wrong} autofocus=${question.typed === undefined}>${question.action || "OK"}<//>`}>
    <p>${question.body}</p>
    ${question.typed !== undefined && html`<${Field} label=${html`Type <strong>${question.typed}</strong> to confirm`}><${Input} value=${typed} onValue=${setTyped} /><//>`}
  <//>`;
}
