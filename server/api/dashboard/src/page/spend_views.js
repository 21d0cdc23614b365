// What the machines have cost over time, and what decisions have saved: for those who pay.

import { PARTS, percent } from "./cost_parts.js";
import { clusterOf, dollars, idOf, number, visible } from "./format.js";
import { html } from "./html.js";
import { clusterPath, Name, ReadAt, Wide } from "./parts.js";

const HOUR_MS = 3_600_000;

export const RANGES = {
  day: { title: "24 hours, by hour", hours: 24, period: "HOUR", ms: HOUR_MS },
  week: { title: "7 days, by hour", hours: 7 * 24, period: "HOUR", ms: HOUR_MS },
  month: { title: "30 days, by day", hours: 30 * 24, period: "DAY", ms: 24 * HOUR_MS },
};

// The server sums again at most every ten seconds, and costs are written every half hour.
const READ_EVERY_MS = 15_000;

// Groups with a colour of their own.
const GROUPS = 8;

const [WIDTH, HEIGHT] = [720, 160];

// Periods begin at whole hours and days (UTC). The same path in one hour, so that viewers share an answer.
function startOf({ hours, ms }) {
  return new Date(Math.floor((Date.now() - hours * HOUR_MS) / ms) * ms + ms).toISOString();
}

function timeOf(ms, { period }) {
  const at = new Date(ms);
  return period === "DAY" ? at.toISOString().slice(0, 10) : at.toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" });
}

// Bars of amounts: a bar for each period, from the first series up. The numbers are in the table below it.
function Plot({ label, periods, series, range }) {
  const total = (period) => series.reduce((sum, one) => sum + (one.amounts.get(period) ?? 0), 0);
  const most = Math.max(1, ...periods.map(total));
  const step = WIDTH / periods.length;
  const bars = periods.map((period, index) => {
    let y = HEIGHT;
    const rects = series.filter((one) => one.amounts.get(period) > 0).map((one) => {
      const height = (HEIGHT * one.amounts.get(period)) / most;
      y -= height;
      return html`<rect key=${one.name} class=${one.colour} x=${index * step} y=${y} width=${Math.max(step - 1, 1)} height=${height} />`;
    });
    return html`<g key=${period}><title>${timeOf(period, range)}: ${dollars(total(period))}</title>${rects}</g>`;
  });
  const each = range.period === "DAY" ? "a day" : "an hour";
  return html`<figure>
    <figcaption>${label}: at most ${dollars(most)} ${each}, from ${timeOf(periods[0], range)} to ${timeOf(periods.at(-1), range)}</figcaption>
    <svg class="plot" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${label} over time; the numbers are in the table`}>${bars}</svg>
    <${Wide} label=${label}><table>
      <thead><tr><th scope="col">Sum</th><th scope="col" class="number">$</th><th scope="col" class="number">Share</th></tr></thead>
      <tbody>${series.map((one) => html`<tr key=${one.name}>
        <td><svg width="12" height="12" aria-hidden="true"><rect class=${one.colour} width="12" height="12" /></svg> <${Name} text=${one.name} /></td>
        <td class="number">${dollars(one.sum)}</td><td class="number">${percent(one.sum, series.reduce((sum, other) => sum + other.sum, 0))}</td></tr>`)}</tbody>
    </table><//>
    <details><summary>${label}: the numbers of each ${range.period === "DAY" ? "day" : "hour"}</summary>
      <${Wide} label=${`${label}, numbers`}><table>
        <thead><tr><th scope="col">From</th>${series.map((one) => html`<th scope="col" class="number" key=${one.name}><${Name} text=${one.name} /></th>`)}</tr></thead>
        <tbody>${periods.map((period) => html`<tr key=${period}><td>${timeOf(period, range)}</td>
          ${series.map((one) => html`<td class="number" key=${one.name}>${dollars(one.amounts.get(period) ?? 0)}</td>`)}</tr>`)}</tbody>
      </table><//></details>
  </figure>`;
}

// Amounts of one series by period, from the sums of the API.
function seriesOf(name, colour, sums, amountOf) {
  const amounts = new Map();
  let whole = 0;
  for (const sum of sums) {
    const [at, amount] = [Date.parse(sum.startTime), Number(amountOf(sum))];
    amounts.set(at, (amounts.get(at) ?? 0) + amount);
    whole += amount;
  }
  return { name, colour, amounts, sum: whole };
}

function groupName(by, group, others) {
  if (!group) return others > 0 ? `${number(others, "other")}` : "all";
  if (by === "pool") return `${clusterOf(group)} / ${idOf(group)}`;
  return by === "cluster" ? idOf(group) : group;
}

function plotsOf(spend, by, title, range) {
  const [from, to] = [Date.parse(spend.startTime), Date.parse(spend.endTime)];
  const periods = [];
  for (let at = from; at < to; at += range.ms) periods.push(at);
  const causes = PARTS.map(([field, name], index) => seriesOf(name, `part part${index}`, spend.sums, (sum) => sum.breakdown[field]));
  const groups = [...new Set(spend.sums.map((sum) => sum.group))].map((group) => {
    const ofGroup = spend.sums.filter((sum) => sum.group === group);
    return seriesOf(groupName(by, group, spend.otherGroupCount), "", ofGroup, (sum) => sum.amountMicroUsd);
  });
  groups.sort((one, other) => other.sum - one.sum);
  groups.forEach((series, index) => { series.colour = `group group${Math.min(index, GROUPS)}`; });
  return html`
    <${Plot} label="What it was spent on" periods=${periods} series=${causes.filter((one) => one.sum > 0)} range=${range} />
    <${Plot} label=${`By ${title}`} periods=${periods} series=${groups} range=${range} />`;
}

export function Spend({ queries, parameters, setParameters, by, title }) {
  const name = RANGES[parameters.get("range")] ? parameters.get("range") : "day";
  const range = RANGES[name];
  const path = `/v1/clusters/-:computeSpend?period=SPEND_PERIOD_${range.period}&groupBy=COST_GROUP_${by.toUpperCase()}&maxGroups=${GROUPS}`;
  const query = queries.use(`${path}&startTime=${startOf(range)}`, READ_EVERY_MS);
  const spend = query.value;
  return html`<section><h2>Over time</h2>
    <${ReadAt} source=${query} />
    <p><label>Time <select value=${name} onChange=${(event) => setParameters({ range: event.target.value })}>
      ${Object.entries(RANGES).map(([id, { title: text }]) => html`<option key=${id} value=${id}>${text}</option>`)}</select></label></p>
    ${spend && spend.sums.length === 0 && html`<p>No machine has cost anything in this time. Costs are written every half hour.</p>`}
    ${spend?.sums.length > 0 && html`
      <p>${dollars(spend.amountMicroUsd)} for ${(Number(spend.machineSeconds) / 3_600).toFixed(1)} machine hours, ${percent(spend.breakdown.useful, spend.amountMicroUsd)} of it useful. Costs are written every half hour, so the last bar is not whole.</p>
      ${plotsOf(spend, by, title, range)}`}
    <p class="soft">For tools of finance: <code>${`fleetwright fleet focus --since ${range.hours}h > costs.csv`}</code></p>
  </section>`;
}

const STATES = { SAVING_STATE_PENDING: "pending", SAVING_STATE_REALISED: "realised", SAVING_STATE_OVERTAKEN: "overtaken" };

export function Savings({ queries }) {
  const query = queries.use("/v1/clusters/-:computeSavings?maxDecisions=20", READ_EVERY_MS);
  const savings = query.value;
  const realised = (of) => (of.state === "SAVING_STATE_PENDING" ? "" : dollars(of.realisedMicroUsd));
  return html`<section><h2>Savings</h2>
    <${ReadAt} source=${query} />
    <p>What decisions of the last 7 days were to save in the 24 hours after them, and what they have saved. A decision is overtaken if
      a machine that it launched has ended within this time. What later decisions bought for pods that it moved counts against it, by
      their share of these machines. Sums measure predictions, not what a month has saved: without one decision
      others would not have been made.</p>
    ${savings && savings.sums.length === 0 && html`<p>No decision has removed machines to save their price.</p>`}
    ${savings?.sums.length > 0 && html`<${Wide} label="Savings by state"><table>
      <thead><tr><th scope="col">State</th><th scope="col" class="number">Decisions</th><th scope="col" class="number">Predicted</th><th scope="col" class="number">Realised</th></tr></thead>
      <tbody>${savings.sums.map((sum) => html`<tr key=${sum.state}><td>${STATES[sum.state] ?? "unknown"}</td><td class="number">${sum.decisionCount}</td>
        <td class="number">${dollars(sum.predictedMicroUsd)}</td><td class="number">${realised(sum)}</td></tr>`)}</tbody></table><//>
      <${Wide} label="Decisions that miss their prediction most"><table>
      <thead><tr><th scope="col">Decision</th><th scope="col">Made</th><th scope="col">State</th><th scope="col" class="number">Removed</th>
        <th scope="col" class="number">Launched</th><th scope="col" class="number">Predicted</th><th scope="col" class="number">Bought later</th>
        <th scope="col" class="number">Realised</th></tr></thead>
      <tbody>${savings.savings.map((one) => html`<tr key=${one.decision}>
        <td><a href=${clusterPath(`clusters/${clusterOf(one.decision)}`)}><${Name} text=${`${clusterOf(one.decision)} / ${idOf(one.decision)}`} /></a></td>
        <td>${visible(new Date(one.decideTime).toLocaleString())}</td><td>${STATES[one.state] ?? "unknown"}</td>
        <td class="number">${one.removedCount}</td><td class="number">${one.launchedCount}</td>
        <td class="number">${dollars(one.predictedMicroUsd)}</td>
        <td class="number">${one.boughtLaterCount > 0 ? dollars(one.boughtLaterMicroUsd) : ""}</td>
        <td class="number">${realised(one)}</td></tr>`)}</tbody></table><//>`}
  </section>`;
}
