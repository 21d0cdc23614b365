// What the page reads from the API: paths that are read again and again while a view shows them, and the clusters of the fleet
// with their changes. Browsers open few connections to one server, so that there is one stream for each page.

// The server sends a message at least every 15 seconds.
const SILENCE_MS = 45_000;

// Until the page is looked at: a tab in the background reads nothing.
async function seen() {
  while (document.hidden) await new Promise((passed) => document.addEventListener("visibilitychange", passed, { once: true }));
}

// A path that is read until it is stopped. What was read last stays when it cannot be read again, with its time and the error.
class Query {
  value = null;
  readAt = null;
  error = null;
  #tag = null;
  #stop = new AbortController();

  constructor(session, path, everyMs, changed) {
    this.#follow(session, path, everyMs, changed);
  }

  async #follow(session, path, everyMs, changed) {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const begun = performance.now();
      try {
        const value = await session.poll(path, this.#tag, signal);
        [this.readAt, this.error] = [new Date(), null];
        if (value) [this.value, this.#tag] = value;
      } catch (error) {
        this.error = error.message;
      }
      if (signal.aborted) return;
      changed();
      // From one request to the next: the time of a slow answer does not add to the age of what is shown. A server that is
      // slower than that still gets a rest.
      const rest = Math.max(everyMs - (performance.now() - begun), everyMs / 2);
      await new Promise((passed) => setTimeout(passed, rest));
      await seen();
    }
  }

  stop() {
    this.#stop.abort();
  }
}

// The queries of the view that is shown.
export class Queries {
  #running = new Map();
  #used = new Set();
  #session;
  #changed;

  constructor(session, changed) {
    [this.#session, this.#changed] = [session, changed];
  }

  // What a path has, as it was read last. Each drawing uses the paths that it shows.
  use(path, everyMs = 500) {
    this.#used.add(path);
    if (!this.#running.has(path)) this.#running.set(path, new Query(this.#session, path, everyMs, this.#changed));
    return this.#running.get(path);
  }

  // Stops those that the last drawing did not use.
  stopUnused() {
    for (const [path, query] of this.#running) {
      if (this.#used.has(path)) continue;
      query.stop();
      this.#running.delete(path);
    }
    this.#used.clear();
  }
}

const CLUSTER_FIELDS = ["name", "stale", "observe_time", "connected", "synced", "node_count", "machine_count", "pod_count",
  "pending_pod_count", "price_micro_usd_per_hour", "blocked_reason"];
const masked = (fields) => `$fields=${[...CLUSTER_FIELDS.map((field) => `clusters.${field}`), ...fields].join(",")}`;

// The clusters of the fleet by name: a list, and its changes. Both begin again when the stream ends.
export class Clusters {
  rows = new Map();
  readAt = null;
  error = null;
  #session;
  #changed;

  constructor(session, changed) {
    [this.#session, this.#changed] = [session, changed];
    this.#follow();
  }

  async #follow() {
    for (;;) {
      try {
        await this.#watch(await this.#list());
        this.error = "the connection is lost";
      } catch (error) {
        this.error = error.message;
      }
      this.#changed();
      do await new Promise((passed) => setTimeout(passed, 1_000)); while (!this.#session.status.isAuthorized);
    }
  }

  async #list() {
    const rows = new Map();
    let [token, pageToken] = ["", ""];
    do {
      const page = await this.#session.json(
        `/v1/clusters?pageSize=1000&pageToken=${encodeURIComponent(pageToken)}&${masked(["next_page_token", "resume_token"])}`);
      page.clusters.forEach((row) => rows.set(row.name, row));
      token ||= page.resumeToken;
      pageToken = page.nextPageToken;
    } while (pageToken);
    this.#set(rows);
    return token;
  }

  #set(rows) {
    [this.rows, this.readAt, this.error] = [rows, new Date(), null];
    this.#changed();
  }

  // Until the stream ends. Lines instead of server-sent events: an EventSource cannot send the session's key.
  async #watch(token) {
    const path = `/v1/clusters:watch?minInterval=0.5s&resumeToken=${encodeURIComponent(token)}&${masked(["deleted", "resume_token"])}`;
    const stop = new AbortController();
    let silence = setTimeout(() => stop.abort(), SILENCE_MS);
    try {
      const response = await this.#session.fetch(path, { signal: stop.signal });
      for await (const { result, error } of lines(response)) {
        clearTimeout(silence);
        silence = setTimeout(() => stop.abort(), SILENCE_MS);
        if (error) throw new Error(error.message);
        result.clusters.forEach((row) => this.rows.set(row.name, row));
        result.deleted.forEach((name) => this.rows.delete(name));
        this.#set(this.rows);
      }
    } finally {
      clearTimeout(silence);
      stop.abort();
    }
  }
}

// The JSON of each line of a response, as it comes.
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const line of parts) yield JSON.parse(line);
  }
}
