// The admin API, and the session with which the page uses it. All URLs are relative: a proxy may have added a base path.

const ADMIN = "../-/admin/";
const STORED = "orcas.session";

/** The session document of the server (see package gate/session), or null. */
export let session = null;

const listeners = new Set();

/** Calls fn whenever somebody signs in or out. Returns a function that stops that. */
export function onSession(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

function setSession(document) {
  session = document;
  listeners.forEach((fn) => fn());
}

/** An error response of the admin API. status is 0 if the server was not reached. */
class ApiError extends Error {
  constructor(status, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Returns the second token of the session. It is of no use without the cookie, which scripts cannot read. */
export function token() {
  return localStorage.getItem(STORED) || "";
}

/** Returns the headers that every request of the page has. */
export function headers(more = {}) {
  return { "X-Orcas-Session": token(), ...more };
}

/** Ends the session of the page, because the server no longer knows it. */
export function sessionEnded() {
  localStorage.removeItem(STORED);
  setSession(null);
}

/** Sends a request, and turns failures into an ApiError. */
async function send(url, options) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached. Check that it is running, and the network between you and it.");
  }
  if (response.ok) return response;
  let message = "";
  try {
    message = (await response.json()).error;
  } catch {
    message = `The server responded with status ${response.status}.`;
  }
  throw new ApiError(response.status, message, Number(response.headers.get("Retry-After") || 0));
}

function address(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query || {})) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of [].concat(value)) parameters.append(name, one);
  }
  const text = parameters.toString();
  return ADMIN + path + (text ? `?${text}` : "");
}

async function request(method, path, { query, body, signal } = {}) {
  const options = { method, headers: headers(), signal };
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers["Content-Type"] = typeof body === "string" ? "text/plain" : "application/json";
  }
  try {
    return await send(address(path, query), options);
  } catch (error) {
    if (error.status === 401) sessionEnded();
    throw error;
  }
}

/** Calls the admin API and returns the JSON document of the response. */
export async function call(method, path, options) {
  const response = await request(method, path, options);
  return response.json();
}

/** Yields the documents of a response that has one per line. Calls begun, if there is one, when the response has begun: from then
 * on, nothing is missed. */
export async function* lines(path, { begun, ...options } = {}) {
  const response = await request("GET", path, options);
  begun?.();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const parts = (rest + (value || "")).split("\n");
    rest = done ? "" : parts.pop();
    for (const line of parts) if (line.trim()) yield JSON.parse(line);
    if (done) return;
  }
}

/** Reports whether the user may perform an admin operation, by the name of its route. */
export function may(name) {
  return Boolean(session && session.allowed.includes(name));
}

/** Signs in with {access_key, secret_key, session_token} or {link}. */
export async function signIn(credentials) {
  const response = await send(`${ADMIN}session`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(credentials),
  });
  const document = await response.json();
  localStorage.setItem(STORED, document.token);
  delete document.token;
  setSession(document);
}

/** Continues the session of an earlier page, if there is one. */
export async function resume() {
  if (!token()) return;
  try {
    setSession(await call("GET", "session"));
  } catch (error) {
    if (error.status === 403) sessionEnded();
    else if (error.status !== 401) throw error;
  }
}

/** Ends the session or, with all, every session of the access key. */
export async function signOut(all) {
  try {
    await request("DELETE", "session", { query: { all: all ? "true" : "" } });
  } finally {
    sessionEnded();
  }
}

// Another tab has signed in or out.
window.addEventListener("storage", (event) => {
  if (event.key === STORED) window.location.reload();
});
