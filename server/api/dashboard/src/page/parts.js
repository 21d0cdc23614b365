// Parts that several views have.

import { age, clock, dollars, idOf, moment, number, until, visible } from "./format.js";
import { Component, html } from "./html.js";

// A stream without changes has a message every 15 seconds.
const STALE_MS = 20_000;

// When what is shown was read. An error, and rows that were not read for long, are said.
export function ReadAt({ source }) {
  const { readAt, error } = source;
  if (!readAt && !error) return html`<p class="soft" role="status">reading…</p>`;
  if (!readAt) return html`<p class="bad" role="status">It cannot be read: ${visible(error)}</p>`;
  const isOld = Date.now() - readAt > STALE_MS;
  const problem = error ? `. It cannot be read now: ${visible(error)}` : "";
  return html`<p class=${error || isOld ? "bad" : "soft"}>as of ${clock(readAt)}${isOld ? `, ${age(readAt)} old` : ""}${problem}</p>`;
}

// Rows by name in an element of their own. They keep their order while one of them is pointed at or focused: nothing moves under
// a reader. New rows come last then, and values change.
export class Steady extends Component {
  #order = [];
  #isPointed = false;
  #isFocused = false;

  #hold(isPointed, isFocused) {
    const wasHeld = this.#isPointed || this.#isFocused;
    [this.#isPointed, this.#isFocused] = [isPointed, isFocused];
    if (wasHeld && !isPointed && !isFocused) this.forceUpdate();
  }

  #held(rows) {
    const byName = new Map(rows.map((row) => [row.name, row]));
    const known = new Set(this.#order);
    return [...this.#order.filter((name) => byName.has(name)).map((name) => byName.get(name)), ...rows.filter((row) => !known.has(row.name))];
  }

  render({ as: Tag, rows, row: draw, ...attributes }) {
    const shown = this.#isPointed || this.#isFocused ? this.#held(rows) : rows;
    this.#order = shown.map((row) => row.name);
    return html`<${Tag} ...${attributes}
      onMouseEnter=${() => this.#hold(true, this.#isFocused)} onMouseLeave=${() => this.#hold(false, this.#isFocused)}
      onFocusIn=${() => this.#hold(this.#isPointed, true)} onFocusOut=${() => this.#hold(this.#isPointed, false)}
      >${shown.map(draw)}<//>`;
  }
}

// A part that is wider than a phone, and moved by keyboard too.
export const Wide = ({ label, children }) => html`<div class="wide" role="region" aria-label=${label} tabindex="0">${children}</div>`;

export const Name = ({ text }) => html`<bdi>${visible(text)}</bdi>`;

export const clusterPath = (name) => `/clusters/${encodeURIComponent(idOf(name))}`;

export const ClusterLink = ({ name }) => html`<a href=${clusterPath(name)}><${Name} text=${idOf(name)} /></a>`;

const SEVERITIES = {
  SEVERITY_CRITICAL: ["critical", "bad"],
  SEVERITY_WARNING: ["warning", "busy"],
  SEVERITY_INFO: ["info", "soft"],
};

function Problem({ problem, isOfCluster }) {
  const [severity, kind] = SEVERITIES[problem.severity] ?? ["unknown", "soft"];
  const [, cluster, collection, id] = problem.resource.split("/");
  const resource = cluster ? html`<${ClusterLink} name=${`clusters/${cluster}`} />` : "fleet";
  return html`<li>
    <strong class=${kind}>${severity}</strong>
    ${!isOfCluster && html`<span>${resource}</span>`}
    ${collection && html`<span><${Name} text=${id} /></span>`}
    <span>${problem.count ? `${problem.count} ` : ""}${visible(problem.summary)}</span>
    ${problem.startTime && html`<span class="soft">for ${age(problem.startTime)}</span>`}
    ${problem.endTime && html`<span class="soft">ends in ${until(problem.endTime)}, <time datetime=${problem.endTime}>${moment(problem.endTime)}</time></span>`}
    ${Number(problem.priceMicroUsdPerHour) > 0 && html`<span class="soft">costs ${dollars(problem.priceMicroUsdPerHour)} an hour</span>`}
    ${problem.reason && html`<span class="why soft"><${Name} text=${problem.reason} /></span>`}
    ${problem.consequence && html`<span class="why">${visible(problem.consequence)}</span>`}
    ${problem.setting && html`<span class="why soft">${visible(problem.setting)} allows more</span>`}
    ${problem.effects.length > 0 && html`<ul class="why">${problem.effects.map((effect) => html`<li><${Name} text=${effect} /></li>`)}</ul>`}
    ${problem.command && html`<code>${visible(problem.command)}</code>`}
  </li>`;
}

// Problems, worst first. "Nothing is wrong" is said only of what was read, and not of a fleet without clusters.
export function Problems({ query, isOfCluster = false }) {
  const page = query.value;
  if (!page) return html`<${ReadAt} source=${query} />`;
  const worse = page.problems.filter((problem) => problem.severity !== "SEVERITY_INFO").length;
  const missing = page.unreachable.length;
  const isEmpty = page.problems.some((problem) => problem.code === "NoCluster");
  const nothing = isEmpty ? "No cluster yet" : "Nothing is wrong";
  return html`
    <p class=${worse || missing ? "bad" : isEmpty ? "busy" : "good"} role="status">
      ${worse ? number(worse, "problem") : nothing}${missing ? `, but ${number(missing, "cluster")} cannot be asked` : ""}${page.nextPageToken ? ", and more than are shown: fleetwright fleet problems" : ""}
    </p>
    <${ReadAt} source=${query} />
    <${Steady} as="ol" class="rows" rows=${page.problems}
      row=${(problem) => html`<${Problem} key=${problem.name} problem=${problem} isOfCluster=${isOfCluster} />`} />`;
}

// Decisions, latest first, with their reasons.
export function Decisions({ query, isOfCluster = false }) {
  const decisions = query.value?.decisions ?? [];
  return html`
    <${ReadAt} source=${query} />
    ${query.value && decisions.length === 0 && html`<p>Nothing was decided yet.</p>`}
    <ol class="rows">${decisions.map((decision) => html`<li key=${decision.name}>
      <time class="soft" datetime=${decision.decideTime}>${new Date(decision.decideTime).toLocaleString()}</time>
      ${!isOfCluster && html`<span><${ClusterLink} name=${decision.name.split("/").slice(0, 2).join("/")} /></span>`}
      <span><${Name} text=${decision.summary} /></span>
      ${decision.reasons.length > 0 && html`<details class="why"><summary>why (decision ${decision.number})</summary>
        <ul>${decision.reasons.slice(0, 50).map((reason) => html`<li><${Name} text=${reason} /></li>`)}</ul></details>`}
    </li>`)}</ol>`;
}
