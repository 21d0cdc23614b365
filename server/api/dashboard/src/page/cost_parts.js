// What costs are spent on: pods that run, or a cause of waste.

import { dollars } from "./format.js";
import { html } from "./html.js";

// Parts of a price in the order in which they take their shares, with what ends the waste.
export const PARTS = [
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

const WIDTH = 240;

export const percent = (amount, whole) => (Number(whole) > 0 ? `${Math.round((100 * Number(amount)) / Number(whole))} %` : "");

// A bar of what a price is spent on, as long as its share of the longest price beside it. The table has the numbers.
export function CostBar({ breakdown, price, longest = price }) {
  let x = 0;
  const rects = PARTS.map(([field], index) => {
    const width = Number(price) > 0 ? (WIDTH * Number(breakdown[field])) / Number(price) : 0;
    x += width;
    return html`<rect key=${field} class=${`part part${index}`} x=${x - width} y="0" width=${width} height="14" />`;
  });
  const length = Number(longest) > 0 ? Math.max(2, (WIDTH * Number(price)) / Number(longest)) : WIDTH;
  const label = `${percent(breakdown.useful, price) || "nothing"} useful`;
  return html`<svg class="bar" preserveAspectRatio="none" viewBox=${`0 0 ${WIDTH} 14`} width=${length} height="14" role="img" aria-label=${label}>${rects}</svg>`;
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
