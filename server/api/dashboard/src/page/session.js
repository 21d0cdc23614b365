// Who is signed in, and the requests of the page. A request has the session's cookie, which the browser adds and scripts cannot
// read, and its key, which pages of other origins cannot read. The cookie alone authorizes nothing.

const TIMEOUT_MS = 10_000;

// Names in the browser's storage: the key, for all tabs; and that this tab has gone to the identity provider.
const KEY = "fleetwright-session-key";
const AWAY = "fleetwright-sign-in";

const SCOPES = ["read", "plan", "operate", "admin"];

async function failure(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text.trim() || `${response.status} ${response.statusText}`;
  }
}

export class Session {
  // As `/session` has it; null until it is read.
  status = null;
  error = null;
  #changed;

  constructor(changed) {
    this.#changed = changed;
    this.#returnFromProvider();
    this.#read();
  }

  // The identity provider sends the browser back with the key in the address. It is taken only where this tab has asked for it:
  // a link could have any key.
  #returnFromProvider() {
    const key = /^#session-key=([\w-]+)$/.exec(location.hash)?.[1];
    if (!key) return;
    if (sessionStorage.getItem(AWAY)) localStorage.setItem(KEY, key);
    sessionStorage.removeItem(AWAY);
    history.replaceState(null, "", location.pathname + location.search);
  }

  async #read() {
    try {
      const response = await this.fetch("/session");
      [this.status, this.error] = [await response.json(), null];
    } catch (error) {
      this.error = error.message;
      setTimeout(() => this.#read(), 2_000);
    }
    this.#changed();
  }

  // Fails with what the server says. A request that is not authorized leads to the sign-in.
  async fetch(path, { method = "GET", headers = {}, body, signal } = {}) {
    const all = { Accept: "application/json", "X-Fleetwright-Session-Key": localStorage.getItem(KEY) ?? "", ...headers };
    if (body) all["Content-Type"] = "application/json";
    const options = { method, headers: all, body: body && JSON.stringify(body), signal, redirect: "error", cache: "no-store" };
    const response = await fetch(path, options);
    if (response.status === 401 && path !== "/session" && this.status?.isAuthorized) {
      this.status = { ...this.status, isAuthorized: false };
      this.#read();
    }
    if (!response.ok && response.status !== 304) throw new Error(await failure(response));
    return response;
  }

  async json(path, options = {}) {
    const signal = AbortSignal.any([...(options.signals ?? []), AbortSignal.timeout(TIMEOUT_MS)]);
    return (await this.fetch(path, { ...options, signal })).json();
  }

  // The answer with its entity tag; null while it is the one with `tag`.
  async poll(path, tag, signal) {
    const headers = tag ? { "If-None-Match": tag } : {};
    const response = await this.fetch(path, { headers, signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]) });
    return response.status === 304 ? null : [await response.json(), response.headers.get("ETag")];
  }

  async signIn(token) {
    const { key, ...status } = await this.json("/session", { method: "POST", body: { token } });
    localStorage.setItem(KEY, key);
    this.status = { ...this.status, ...status };
    this.#changed();
  }

  goToProvider() {
    sessionStorage.setItem(AWAY, "yes");
    location.assign(`/session/oidc?path=${encodeURIComponent(location.pathname + location.search)}`);
  }

  async signOut() {
    try {
      await this.fetch("/session", { method: "DELETE" });
    } finally {
      // Without its key the session is of no use, also where the server does not answer.
      localStorage.removeItem(KEY);
      location.assign("/");
    }
  }

  // Whether the server would allow a request that needs this scope.
  may(scope) {
    return SCOPES.indexOf(this.status?.scope) >= SCOPES.indexOf(scope);
  }
}
