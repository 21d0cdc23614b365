// Views of a cluster and of a node of it, for those who own them.

import { age, capacityType, dollars, idOf, number, visible, word } from "./format.js";
import { CostBar, CostParts } from "./cost_parts.js";
import { FreezeForm } from "./freezes.js";
import { html } from "./html.js";
import { clusterPath, Decisions, Name, Problems, ReadAt, Wide } from "./parts.js";

const NODES_SHOWN = 500;
const BOX = 120;

const shareOf = (requested, allocatable) => (Number(allocatable) > 0 ? Number(requested) / Number(allocatable) : null);

// The greatest requested share of a resource.
function shareOfRequests(node) {
  const shares = [shareOf(node.cpuRequestedMillis, node.cpuAllocatableMillis), shareOf(node.memoryRequestedBytes, node.memoryAllocatableBytes)];
  return shares.includes(null) ? null : Math.min(1, Math.max(...shares));
}

const wasteOf = (node) => Number(node.priceMicroUsdPerHour) - Number(node.cost?.useful ?? 0);

const nodePath = (node) => `${clusterPath(node.name.split("/").slice(0, 2).join("/"))}/nodes/${encodeURIComponent(idOf(node.name))}`;

// A node as a box that is filled by what its pods request.
function NodeBox({ node }) {
  const share = shareOfRequests(node);
  const stage = word(node.stage, "NODE_STAGE_");
  const kind = stage === "ready" ? "good" : stage === "not ready" ? "bad" : "busy";
  const percent = share === null ? "no share known" : `${Math.round(share * 100)} % requested`;
  return html`<li class="node"><a href=${nodePath(node)}>
    ${node.cost && Number(node.priceMicroUsdPerHour) > 0
      ? html`<${CostBar} breakdown=${node.cost} price=${node.priceMicroUsdPerHour} />`
      : html`<svg viewBox="0 0 ${BOX} 14" width=${BOX} height="14" role="img" aria-label=${percent}>
        <rect class="box" x="0.5" y="0.5" width=${BOX - 1} height="13" />
        <rect class="fill" x="0.5" y="0.5" width=${(BOX - 1) * (share ?? 0)} height="13" />
      </svg>`}
    <span><${Name} text=${node.node || idOf(node.name)} /></span></a>
    <span class=${kind}>${stage}</span>
    <span class="soft">${visible(node.instanceType)}, ${visible(node.zone)}, ${capacityType(node.capacityType)}</span>
    <span>${number(node.podCount, "pod")}, ${percent}</span>
    ${node.nodeClaim
      ? html`<span>${dollars(node.priceMicroUsdPerHour)} an hour, ${dollars(wasteOf(node))} of it wasted</span>`
      : html`<span class="soft">of another manager</span>`}
    ${node.removalReason && html`<span class="busy">leaves: <${Name} text=${node.removalReason} /></span>`}
    ${node.drainBlockedReason && html`<span class="bad">its drain waits: <${Name} text=${node.drainBlockedReason} /></span>`}
  </li>`;
}

// What a NodePool uses of its limits and budgets, and what of it has drifted.
function poolFacts(pool) {
  const limits = pool.resources.filter((one) => one.limit).map((one) => `${one.resource} ${one.usage} of ${one.limit}`);
  const budgets = pool.disruptionAllowances.map((one) => `${word(one.reason, "DISRUPTION_REASON_")} ${one.nodeCount}`);
  return visible([
    limits.length ? `limits: ${limits.join(", ")}` : "no limits",
    `${number(pool.disruptedNodeCount, "node")} disrupted${budgets.length ? `, budgets allow ${budgets.join(", ")}` : ""}`,
    `${pool.driftedNodeCount} drifted`,
  ].join("; "));
}

function Nodes({ query, pools }) {
  const nodes = query.value?.nodes ?? [];
  const groups = Map.groupBy(nodes, (node) => node.pool);
  const known = new Map((pools.value?.pools ?? []).map((pool) => [idOf(pool.name), pool]));
  const names = [...new Set([...known.keys(), ...groups.keys()])].sort();
  return html`<${ReadAt} source=${query} />
    ${query.value && nodes.length === 0 && html`<p>It has no nodes.</p>`}
    ${query.value?.nextPageToken && html`<p class="busy">More than ${NODES_SHOWN} nodes: the rest are listed by <code>fleetwright fleet nodes</code></p>`}
    ${names.map((name) => {
      const [pool, own] = [known.get(name), groups.get(name) ?? []];
      return html`<section key=${name}>
        <h3>${name ? html`NodePool <${Name} text=${name} />` : "Without a NodePool"}</h3>
        <p class="soft">${number(own.length, "node")}${pool ? `, ${dollars(pool.priceMicroUsdPerHour)} an hour, weight ${pool.weight}` : ""}</p>
        ${pool && html`<p class="soft">${poolFacts(pool)}</p>`}
        ${pool?.notReadyReason && html`<p class="bad">Nothing is launched from it${pool.notReadyTime ? ` for ${age(pool.notReadyTime)}` : ""}: <${Name} text=${pool.notReadyReason} /></p>`}
        <ul class="nodes">${own.map((node) => html`<${NodeBox} key=${node.name} node=${node} />`)}</ul></section>`;
    })}`;
}

function Pods({ query }) {
  const pods = query.value?.pods ?? [];
  return html`<${ReadAt} source=${query} />
    ${query.value && pods.length === 0 && html`<p>No pod waits for a node.</p>`}
    <ol class="rows">${pods.map((pod) => {
      const [, , , namespace, , name] = pod.name.split("/");
      return html`<li key=${pod.name}>
        <strong><${Name} text=${`${namespace}/${name}`} /></strong>
        <span class=${pod.state === "POD_STATE_UNSCHEDULABLE" ? "bad" : "busy"}>${word(pod.state, "POD_STATE_")}</span>
        ${pod.createTime && html`<span class="soft">for ${age(pod.createTime)}</span>`}
        ${pod.plannedNode && html`<span>on <${Name} text=${pod.plannedNode} /></span>`}
        ${pod.reasons.length > 0 && html`<span class="why soft"><${Name} text=${pod.reasons.map((reason) => reason.message).join("; ")} /></span>`}</li>`;
    })}</ol>`;
}

export function ClusterView({ queries, session, ids: [cluster] }) {
  const path = `/v1/clusters/${encodeURIComponent(cluster)}`;
  const pools = queries.use(`${path}/pools?pageSize=1000`);
  return html`<h1>Cluster <${Name} text=${cluster} /></h1>
    <section><h2>Problems</h2><${Problems} query=${queries.use(`${path}/problems?pageSize=100`)} isOfCluster=${true} />
      <${FreezeForm} session=${session} target=${`clusters/${cluster}`} what="the cluster" /></section>
    <section><h2>Pods that wait</h2><${Pods} query=${queries.use(`${path}/namespaces/-/pods?pageSize=100&orderBy=create_time`)} /></section>
    <section><h2>Nodes</h2><${Nodes} query=${queries.use(`${path}/nodes?pageSize=${NODES_SHOWN}`)} pools=${pools} /></section>
    <section><h2>Decisions</h2><${Decisions} query=${queries.use(`${path}/decisions?view=DECISION_VIEW_FULL&pageSize=50`)} isOfCluster=${true} /></section>`;
}

export function NodeView({ queries, ids: [cluster, node] }) {
  const name = `clusters/${encodeURIComponent(cluster)}/nodes/${encodeURIComponent(node)}`;
  const [row, why] = [queries.use(`/v1/${name}`), queries.use(`/v1/${name}:explain`, 5_000)];
  return html`<h1>Node <${Name} text=${node} /></h1>
    <p>of <a href=${clusterPath(`clusters/${cluster}`)}>cluster <${Name} text=${cluster} /></a></p>
    <${ReadAt} source=${row} />
    ${row.value && html`<ul class="nodes"><${NodeBox} node=${row.value} /></ul>`}
    ${row.value?.cost && html`<section><h2>What its price is spent on</h2><${Wide} label="What its price is spent on">
      <${CostParts} breakdown=${row.value.cost} price=${row.value.priceMicroUsdPerHour} /><//></section>`}
    <section><h2>Why it is there</h2><${Explanation} query=${why} /></section>`;
}

function Verdict({ verdict }) {
  const isHeld = verdict.blocks.length > 0;
  return html`<li>
    <strong>${word(verdict.reason, "DISRUPTION_REASON_")}</strong> <span><${Name} text=${verdict.evidence} /></span>
    ${!isHeld && html`<span class="busy">it may go now</span>`}
    ${isHeld && html`<ul class="why">${verdict.blocks.map((block) => html`<li>
      ${visible(block.code)}: <${Name} text=${block.message} />${block.remedy && html` <span class="soft">(<${Name} text=${block.remedy} />)</span>`}</li>`)}</ul>`}
  </li>`;
}

function NodePods({ pods }) {
  return html`<${Wide} label="Pods on it"><table>
    <thead><tr>${["Pod", "Of", "CPU", "Memory"].map((title) =>
      html`<th scope="col" class=${["CPU", "Memory"].includes(title) ? "number" : ""}>${title}</th>`)}</tr></thead>
    <tbody>${pods.map((pod) => {
      const [, , , namespace, , name] = pod.name.split("/");
      return html`<tr key=${pod.name}><td><${Name} text=${`${namespace}/${name}`} /></td>
        <td><${Name} text=${pod.workload} />${pod.daemonSet ? " (DaemonSet)" : ""}${pod.terminating ? ", terminating" : ""}</td>
        <td class="number">${pod.cpuMillis}m</td><td class="number">${Math.floor(Number(pod.memoryBytes) / 2 ** 20)}Mi</td></tr>`;
    })}</tbody></table><//>`;
}

// Every reason for which the node would go, and what holds it; or why it went.
function Explanation({ query }) {
  const { present, removed, similarNode } = query.value ?? {};
  return html`<${ReadAt} source=${query} />
    ${present?.expireTime && html`<p>It expires at ${new Date(present.expireTime).toLocaleString()}.</p>`}
    ${present && present.verdicts.length === 0 && html`<p>There is no reason for it to go.</p>`}
    ${present && html`<ol class="rows">${present.verdicts.map((verdict) => html`<${Verdict} key=${verdict.reason} verdict=${verdict} />`)}</ol>`}
    ${removed && html`<p>It went at ${new Date(removed.removeTime).toLocaleString()}: <${Name} text=${removed.reason || "something else than Fleetwright removed it"} /></p>`}
    ${present && present.pods.length > 0 && html`<h3>Pods on it</h3><${NodePods} pods=${present.pods} />`}
    ${query.value && !present && !removed && html`<p>It is not known.${similarNode && html` There is <${Name} text=${similarNode} />.`}</p>`}`;
}
