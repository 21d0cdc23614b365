// What the fleet costs, and what it is spent on: for those who pay.

import { CostBar, CostParts, percent } from "./cost_parts.js";
import { dollars, idOf, number, visible } from "./format.js";
import { html } from "./html.js";
import { clusterPath, Name, ReadAt, Wide } from "./parts.js";
import { Savings, Spend } from "./spend_views.js";

const GROUPS = { cluster: "Cluster", pool: "NodePool", capacity_type: "Capacity type", instance_type: "Instance type", zone: "Zone" };

function Group({ by, group }) {
  if (by === "cluster") return html`<a href=${clusterPath(group)}><${Name} text=${idOf(group)} /></a>`;
  if (by === "pool") return html`<a href=${clusterPath(group.split("/").slice(0, 2).join("/"))}><${Name} text=${`${group.split("/")[1]} / ${idOf(group)}`} /></a>`;
  return html`<${Name} text=${group || "not known"} />`;
}

export function CostView({ queries, parameters, setParameters }) {
  const by = GROUPS[parameters.get("by")] ? parameters.get("by") : "cluster";
  const query = queries.use(`/v1/clusters/-:computeCost?groupBy=COST_GROUP_${by.toUpperCase()}`);
  const cost = query.value;
  const longest = Math.max(0, ...(cost?.sums ?? []).map((sum) => Number(sum.priceMicroUsdPerHour)));
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
          <td>${sum.breakdown && html`<${CostBar} breakdown=${sum.breakdown} price=${sum.priceMicroUsdPerHour} longest=${longest} />`}</td></tr>`)}</tbody>
      </table><//>`}</section>
    <${Spend} queries=${queries} parameters=${parameters} setParameters=${setParameters} by=${by} title=${GROUPS[by]} />
    <${Savings} queries=${queries} />`;
}
