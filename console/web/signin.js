// Signing in, with an access key or with a one-time link.

import { html, useState, Button, Check, ErrorBox, Field, Input } from "./ui.js";
import { signIn } from "./api.js";

const LINK = /^#link=([A-Za-z0-9_-]+)$/;

/** Reports whether the address contains a link to sign in. */
export const hasLink = () => LINK.test(window.location.hash);

/** Signs in with the link in the address, if there is one, and removes it from the address and from the history. */
export async function takeLink() {
  const found = LINK.exec(window.location.hash);
  if (!found) return;
  window.history.replaceState(null, "", window.location.pathname);
  await signIn({ link: found[1] });
}

export function SignIn({ error: before }) {
  const [access, setAccess] = useState("");
  const [secret, setSecret] = useState("");
  const [temporary, setTemporary] = useState(false);
  const [token, setToken] = useState("");
  const [state, setState] = useState({ busy: false, error: before });
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await signIn({ access_key: access.trim(), secret_key: secret.trim(), session_token: temporary ? token.trim() : "" });
    } catch (error) {
      const wait = error.status === 429 ? new Error(`There were too many failed attempts from your address. Wait ${error.retryAfter || 10} seconds, and try again.`) : error;
      setState({ busy: false, error: wait });
    }
  };
  return html`<main class="sign-in"><form onSubmit=${submit} aria-labelledby="sign-in-title">
    <div class="brand"><img src="icon.svg" alt="" /><h1 id="sign-in-title">ORCAS</h1></div>
    <${ErrorBox} error=${state.error} />
    <${Field} label="Access key"><${Input} name="username" autocomplete="username" required autofocus value=${access} onValue=${setAccess} /><//>
    <${Field} label="Secret key"><${Input} type="password" name="password" autocomplete="current-password" required value=${secret} onValue=${setSecret} /><//>
    <${Check} label="Temporary credentials" checked=${temporary} onValue=${setTemporary} />
    ${temporary && html`<${Field} label="Session token"><${Input} value=${token} onValue=${setToken} /><//>`}
    <${Button} kind="primary" type="submit" busy=${state.busy}>Sign in<//>
    <p class="hint">The first start generates the root credentials and saves them in the data directory, in the file root-credentials.json.
      On the server's machine, <code>orcas admin login-link</code> prints a link with which you can sign in without typing them.</p>
  </form></main>`;
}
