// Views of the whole fleet: problems, clusters, decisions, capacity.

import { capacityType, clock, clusterOf, dollars, idOf, number, visible, word } from "./format.js";
import { FreezeForm, Freezes } from "./freezes.js";
import { html } from "./html.js";
import { ClusterLink, Decisions, Name, Problems, ReadAt, Steady, Wide } from "./parts.js";

const PROBLEMS_SHOWN = 200;
const DECISIONS_SHOWN = 100;
const CLUSTERS_SHOWN = 100;

export function ProblemsView({ queries }) {
  return html`<h1>Problems</h1><${Problems} query=${queries.use(`/v1/problems?pageSize=${PROBLEMS_SHOWN}`)} />`;
}

export function DecisionsView({ queries }) {
  return html`<h1>Decisions</h1>
    <${Decisions} query=${queries.use(`/v1/clusters/-/decisions?view=DECISION_VIEW_FULL&pageSize=${DECISIONS_SHOWN}`)} />`;
}

// The state of a cluster, how bad it is, and its rank among others: the worst first.
function stateOf(row) {
  if (row.stale) return [`no server decides for it; as of ${clock(row.observeTime)}`, "bad", 0];
  if (!row.connected) return ["agent disconnected", "bad", 1];
  if (row.blockedReason) return [row.blockedReason, "busy", 2];
  return row.synced ? ["connected", "good", 4] : ["syncing", "busy", 3];
}

// Title, value by which rows are ordered, text of the cell, class. The order of a column begins with its greatest value.
const COLUMNS = {
  cluster: ["Cluster", (row) => row.name, (row) => html`<${ClusterLink} name=${row.name} />`, ""],
  state: ["State", (row) => -stateOf(row)[2], (row) => html`<span class=${stateOf(row)[1]}>${visible(stateOf(row)[0])}</span>`, ""],
  nodes: ["Nodes", (row) => row.nodeCount, (row) => row.nodeCount, "number"],
  pods: ["Pods", (row) => row.podCount, (row) => row.podCount, "number"],
  pending: ["Pending", (row) => row.pendingPodCount, (row) => row.pendingPodCount, "number"],
  price: ["$/hour", (row) => Number(row.priceMicroUsdPerHour), (row) => dollars(row.priceMicroUsdPerHour), "number"],
};

function ordered(rows, order) {
  const isReversed = order.startsWith("-");
  const [, key] = COLUMNS[isReversed ? order.slice(1) : order] ?? COLUMNS.cluster;
  const compare = (one, other) => (key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0);
  // Rows with equal values are in the order of their names.
  return rows.sort((one, other) => (isReversed ? compare(other, one) : compare(one, other)) || (one.name < other.name ? -1 : 1));
}

function Heading({ id, order, onOrder }) {
  const [title, , , kind] = COLUMNS[id];
  const [isUp, isDown] = [order === id, order === `-${id}`];
  // Names begin with the first, numbers with the greatest; a second press reverses the order.
  const [first, second] = id === "cluster" ? [id, `-${id}`] : [`-${id}`, id];
  const next = order === first ? second : first;
  const sort = isUp ? "ascending" : isDown ? "descending" : "none";
  return html`<th scope="col" class=${kind} aria-sort=${sort}>
    <button type="button" onClick=${() => onOrder(next)}>${title}${isUp ? " ▲" : isDown ? " ▼" : ""}</button></th>`;
}

export function ClustersView({ clusters, parameters, setParameters }) {
  const order = parameters.get("order") ?? "-pending";
  const wanted = parameters.get("find") ?? "";
  const all = [...clusters.rows.values()];
  const rows = ordered(all.filter((row) => idOf(row.name).includes(wanted)), order);
  const sum = (read) => all.reduce((total, row) => total + Number(read(row)), 0);
  const shown = rows.slice(0, CLUSTERS_SHOWN);
  return html`<h1>Clusters</h1>
    ${clusters.readAt && html`<p>
      ${number(all.length, "cluster")}, ${number(sum((row) => row.nodeCount), "node")},
      ${" "}${number(sum((row) => row.podCount), "pod")} (${sum((row) => row.pendingPodCount)} pending),
      ${" "}${dollars(sum((row) => row.priceMicroUsdPerHour))} an hour</p>`}
    <${ReadAt} source=${clusters} />
    <p><label>Find a cluster <input type="search" value=${wanted}
      onInput=${(event) => setParameters({ find: event.target.value, order })} /></label></p>
    <${Wide} label="Clusters"><table>
      <thead><tr>${Object.keys(COLUMNS).map((id) => html`<${Heading} key=${id} id=${id} order=${order}
        onOrder=${(next) => setParameters({ find: wanted, order: next })} />`)}</tr></thead>
      <${Steady} as="tbody" key=${`${order} ${wanted}`} rows=${shown} row=${(row) => html`<tr key=${row.name}>
        ${Object.entries(COLUMNS).map(([id, [, , cell, kind]]) => html`<td key=${id} class=${kind}>${cell(row)}</td>`)}</tr>`} />
    </table><//>
    ${rows.length > shown.length && html`<p class="soft">${rows.length - shown.length} more: find one by its name, or order them by another column.</p>`}
    ${clusters.readAt && rows.length === 0 && html`<p>${all.length ? "No cluster has such a name." : "No cluster yet: no agent has connected."}</p>`}`;
}

function Offerings({ query }) {
  const offerings = query.value?.offerings ?? [];
  return html`<${ReadAt} source=${query} />
    ${query.value && offerings.length === 0 && html`<p>No offering is excluded now.</p>`}
    ${offerings.length > 0 && html`<${Wide} label="Refused offerings"><table>
      <thead><tr>${["Type", "Zone", "Capacity", "Refusals", "Excluded until", "Reason"].map((title) =>
        html`<th scope="col" class=${title === "Refusals" ? "number" : ""}>${title}</th>`)}</tr></thead>
      <tbody>${offerings.map((offering) => html`<tr key=${offering.name}>
        <td><${Name} text=${offering.instanceType} /></td><td><${Name} text=${offering.zoneId} /></td>
        <td>${capacityType(offering.capacityType)}</td><td class="number">${offering.failureCount}</td>
        <td>${offering.excludeUntilTime ? clock(offering.excludeUntilTime) : ""}</td><td><${Name} text=${offering.reason} /></td></tr>`)}</tbody>
    </table><//>`}`;
}

function Holds({ query }) {
  const holds = (query.value?.holds ?? []);
  return html`<${ReadAt} source=${query} />
    ${query.value && holds.length === 0 && html`<p>No capacity is held.</p>`}
    <ol class="rows">${holds.map((hold) => html`<li key=${hold.name}>
      <strong>${word(hold.state, "HOLD_STATE_")}</strong>
      <span><${ClusterLink} name=${`clusters/${clusterOf(hold.name)}`} /></span>
      <span>${number(hold.nodes.length, "node")}, ${dollars(hold.priceMicroUsdPerHour)} an hour</span>
      <span class="why soft"><${Name} text=${`${idOf(hold.name)}, of ${hold.creator}. ${hold.message}`} /></span></li>`)}</ol>`;
}

// What limits the capacity of the fleet: freezes, offerings that the cloud refuses, and what clients hold.
export function CapacityView({ queries, session }) {
  const live = encodeURIComponent("state = HOLD_STATE_PENDING OR state = HOLD_STATE_ACTIVE OR state = HOLD_STATE_COMMITTED");
  return html`<h1>Capacity</h1>
    <section><h2>Freezes</h2><${Freezes} query=${queries.use("/v1/freezes?pageSize=1000")} session=${session} />
      <${FreezeForm} session=${session} target="" what="the whole fleet" /></section>
    <section><h2>Refused offerings</h2><${Offerings} query=${queries.use("/v1/offerings?pageSize=200&orderBy=refuse_time%20desc")} /></section>
    <section><h2>Holds</h2><${Holds} query=${queries.use(`/v1/clusters/-/holds?pageSize=200&filter=${live}`)} /></section>`;
}
