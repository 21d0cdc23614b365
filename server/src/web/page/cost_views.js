// What the fleet costs, and what it is spent on: for those who pay.

import { dollars, idOf, number, visible } from "./format.js";
import { html } from "./html.js";
import { clusterPath, Name, ReadAt, Wide } from "./parts.js";

// Parts of a price in the order in which they take their shares, with what ends the waste.
const PARTS = [
  ["useful", "Useful", "what pods request that run"],
  ["booting", "Booting", "launched machines whose nodes are not initialized"],
  ["draining", "Draining", "nodes that are drained, or decided to go"],
  ["hold", "Holds", "room that clients hold for pods to come"],
  ["daemonsets", "DaemonSets", "what pods of DaemonSets request"],
  ["fragmentation", "Fragmentation", "free room that no pod of the cluster fits into"],
  ["blocked", "Blocked", "free room of nodes that a PodDisruptionBudget, an annotation, a budget, consolidateAfter, a minimum, a freeze or a guardrail keeps"],
  ["noSavings", "No savings", "free room of nodes whose removal or replacement would save nothing"],
  ["unexplained", "Unexplained", "free room without a known cause"],
];

const GROUPS = { cluster: "Cluster", pool: "NodePool", capacity_type: "Capacity type", instance_type: "Instance type", zone: "Zone" };

const WIDTH = 240;

const percent = (amount, whole) => (Number(whole) > 0 ? `${Math.round((100 * Number(amount)) / Number(whole))} %` : "");

// A bar of what a price is spent on. The table beside it has the numbers.
export function CostBar({ breakdown, price }) {
  let x = 0;
  const rects = PARTS.map(([field], index) => {
    const width = Number(price) > 0 ? (WIDTH * Number(breakdown[field])) / Number(price) : 0;
    x += width;
    return html`<rect key=${field} class=${`part part${index}`} x=${x - width} y="0" width=${width} height="14" />`;
  });
  const label = `${percent(breakdown.useful, price) || "nothing"} useful`;
  return html`<svg class="bar" preserveAspectRatio="none" viewBox=${`0 0 ${WIDTH} 14`} width=${WIDTH} height="14" role="img" aria-label=${label}>${rects}</svg>`;
}

// Causes with what they take, without those that take nothing.
export function CostParts({ breakdown, price }) {
  const rows = PARTS.map((part, index) => [...part, index]).filter(([field]) => Number(breakdown[field]) !== 0);
  return html`<table class="parts"><thead><tr><th scope="col">Spent on</th><th scope="col" class="number">$/hour</th>
      <th scope="col" class="number">Share</th><th scope="col">Which is</th></tr></thead>
    <tbody>${rows.map(([field, title, what, index]) => html`<tr key=${field}>
      <td><svg width="12" height="12" aria-hidden="true"><rect class=${`part part${index}`} width="12" height="12" /></svg> ${title}</td>
      <td class="number">${dollars(breakdown[field])}</td><td class="number">${percent(breakdown[field], price)}</td>
      <td class="soft">${what}</td></tr>`)}</tbody></table>`;
}

function Group({ by, group }) {
  if (by === "cluster") return html`<a href=${clusterPath(group)}><${Name} text=${idOf(group)} /></a>`;
  if (by === "pool") return html`<a href=${clusterPath(group.split("/").slice(0, 2).join("/"))}><${Name} text=${`${group.split("/")[1]} / ${idOf(group)}`} /></a>`;
  return html`<${Name} text=${group || "not known"} />`;
}

export function CostView({ queries, parameters, setParameters }) {
  const by = GROUPS[parameters.get("by")] ? parameters.get("by") : "cluster";
  const query = queries.use(`/v1/cost?groupBy=COST_GROUP_${by.toUpperCase()}`);
  const cost = query.value;
  const waste = (sum) => Number(sum.priceMicroUsdPerHour) - Number(sum.breakdown?.useful ?? 0);
  return html`<h1>Cost</h1>
    <${ReadAt} source=${query} />
    ${cost && html`<p>${number(cost.machineCount, "machine")}, ${dollars(cost.priceMicroUsdPerHour)} an hour now, by the prices of the catalogue: no invoice.</p>`}
    ${cost?.unreachable.length > 0 && html`<p class="bad">Without the machines of ${number(cost.unreachable.length, "cluster")} that no replica answers for: ${visible(cost.unreachable.map(idOf).join(", "))}</p>`}
    ${cost?.breakdown && html`<section><h2>What it is spent on</h2>
      <${CostBar} breakdown=${cost.breakdown} price=${cost.priceMicroUsdPerHour} />
      <${Wide} label="What it is spent on"><${CostParts} breakdown=${cost.breakdown} price=${cost.priceMicroUsdPerHour} /><//></section>`}
    <section><h2>By</h2>
      <p><label>Sums by <select value=${by} onChange=${(event) => setParameters({ by: event.target.value })}>
        ${Object.entries(GROUPS).map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}</select></label></p>
      ${cost && cost.sums.length === 0 && html`<p>There are no machines.</p>`}
      ${cost?.sums.length > 0 && html`<${Wide} label="Sums"><table>
        <thead><tr><th scope="col">${GROUPS[by]}</th><th scope="col" class="number">Machines</th><th scope="col" class="number">$/hour</th>
          <th scope="col" class="number">Waste</th><th scope="col" class="number">Useful</th><th scope="col">Spent on</th></tr></thead>
        <tbody>${cost.sums.map((sum) => html`<tr key=${sum.group}>
          <td><${Group} by=${by} group=${sum.group} /></td><td class="number">${sum.machineCount}</td>
          <td class="number">${dollars(sum.priceMicroUsdPerHour)}</td><td class="number">${dollars(waste(sum))}</td>
          <td class="number">${percent(sum.breakdown?.useful ?? 0, sum.priceMicroUsdPerHour)}</td>
          <td>${sum.breakdown && html`<${CostBar} breakdown=${sum.breakdown} price=${sum.priceMicroUsdPerHour} />`}</td></tr>`)}</tbody>
      </table><//>`}</section>`;
}
