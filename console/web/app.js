// The frame of the application: sign-in, navigation, and the page of the current address.

import { html, render, useEffect, useRef, useState, Button, ErrorBox, Icon, IconButton, Link, Messages, Page, Spinner, attempt, classes } from "./ui.js";
import { may, onSession, resume, session, signOut } from "./api.js";
import { SignIn, hasLink, takeLink } from "./signin.js";
import { Overview } from "./overview.js";
import { First } from "./first.js";
import { Buckets } from "./buckets.js";
import { Bucket } from "./bucket_settings.js";
import { Objects } from "./objects.js";
import { Uploads } from "./uploads.js";
import { Keys } from "./keys.js";
import { Accounts, Groups, Roles, Users } from "./users.js";
import { Policies } from "./policies.js";
import { Simulator } from "./simulator.js";
import { Maintenance } from "./maintenance.js";
import { Log, Trace } from "./live.js";
import { Connect } from "./connect.js";

// The pages: the first part of the address, the title in the navigation, and the operations of which the user needs one.
const PAGES = [
  { at: "", page: Overview, title: "Overview", icon: "overview" },
  { at: "buckets", page: ({ params }) => (params.length ? html`<${Bucket} params=${params} />` : html`<${Buckets} />`), title: "Buckets", icon: "bucket" },
  { at: "objects", page: Objects },
  { at: "first", page: First, title: "First steps", icon: "start", needs: ["CreateKey"] },
  { at: "connect", page: Connect, title: "Connect", icon: "link" },
  { group: "Access" },
  { at: "keys", page: Keys, title: "Keys", icon: "key", needs: ["ListKeys"] },
  { at: "users", page: Users, title: "Users", icon: "user", needs: ["ListUsers"] },
  { at: "groups", page: Groups, title: "Groups", icon: "user", needs: ["ListGroups"] },
  { at: "roles", page: Roles, title: "Roles", icon: "user", needs: ["ListRoles"] },
  { at: "policies", page: Policies, title: "Policies", icon: "policy", needs: ["ListPolicies"] },
  { at: "simulator", page: Simulator, title: "Simulator", icon: "check", needs: ["SimulatePolicy"] },
  { at: "accounts", page: Accounts, title: "Accounts", icon: "user", needs: ["ListAccounts"] },
  { group: "Server" },
  { at: "maintenance", page: Maintenance, title: "Maintenance", icon: "work", needs: ["GetScrub", "GetReclaim", "GetLifecycle", "CheckStore", "CreateBackup", "GetMasterKeys"] },
  { at: "trace", page: Trace, title: "Live trace", icon: "live", needs: ["Trace"] },
  { at: "log", page: Log, title: "Log", icon: "file", needs: ["ReadLog", "GetLogLevel"] },
];

const visible = (p) => !p.needs || p.needs.some(may);

/** Returns the parts of the address: the page, its parameters, and both as they are written there. */
export function route() {
  const [path] = window.location.hash.replace(/^#\/?/, "").split("?");
  const [at, ...params] = path.split("/");
  return { at, params: params.map((p) => decodeURIComponent(p)), path };
}

function Navigation({ at, open, close }) {
  const shown = PAGES.filter((p) => (p.group ? PAGES.slice(PAGES.indexOf(p) + 1).some((q) => q.title && visible(q)) : p.title && visible(p)));
  return html`<nav class=${classes("side", open && "open")} aria-label="Main" id="navigation">
    <a class="brand" href="#/"><img src="icon.svg" alt="" />ORCAS</a>
    ${shown.map((p) => (p.group ? html`<h2 key=${p.group}>${p.group}</h2>` : html`
      <a key=${p.at} class="nav" href=${`#/${p.at}`} onClick=${close}
        aria-current=${at === p.at || (at === "objects" && p.at === "buckets") ? "page" : undefined}><${Icon} name=${p.icon} />${p.title}</a>`))}
    <${Who} />
  </nav>`;
}

function Who() {
  const [scheme, setScheme] = useState(document.documentElement.dataset.scheme || "");
  const dark = scheme ? scheme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  const change = () => {
    const next = dark ? "light" : "dark";
    document.documentElement.dataset.scheme = next;
    localStorage.setItem("orcas.scheme", next);
    setScheme(next);
    window.dispatchEvent(new Event("orcas-scheme"));
  };
  return html`<div class="who">
    <p><strong>${session.principal.name || session.access_key}</strong><br /><span class="hint">${session.principal.kind} · ${session.access_key}</span></p>
    <div class="row"><${Button} onClick=${() => attempt(() => signOut(false))}>Sign out<//>
      <${IconButton} icon="sun" label=${`${dark ? "Light" : "Dark"} mode`} onClick=${change} /></div>
    <${Button} kind="quiet" onClick=${() => attempt(() => signOut(true), "All sessions of this key have ended.")}>Sign out everywhere<//>
  </div>`;
}

function Frame() {
  const [current, setCurrent] = useState(route());
  const [open, setOpen] = useState(false);
  const main = useRef(null);
  const first = useRef(true);
  useEffect(() => {
    const changed = () => setCurrent(route());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  const path = `${current.at}/${current.params[0] || ""}`;
  useEffect(() => {
    setOpen(false);
    if (!first.current) main.current.querySelector("h1")?.focus();
    first.current = false;
  }, [path]);
  const found = PAGES.find((p) => p.at === current.at);
  return html`<div class="frame" onKeyDown=${(event) => event.key === "Escape" && setOpen(false)}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <div class="top"><${IconButton} icon="menu" label="Menu" aria-expanded=${open ? "true" : "false"} aria-controls="navigation" onClick=${() => setOpen(true)} />
      <a class="brand" href="#/"><img src="icon.svg" alt="" />ORCAS</a></div>
    <button type="button" class=${classes("scrim", open && "open")} aria-label="Close the menu" tabindex=${open ? 0 : -1} onClick=${() => setOpen(false)}></button>
    <${Navigation} at=${current.at} open=${open} close=${() => setOpen(false)} />
    <main id="main" ref=${main} tabindex="-1" data-page=${current.path}>
      ${found ? html`<${found.page} key=${current.at} params=${current.params} />` : html`<${Page} title="Page not found"><p><${Link} to="/">Overview<//></p><//>`}
    </main>
    <${Uploads} />
  </div>`;
}

function App() {
  const [, setTurn] = useState(0);
  const [state, setState] = useState({ ready: false, error: null });
  const begin = async () => {
    setState({ ready: false, error: null });
    try {
      await takeLink();
      if (!session) await resume();
      setState({ ready: true, error: null });
    } catch (error) {
      setState({ ready: Boolean(error.status), error });
    }
  };
  useEffect(() => {
    begin();
    const pasted = () => hasLink() && begin(); // a link to sign in, into the address of a page that is open
    window.addEventListener("hashchange", pasted);
    const stop = onSession(() => setTurn((n) => n + 1));
    return () => {
      window.removeEventListener("hashchange", pasted);
      stop();
    };
  }, []);
  let content = html`<${Spinner} />`;
  if (state.error && !state.ready) content = html`<div class="sign-in"><${ErrorBox} error=${state.error} retry=${begin} /></div>`;
  else if (state.ready && !session) content = html`<${SignIn} error=${state.error} />`;
  else if (state.ready) content = html`<${Frame} key=${session.access_key} />`;
  return html`${content}<${Messages} />`;
}

render(html`<${App} />`, document.getElementById("app"));
