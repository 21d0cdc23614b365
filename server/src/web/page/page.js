// Renders the fleet from the API at /v1: a list of clusters and of decisions, then their changes as server-sent events. The
// nodes of expanded clusters are listed when their cluster changes.
// Text is set as textContent, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  if (options.class) node.className = options.class;
  if (options.text !== undefined) node.textContent = options.text;
  node.append(...children);
  return node;
}

// 64-bit integers are strings in JSON.
const dollars = (microUsd) => `$${(Number(microUsd) / 1e6).toFixed(4)}`;
const idOf = (name) => name.slice(name.lastIndexOf("/") + 1);
const stageOf = (node) => node.stage.replace("NODE_STAGE_", "").replace("_", " ").toLowerCase();

const STAGES = { ready: "good" };
const COLUMNS = [
  ["node", (node) => idOf(node.name)],
  // Next to the name, so that a narrow window shows it.
  ["stage", (node) => stageOf(node) + (node.removalReason ? `: ${node.removalReason}` : ""), (node) => STAGES[stageOf(node)] ?? "busy"],
  ["pool", (node) => node.pool],
  ["type", (node) => node.instanceType],
  ["zone", (node) => node.zone],
  ["capacity type", (node) => node.capacityType],
  ["$/hour", (node) => (node.nodeClaim ? dollars(node.priceMicroUsdPerHour) : ""), "number"],
  ["pods", (node) => node.podCount, "number"],
];

const number = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function nodeTable({ nodes, more }) {
  const kindOf = (kind, node) => (typeof kind === "function" ? node && kind(node) : kind);
  const head = element("tr", {}, ...COLUMNS.map(([name, , kind]) => element("th", { text: name, class: kindOf(kind) })));
  const rows = nodes.map((node) =>
    element("tr", {}, ...COLUMNS.map(([, read, kind]) => element("td", { text: read(node), class: kindOf(kind, node) }))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return more ? element("div", {}, table, element("p", { text: "more nodes are listed by `fleetwright fleet nodes`", class: "soft" })) : table;
}

// Guardrails in effect, most severe first.
function guardrails(held) {
  const waiting = held.waitingRemovals[0];
  const lines = [
    [held.quarantineReason, "bad", "Quarantine"],
    ...held.freezeReasons.map((freeze) => [freeze, "busy", "Frozen"]),
    [held.shadow ? "decisions are recorded and not executed" : null, "busy", "Shadow mode"],
    [held.disruptionShadow ? "voluntary removals are recorded and not executed" : null, "busy", "Disruption in shadow mode"],
    [held.circuitBreakerReason, "bad", "Circuit breaker"],
    [held.launchesBlockedReason, "busy", "Launches blocked"],
    [held.removalsBlockedReason, "busy", "Removals blocked"],
    [held.listingRejectedReason, "bad", "Listing suspicious"],
    [waiting ? `${number(held.waitingRemovalCount, "removal")}; ${waiting.reason} ${waiting.release}` : null, "bad", "Removals waiting"],
    [held.backoffPodCount ? `${held.backoffPodCount} pods: earlier launches did not bind them` : null, "busy", "Launch backoff"],
  ];
  return lines.filter(([text]) => text).map(([text, kind, title]) => element("p", { text: `${title}: ${text}`, class: kind }));
}

function stateOf(entry) {
  if (entry.stale) return [`no replica answers for it; as of ${new Date(entry.observeTime).toLocaleTimeString()}`, "bad"];
  if (!entry.connected) return ["agent disconnected", "bad"];
  return entry.synced ? ["connected", "good"] : ["syncing", "busy"];
}

function cluster(entry) {
  const [state, kind] = stateOf(entry);
  const card = element("article", { class: "cluster" });
  card.append(element("header", {},
    element("h3", { text: idOf(entry.name) }),
    element("span", { text: state, class: kind }),
    element("span", { text: number(entry.nodeCount, "node") }),
    element("span", { text: number(entry.podCount, "pod") }),
    element("span", { text: `${entry.pendingPodCount} pending`, class: entry.pendingPodCount ? "busy" : "soft" }),
    element("span", { text: `${dollars(entry.priceMicroUsdPerHour)} an hour` })));
  if (entry.blockedReason && entry.connected && entry.synced) card.append(element("p", { text: `Nothing is decided: ${entry.blockedReason}`, class: "bad" }));
  for (const problem of entry.problems.slice(0, 5)) card.append(element("p", { text: problem, class: "busy" }));
  for (const left of entry.unmanagedPools.slice(0, 5)) card.append(element("p", { text: `NodePool ${left.nodePool}: ${left.reason}`, class: "busy" }));
  if (entry.guardrails) card.append(...guardrails(entry.guardrails));
  if (entry.planning) {
    const left = entry.planning.leftPodCount ? `; ${entry.planning.leftPodCount} deferred to the next plan` : "";
    card.append(element("p", { text: `Planning ${entry.planning.podCount} pods${left}`, class: "soft" }));
  }
  if (entry.nodeCount + entry.machineCount) {
    const toggle = element("button", { text: open.has(entry.name) ? "hide nodes" : number(Math.max(entry.nodeCount, entry.machineCount), "node") });
    toggle.onclick = () => { open.has(entry.name) ? open.delete(entry.name) : open.add(entry.name); readNodes(entry.name).then(draw); };
    card.append(toggle);
  }
  if (open.has(entry.name) && nodes.has(entry.name)) card.append(nodeTable(nodes.get(entry.name)));
  return card;
}

function decision(entry) {
  const item = element("li", {},
    element("span", { text: new Date(entry.decideTime).toLocaleTimeString(), class: "when" }),
    ` ${entry.name.split("/")[1]}: ${entry.summary}`);
  if (entry.reasons.length) item.append(element("ul", {}, ...entry.reasons.slice(0, 20).map((text) => element("li", { text }))));
  return item;
}

const DECISIONS_SHOWN = 100;

// Resources by name. Names of expanded clusters, and their nodes.
const clusters = new Map();
const open = new Set();
const nodes = new Map();
let decisions = [];
let drawing = false;

async function json(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

async function readNodes(name) {
  if (!open.has(name)) return;
  const page = await json(`/v1/clusters/${encodeURIComponent(idOf(name))}/nodes?pageSize=1000`);
  nodes.set(name, { nodes: page.nodes, more: page.nextPageToken !== "" });
}

async function listAll(path, field) {
  const first = await json(path);
  const rows = first[field];
  for (let token = first.nextPageToken; token; ) {
    const page = await json(`${path}&pageToken=${encodeURIComponent(token)}`);
    rows.push(...page[field]);
    token = page.nextPageToken;
  }
  return [rows, first.resumeToken];
}

// At most one drawing a second.
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(drawNow);
  setTimeout(() => { drawing = false; if (changed) draw(); }, 1000);
}

let changed = false;

function drawNow() {
  changed = false;
  const shown = [...clusters.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
  const sum = (read) => shown.reduce((total, entry) => total + Number(read(entry)), 0);
  byId("fleet").textContent =
    `${number(shown.length, "cluster")}, ${number(sum((c) => c.nodeCount), "node")}, ${number(sum((c) => c.podCount), "pod")} ` +
    `(${sum((c) => c.pendingPodCount)} pending), ${dollars(sum((c) => c.priceMicroUsdPerHour))} an hour`;
  byId("clusters").replaceChildren(...shown.map(cluster));
  byId("decisions").replaceChildren(...decisions.map(decision));
}

function update() {
  changed = true;
  draw();
}

function connection(lost) {
  byId("link").hidden = !lost;
}

// Calls `change` with each message of a watch, until it ends.
function watch(path, change) {
  return new Promise((ended) => {
    const events = new EventSource(path);
    events.onmessage = (message) => change(JSON.parse(message.data));
    // The server's error, or a lost connection: both begin again with a list.
    events.onerror = () => { events.close(); ended(); };
  });
}

// Lists, then watches; again when the watch ends.
async function follow(list, watching) {
  for (;;) {
    try {
      const token = await list();
      connection(false);
      await watching(token);
    } catch {
      // The next list says whether the server answers.
    }
    connection(true);
    await new Promise((passed) => setTimeout(passed, 1000));
  }
}

async function listClusters() {
  const [rows, token] = await listAll("/v1/clusters?pageSize=1000", "clusters");
  if (clusters.size === 0 && rows.length <= 3) rows.forEach((entry) => open.add(entry.name));
  clusters.clear();
  rows.forEach((entry) => clusters.set(entry.name, entry));
  await Promise.all([...open].map(readNodes)).catch(() => {});
  update();
  return token;
}

const watchClusters = (token) => watch(`/v1/clusters:watch?minInterval=1s&resumeToken=${encodeURIComponent(token)}`, async (message) => {
  if (clusters.size === 0 && message.clusters.length <= 3) message.clusters.forEach((entry) => open.add(entry.name));
  message.clusters.forEach((entry) => clusters.set(entry.name, entry));
  message.deleted.forEach((name) => clusters.delete(name));
  await Promise.all(message.clusters.map((entry) => readNodes(entry.name))).catch(() => {});
  if (message.clusters.length || message.deleted.length) update();
});

const byTime = (one, other) => (one.decideTime < other.decideTime ? 1 : -1);

async function listDecisions() {
  const page = await json(`/v1/clusters/-/decisions?full=true&pageSize=${DECISIONS_SHOWN}`);
  decisions = page.decisions.sort(byTime);
  update();
  return page.resumeToken;
}

const watchDecisions = (token) => watch(`/v1/clusters/-/decisions:watch?minInterval=1s&resumeToken=${encodeURIComponent(token)}`, (message) => {
  if (message.decisions.length === 0) return;
  const known = new Set(message.decisions.map((entry) => entry.name));
  decisions = [...message.decisions, ...decisions.filter((entry) => !known.has(entry.name))].sort(byTime).slice(0, DECISIONS_SHOWN);
  update();
});

async function showServer() {
  const server = await json("/v1/serverInfo");
  byId("version").textContent = server.version;
  const lost = server.replicas.filter((replica) => !replica.reachable).map((replica) => `Replica ${replica.replica} does not answer: ${replica.reason}`);
  byId("notices").replaceChildren(...[...server.notices, ...lost].map((text) => element("p", { text, class: "bad" })));
}

const everyFiveSeconds = () => showServer().catch(() => {}).finally(() => setTimeout(everyFiveSeconds, 5000));
everyFiveSeconds();
follow(listClusters, watchClusters);
follow(listDecisions, watchDecisions);
