// Users, groups, roles and accounts.

import { html, useState, Badge, Button, Check, Dialog, Empty, ErrorBox, Field, IconButton, Input, Loaded, Menu, Page, Select, Table, attempt, confirm, useAction, useLoad } from "./ui.js";
import { call, may } from "./api.js";
import { ago, date } from "./format.js";
import { SecretBox } from "./keys.js";
import { PolicyEditor, problemOf } from "./policy_editor.js";

/** A dialog that asks for a name. */
function NameDialog({ title, action, label = "Name", value = "", onSave, onClose, children }) {
  const [name, setName] = useState(value);
  const save = useAction(async () => {
    await onSave(name);
    onClose();
  });
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${() => name && save.run()} footer=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${save.busy} disabled=${!name || name === value}>${action}<//>`}>
    <${ErrorBox} error=${save.error} /><${Field} label=${label}><${Input} value=${name} onValue=${setName} autofocus /><//>${children}<//>`;
}

/** Policies that are attached to an identity, with buttons to attach and detach. */
function Attached({ kind, name, policies, reload }) {
  const known = useLoad((signal) => (may("ListPolicies") ? call("GET", "policy", { signal }) : Promise.resolve({ policies: [] })), []);
  const [chosen, setChosen] = useState("");
  const attach = (policy, attached) => attempt(() => call("POST", "policy/attach", { query: { policy, [kind]: name, attached: String(attached) } })).then(reload);
  const rest = (known.data?.policies || []).map((p) => p.name).filter((p) => !policies.includes(p));
  return html`<fieldset><legend>Policies</legend><div class="row">${policies.length ? policies.map((p) => html`<span class="row" key=${p}><${Badge}>${p}<//>
      ${may("AttachPolicy") && html`<${IconButton} icon="close" label=${`Detach ${p}`} onClick=${() => attach(p, false)} />`}</span>`) : html`<span class="muted">none</span>`}</div>
    ${may("AttachPolicy") && rest.length > 0 && html`<div class="row fields"><${Field} label="Attach a policy"><${Select} value=${chosen} onValue=${setChosen} options=${[["", "Choose…"], ...rest.map((p) => [p, p])]} /><//>
      <${Button} disabled=${!chosen} onClick=${() => { attach(chosen, true); setChosen(""); }}>Attach<//></div>`}</fieldset>`;
}

/** A page with a list of identities, and one of them in a dialog. */
function Identities({ title, path, field, intro, columns, create, remove, Details }) {
  const load = useLoad((signal) => call("GET", path, { signal }).then((d) => d[field]), [path]);
  const [creating, setCreating] = useState(false);
  const [open, setOpen] = useState("");
  const [renaming, setRenaming] = useState("");
  const found = load.data?.find((i) => i.name === open);
  const one = title.slice(0, -1).toLowerCase();
  const drop = async (i) => {
    if (!(await confirm({ title: `Delete ${i.name}?`, body: `The ${one} loses access at once.`, action: `Delete ${one}`, danger: true, typed: i.name }))) return;
    await attempt(() => call("DELETE", path, { query: { name: i.name } }), `The ${one} was deleted.`);
    load.reload();
  };
  return html`<${Page} title=${title} actions=${create && html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create ${one}<//>`}>
    <p class="muted">${intro}</p>
    <${Loaded} of=${load}>${(list) => html`<${Table} label=${title} rows=${list} rowKey=${(i) => i.name || i.id} empty=${html`<${Empty} title=${`There are no ${title.toLowerCase()} yet`} />`} columns=${[
      { name: "name", title: "Name", render: (i) => html`<button type="button" class="name" onClick=${() => setOpen(i.name)}>${i.name}</button>` },
      ...columns,
      { name: "actions", narrow: true, render: (i) => html`<${Menu} label=${`Actions for ${i.name}`} items=${[
        { label: "Details", onClick: () => setOpen(i.name) },
        may(`Rename${title.slice(0, -1)}`) && { label: "Rename…", onClick: () => setRenaming(i.name) },
        remove && { label: "Delete…", danger: true, onClick: () => drop(i) },
      ]} />` },
    ]} />`}<//>
    ${creating && create({ onClose: () => setCreating(false), onDone: () => { setCreating(false); load.reload(); } })}
    ${renaming && html`<${NameDialog} title=${`Rename ${renaming}`} action="Rename" value=${renaming} onClose=${() => setRenaming("")}
      onSave=${async (to) => { await call("POST", `${path}/name`, { query: { name: renaming, to } }); load.reload(); }} />`}
    ${found && html`<${Dialog} wide title=${found.name} onClose=${() => setOpen("")}><${Details} of=${found} reload=${load.reload} /><//>`}
  <//>`;
}

export function Users() {
  const create = ({ onClose, onDone }) => html`<${NameDialog} title="Create user" action="Create user" onClose=${onClose} onSave=${async (name) => { await call("POST", "user", { query: { name } }); onDone(); }} />`;
  return html`<${Identities} title="Users" path="user" field="users" Details=${UserDetails} create=${may("CreateUser") && create} remove=${may("DeleteUser")}
    intro="A user has access keys. The policies of a user, and of the user's groups, say what is allowed." columns=${[
      { name: "groups", title: "Groups", render: (u) => u.groups.join(", ") }, { name: "policies", title: "Policies", render: (u) => u.policies.join(", ") },
      { name: "keys", title: "Keys", align: "right", render: (u) => u.keys.length },
      { name: "used", title: "Last used", narrow: true, render: (u) => ago(u.keys.map((k) => k.last_used).filter(Boolean).sort().pop()) },
    ]} />`;
}

function UserDetails({ of: user, reload }) {
  const [made, setMade] = useState(null);
  const groups = useLoad((signal) => (may("ListGroups") ? call("GET", "group", { signal }) : Promise.resolve({ groups: [] })), []);
  const member = (group, on) => attempt(() => call("POST", "group/member", { query: { group, user: user.name, member: String(on) } })).then(reload);
  const create = async () => {
    const key = await attempt(() => call("POST", "user/key", { query: { name: user.name } }));
    if (key) setMade({ ...key, name: user.name });
    reload();
  };
  const state = (k) => attempt(() => call("POST", "user/key/state", { query: { name: user.name, key: k.access_key, enabled: String(!k.enabled) } })).then(reload);
  const remove = async (k) => {
    if (!(await confirm({ title: "Delete this access key?", body: "Programs that use it lose access at once.", action: "Delete key", danger: true }))) return;
    await attempt(() => call("DELETE", "user/key", { query: { name: user.name, key: k.access_key } }));
    reload();
  };
  return html`<p class="hint mono wrap">${user.arn}</p>
    <${Attached} kind="user" name=${user.name} policies=${user.policies} reload=${reload} />
    ${may("UpdateMember") && groups.data?.groups.length > 0 && html`<fieldset><legend>Groups</legend><div class="row">${groups.data.groups.map((g) => html`
      <${Check} key=${g.name} label=${g.name} checked=${user.groups.includes(g.name)} onValue=${(on) => member(g.name, on)} />`)}</div></fieldset>`}
    <fieldset><legend>Access keys</legend>
      ${made && html`<${SecretBox} made=${made} />`}
      <${Table} label="Access keys" rows=${user.keys} rowKey=${(k) => k.access_key} empty=${html`<p class="muted">none</p>`} columns=${[
        { name: "key", title: "Access key", render: (k) => html`<span class="mono">${k.access_key}</span>` },
        { name: "state", title: "State", render: (k) => html`<${Badge} kind=${k.enabled ? "good" : "warn"}>${k.enabled ? "active" : "disabled"}<//>` },
        { name: "used", title: "Last used", render: (k) => ago(k.last_used) }, { name: "expires", title: "Expires", render: (k) => (k.expires ? date(k.expires) : "never") },
        { name: "actions", narrow: true, render: (k) => html`<${Menu} label=${`Actions for ${k.access_key}`} items=${[
          may("UpdateUserKey") && { label: k.enabled ? "Disable" : "Enable", onClick: () => state(k) },
          may("DeleteUserKey") && { label: "Delete…", danger: true, onClick: () => remove(k) }]} />` },
      ]} />
      ${may("CreateUserKey") && html`<div><${Button} onClick=${create}>Create access key<//></div>`}</fieldset>`;
}

export function Groups() {
  const create = ({ onClose, onDone }) => html`<${NameDialog} title="Create group" action="Create group" onClose=${onClose} onSave=${async (name) => { await call("POST", "group", { query: { name } }); onDone(); }} />`;
  return html`<${Identities} title="Groups" path="group" field="groups" Details=${GroupDetails} create=${may("CreateGroup") && create} remove=${may("DeleteGroup")}
    intro="The policies of a group apply to all its members." columns=${[
      { name: "members", title: "Members", render: (g) => g.members.join(", ") }, { name: "policies", title: "Policies", render: (g) => g.policies.join(", ") }]} />`;
}

function GroupDetails({ of: group, reload }) {
  const users = useLoad((signal) => (may("ListUsers") ? call("GET", "user", { signal }) : Promise.resolve({ users: [] })), []);
  const member = (user, on) => attempt(() => call("POST", "group/member", { query: { group: group.name, user, member: String(on) } })).then(reload);
  const names = [...new Set([...group.members, ...(users.data?.users || []).map((u) => u.name)])].sort();
  return html`<p class="hint mono wrap">${group.arn}</p><${Attached} kind="group" name=${group.name} policies=${group.policies} reload=${reload} />
    <fieldset><legend>Members</legend><div class="row">${names.length ? names.map((u) => html`<${Check} key=${u} label=${u} disabled=${!may("UpdateMember")} checked=${group.members.includes(u)} onValue=${(on) => member(u, on)} />`) : html`<span class="muted">There are no users.</span>`}</div></fieldset>`;
}

export function Roles() {
  return html`<${Identities} title="Roles" path="role" field="roles" Details=${RoleDetails} create=${may("CreateRole") && ((p) => html`<${CreateRole} ...${p} />`)} remove=${may("DeleteRole")}
    intro="A program that assumes a role gets temporary credentials with the policies of the role." columns=${[
      { name: "description", title: "Description" }, { name: "policies", title: "Policies", render: (r) => r.policies.join(", ") }]} />`;
}

function CreateRole({ onClose, onDone }) {
  const users = useLoad((signal) => (may("ListUsers") ? call("GET", "user", { signal }) : Promise.resolve({ users: [] })), []);
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [user, setUser] = useState("");
  const create = useAction(async () => {
    await call("POST", "role", { query: { name, user, description } });
    onDone();
  });
  return html`<${Dialog} title="Create role" onClose=${onClose} onSubmit=${() => name && user && create.run()} footer=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${create.busy} disabled=${!name || !user}>Create role<//>`}>
    <${ErrorBox} error=${create.error} />
    <${Field} label="Name"><${Input} value=${name} onValue=${setName} autofocus /><//>
    <${Field} label="Who may assume it"><${Select} value=${user} onValue=${setUser} options=${[["", "Choose a user…"], ...(users.data?.users || []).map((u) => [u.name, u.name])]} /><//>
    <${Field} label="Description"><${Input} value=${description} onValue=${setDescription} /><//><//>`;
}

function RoleDetails({ of: role, reload }) {
  const [trust, setTrust] = useState(JSON.stringify(role.trust, null, 2));
  const save = useAction(async () => {
    await call("POST", "role/settings", { query: { name: role.name }, body: trust });
    reload();
  });
  return html`<p class="hint mono wrap">${role.arn}</p><${Attached} kind="role" name=${role.name} policies=${role.policies} reload=${reload} />
    <${PolicyEditor} label="Trust policy: who may assume the role" value=${trust} onValue=${setTrust} /><${ErrorBox} error=${save.error} />
    ${may("UpdateRole") && html`<div class="row"><${Button} kind="primary" busy=${save.busy} disabled=${Boolean(problemOf(trust))} onClick=${save.run}>Save trust policy<//></div>`}`;
}

export function Accounts() {
  const load = useLoad((signal) => call("GET", "account", { signal }), []);
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState(null);
  const act = async (a, method, path, query, done, question) => {
    if (question && !(await confirm(question))) return;
    await attempt(async () => {
      const result = await call(method, path, { query: { name: a.name, ...query } });
      if (result.secret_key) setMade({ ...result, name: a.name });
      load.reload();
    }, done);
  };
  const rotate = (a) => act(a, "POST", "account/rotate", { overlap: "24h" }, "", {
    title: `Rotate the root key of ${a.name}?`, body: "The root gets a new access key and secret. The old ones work for another 24 hours.", action: "Rotate" });
  const enable = (a) => act(a, "POST", "account/state", { enabled: "true" }, "The account is enabled.");
  const disable = (a) => act(a, "POST", "account/state", { enabled: "false" }, "The account is disabled.", {
    title: `Disable ${a.name}?`, body: "All users and programs of the account lose access until it is enabled again.", action: "Disable account", danger: true });
  const remove = (a) => act(a, "DELETE", "account", {}, "The account was deleted.", {
    title: `Delete ${a.name}?`, body: "Nothing may belong to it any longer: no buckets, users, policies or keys.", action: "Delete account", danger: true, typed: a.name });
  return html`<${Page} title="Accounts" actions=${may("CreateAccount") && html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create account<//>`}>
    <p class="muted">An account has its own buckets, users and policies. Its root may do everything in it, and nothing in other accounts.</p>
    <${Loaded} of=${load}>${({ accounts }) => html`<${Table} label="Accounts" rows=${accounts} rowKey=${(a) => a.id} columns=${[
      { name: "name", title: "Name", render: (a) => a.name || html`<em>default</em>` }, { name: "id", title: "ID", render: (a) => html`<span class="mono">${a.id}</span>` },
      { name: "state", title: "State", render: (a) => html`<${Badge} kind=${a.enabled ? "good" : "warn"}>${a.enabled ? "active" : "disabled"}<//>` },
      { name: "actions", narrow: true, render: (a) => !a.default && html`<${Menu} label=${`Actions for ${a.name}`} items=${[
        may("RotateAccountKey") && { label: "Rotate the root key…", onClick: () => rotate(a) },
        may("UpdateAccount") && { label: a.enabled ? "Disable…" : "Enable", onClick: () => (a.enabled ? disable(a) : enable(a)) },
        may("DeleteAccount") && { label: "Delete…", danger: true, onClick: () => remove(a) },
      ]} />` },
    ]} />`}<//>
    ${creating && html`<${NameDialog} title="Create account" action="Create account" onClose=${() => setCreating(false)}
      onSave=${async (name) => { setMade({ ...(await call("POST", "account", { query: { name } })), name }); load.reload(); }} />`}
    ${made && html`<${Dialog} title=${`The root of ${made.name}`} onClose=${() => setMade(null)}><${SecretBox} made=${made} /><//>`}
  <//>`;
}
