// Draws the fleet from server-sent events, which tell of no machines: those of a cluster are asked for while it is open. Text is
// set as text, never as markup.

const place = (id) => document.getElementById(id);

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.class) made.className = options.class;
  if (options.text !== undefined) made.textContent = options.text;
  made.append(...children);
  return made;
}

const STAGES = { "in service": "good", draining: "busy", terminating: "busy", finalising: "busy" };
const COLUMNS = [
  ["node", (m) => m.name],
  ["pool", (m) => m.pool],
  ["type", (m) => m.instanceType],
  ["zone", (m) => m.zone],
  ["paid as", (m) => m.capacityType],
  ["$/hour", (m) => m.usdPerHour, "number"],
  ["pods", (m) => m.pods, "number"],
  ["stage", (m) => m.stage + (m.leaves ? `: ${m.leaves}` : "")],
];

function machineTable(machines) {
  const head = element("tr", {}, ...COLUMNS.map(([name, , kind]) => element("th", { text: name, class: kind })));
  const rows = machines.map((machine) => {
    const cells = COLUMNS.map(([, read, kind]) => element("td", { text: read(machine), class: kind }));
    cells.at(-1).className = STAGES[machine.stage] ?? "busy";
    return element("tr", {}, ...cells);
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

// What the safety rails hold back, weightiest first.
function rails(held) {
  const lines = [
    [held.quarantine, "bad", "Quarantine"],
    ...held.freezes.map((freeze) => [freeze, "busy", "Frozen"]),
    [held.mode === "shadow" ? "decisions are written down and not carried out" : null, "busy", "Shadow mode"],
    [held.brake, "bad", "Brake"],
    [held.heldLaunches, "busy", "Launches wait"],
    [held.heldRemovals, "busy", "Removals wait"],
    [held.listingDoubted, "bad", "Listing doubted"],
    [held.waitingBecause, "bad", "Removals held"],
    [held.podsWaiting ? `${held.podsWaiting} pods wait because machines were launched for them in vain` : null, "busy", "Back-off"],
  ];
  return lines.filter(([text]) => text).map(([text, kind, title]) => element("p", { text: `${title}: ${text}`, class: kind }));
}

function cluster(entry) {
  const state = !entry.connected ? ["no agent is connected", "bad"] : entry.synced ? ["connected", "good"] : ["reading", "busy"];
  const card = element("article", { class: "cluster" });
  card.append(element("header", {},
    element("h3", { text: entry.name }),
    element("span", { text: state[0], class: state[1] }),
    element("span", { text: `${entry.nodes} nodes` }),
    element("span", { text: `${entry.pods} pods` }),
    element("span", { text: `${entry.pending} pending`, class: entry.pending ? "busy" : "soft" }),
    element("span", { text: `$${entry.usdPerHour} an hour` })));
  if (entry.refused) card.append(element("p", { text: `The last plan was refused: ${entry.refused}`, class: "bad" }));
  for (const problem of entry.problems.slice(0, 5)) card.append(element("p", { text: problem, class: "busy" }));
  for (const left of entry.leftPools.slice(0, 5)) card.append(element("p", { text: `NodePool ${left.name}: ${left.reason}`, class: "busy" }));
  card.append(...rails(entry.rails));
  if (entry.planning) {
    const left = entry.planning.left ? `; ${entry.planning.left} more are planned next` : "";
    card.append(element("p", { text: `A plan is being made for ${entry.planning.pods} pods${left}`, class: "soft" }));
  }
  if (entry.machineCount) {
    const toggle = element("button", { text: open.has(entry.name) ? "hide machines" : `${entry.machineCount} machines` });
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

// Names of clusters whose machines are shown, and those machines.
const open = new Set();
const machines = new Map();
let latest = null;

async function readMachines(name) {
  const answer = await fetch(`/api/clusters/${encodeURIComponent(name)}`);
  if (answer.ok) machines.set(name, (await answer.json()).machines);
}

async function show(fleet) {
  if (latest === null && fleet.clusters.length <= 3) fleet.clusters.forEach((entry) => open.add(entry.name));
  latest = fleet.clusters.length ? fleet : latest;
  await Promise.all([...open].map(readMachines)).catch(() => {});
  draw(fleet);
}

function draw(fleet) {
  const sum = (read) => fleet.clusters.reduce((total, entry) => total + read(entry), 0);
  place("fleet").textContent =
    `${fleet.clusters.length} clusters, ${sum((c) => c.nodes)} nodes, ${sum((c) => c.pods)} pods ` +
    `(${sum((c) => c.pending)} pending), $${fleet.usdPerHour} an hour`;
  place("clusters").replaceChildren(...fleet.clusters.map(cluster));
  place("decisions").replaceChildren(...fleet.decisions.map(decision));
}

const events = new EventSource("/api/fleet/events");
events.onmessage = (message) => { place("link").hidden = true; show(JSON.parse(message.data)); };
events.onerror = () => { place("link").hidden = false; };
