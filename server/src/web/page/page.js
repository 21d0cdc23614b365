// Renders the fleet from server-sent events. These contain no instances; the instances of expanded clusters are fetched.
// Text is set as textContent, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  if (options.class) node.className = options.class;
  if (options.text !== undefined) node.textContent = options.text;
  node.append(...children);
  return node;
}

const STAGES = { initialized: "good", draining: "busy", terminating: "busy", deleting: "busy" };
const COLUMNS = [
  ["node", (m) => m.name],
  // Next to the name, so that a narrow window shows it.
  ["stage", (m) => m.stage + (m.leaves ? `: ${m.leaves}` : ""), (m) => STAGES[m.stage] ?? "busy"],
  ["pool", (m) => m.pool],
  ["type", (m) => m.instanceType],
  ["zone", (m) => m.zone],
  ["capacity type", (m) => m.capacityType],
  ["$/hour", (m) => m.usdPerHour, "number"],
  ["pods", (m) => m.pods, "number"],
];

const number = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function machineTable(machines) {
  const kindOf = (kind, machine) => (typeof kind === "function" ? machine && kind(machine) : kind);
  const head = element("tr", {}, ...COLUMNS.map(([name, , kind]) => element("th", { text: name, class: kindOf(kind) })));
  const rows = machines.map((machine) =>
    element("tr", {}, ...COLUMNS.map(([, read, kind]) => element("td", { text: read(machine), class: kindOf(kind, machine) }))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

// Guardrails in effect, most severe first.
function guardrails(held) {
  const lines = [
    [held.quarantine, "bad", "Quarantine"],
    ...held.freezes.map((freeze) => [freeze, "busy", "Frozen"]),
    [held.mode === "shadow" ? "decisions are recorded and not executed" : null, "busy", "Shadow mode"],
    [held.disruptionMode === "shadow" ? "voluntary removals are recorded and not executed" : null, "busy", "Disruption in shadow mode"],
    [held.circuitBreaker, "bad", "Circuit breaker"],
    [held.heldLaunches, "busy", "Launches held"],
    [held.heldRemovals, "busy", "Removals held"],
    [held.listingDoubted, "bad", "Listing suspicious"],
    [held.waitingBecause, "bad", "Removals waiting"],
    [held.podsWaiting ? `${held.podsWaiting} pods in launch backoff: earlier launches did not bind them` : null, "busy", "Launch backoff"],
  ];
  return lines.filter(([text]) => text).map(([text, kind, title]) => element("p", { text: `${title}: ${text}`, class: kind }));
}

function cluster(entry) {
  const state = !entry.connected ? ["agent disconnected", "bad"] : entry.synced ? ["connected", "good"] : ["syncing", "busy"];
  const card = element("article", { class: "cluster" });
  card.append(element("header", {},
    element("h3", { text: entry.name }),
    element("span", { text: state[0], class: state[1] }),
    element("span", { text: number(entry.nodes, "node") }),
    element("span", { text: number(entry.pods, "pod") }),
    element("span", { text: `${entry.pending} pending`, class: entry.pending ? "busy" : "soft" }),
    element("span", { text: `$${entry.usdPerHour} an hour` })));
  if (entry.refused) card.append(element("p", { text: `Last plan rejected: ${entry.refused}`, class: "bad" }));
  for (const problem of entry.problems.slice(0, 5)) card.append(element("p", { text: problem, class: "busy" }));
  for (const left of entry.leftPools.slice(0, 5)) card.append(element("p", { text: `NodePool ${left.name}: ${left.reason}`, class: "busy" }));
  card.append(...guardrails(entry.guardrails));
  if (entry.planning) {
    const left = entry.planning.left ? `; ${entry.planning.left} deferred to the next plan` : "";
    card.append(element("p", { text: `Planning ${entry.planning.pods} pods${left}`, class: "soft" }));
  }
  if (entry.machineCount) {
    const toggle = element("button", { text: open.has(entry.name) ? "hide machines" : number(entry.machineCount, "machine") });
    toggle.onclick = () => { open.has(entry.name) ? open.delete(entry.name) : open.add(entry.name); draw(latest); };
    card.append(toggle);
  }
  if (open.has(entry.name) && machines.has(entry.name)) card.append(machineTable(machines.get(entry.name)));
  return card;
}

function decision(entry) {
  const item = element("li", {},
    element("span", { text: new Date(entry.atMs).toLocaleTimeString(), class: "when" }),
    ` ${entry.cluster}: ${entry.summary}`);
  const details = [...entry.reasons, ...entry.notes];
  if (details.length) item.append(element("ul", {}, ...details.map((text) => element("li", { text }))));
  return item;
}

// Names of clusters whose instances are expanded, and those instances.
const open = new Set();
const machines = new Map();
let latest = null;

async function readMachines(name) {
  const response = await fetch(`/api/clusters/${encodeURIComponent(name)}`);
  if (response.ok) machines.set(name, (await response.json()).machines);
}

async function show(fleet) {
  if (latest === null && fleet.clusters.length <= 3) fleet.clusters.forEach((entry) => open.add(entry.name));
  latest = fleet.clusters.length ? fleet : latest;
  await Promise.all([...open].map(readMachines)).catch(() => {});
  draw(fleet);
}

function draw(fleet) {
  const sum = (read) => fleet.clusters.reduce((total, entry) => total + read(entry), 0);
  byId("version").textContent = fleet.version;
  byId("fleet").textContent =
    `${number(fleet.clusters.length, "cluster")}, ${number(sum((c) => c.nodes), "node")}, ${number(sum((c) => c.pods), "pod")} ` +
    `(${sum((c) => c.pending)} pending), $${fleet.usdPerHour} an hour`;
  byId("notices").replaceChildren(...fleet.notices.map((text) => element("p", { text, class: "bad" })));
  byId("clusters").replaceChildren(...fleet.clusters.map(cluster));
  byId("decisions").replaceChildren(...fleet.decisions.map(decision));
}

const events = new EventSource("/api/fleet/events");
events.onmessage = (message) => { byId("link").hidden = true; show(JSON.parse(message.data)); };
events.onerror = () => { byId("link").hidden = false; };
