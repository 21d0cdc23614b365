// The page: one view for each address, drawn again when what it shows has changed, at most four times a second.
// Views are in `*_views.js`, what several of them have in `parts.js`, all requests in `session.js`, and what is read of `/v1`, with its
// age, in `queries.js`. There is no build step: the server sends these files, and `vendor/` is as its packages have it.

import { visible } from "./format.js";
import { html, render } from "./html.js";
import { Clusters, Queries } from "./queries.js";
import { Session } from "./session.js";
import { SignIn, SignedIn } from "./sign_in.js";
import { CapacityView, ClustersView, DecisionsView, ProblemsView } from "./fleet_views.js";
import { ClusterView, NodeView } from "./cluster_views.js";
import { CostView } from "./cost_views.js";

// Address, view, and the title of the address's ids.
const ROUTES = [
  [/^\/$/, ProblemsView, () => "Problems"],
  [/^\/clusters$/, ClustersView, () => "Clusters"],
  [/^\/clusters\/([^/]+)$/, ClusterView, ([cluster]) => `Cluster ${cluster}`],
  [/^\/clusters\/([^/]+)\/nodes\/([^/]+)$/, NodeView, ([, node]) => `Node ${node}`],
  [/^\/decisions$/, DecisionsView, () => "Decisions"],
  [/^\/capacity$/, CapacityView, () => "Capacity"],
  [/^\/cost$/, CostView, () => "Cost"],
];

const NAVIGATION = [["/", "Problems"], ["/clusters", "Clusters"], ["/decisions", "Decisions"], ["/capacity", "Capacity"], ["/cost", "Cost"]];

const DRAW_MS = 250;

let drawnAt = 0;
let timer = null;

// Draws once, when the last drawing is old enough.
function draw() {
  timer ??= setTimeout(drawNow, Math.max(0, drawnAt + DRAW_MS - Date.now()));
}

const session = new Session(draw);
const queries = new Queries(session, draw);
// Read from the first drawing after the sign-in on.
let clusters = null;

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function found(path) {
  for (const [pattern, view, title] of ROUTES) {
    const ids = pattern.exec(path)?.slice(1).map(decoded);
    if (ids) return { view, ids, title: title(ids) };
  }
  return { view: () => html`<h1>There is no such view</h1><p><a href="/">Problems of the fleet</a></p>`, ids: [], title: "No such view" };
}

function setParameters(values) {
  const parameters = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  history.replaceState(null, "", `${location.pathname}${parameters.size ? `?${parameters}` : ""}`);
  drawNow();
}

function Server({ query }) {
  const info = query.value;
  const notices = info?.notices ?? [];
  return html`<span class="soft">${info ? visible(info.version) : ""}</span>
    <div role="status">${notices.map((text) => html`<p class="bad" key=${text}>${visible(text)}</p>`)}</div>`;
}

function View({ route }) {
  const { view: View, ids } = route;
  clusters ??= new Clusters(session, draw);
  const parameters = new URLSearchParams(location.search);
  return html`<${View} key=${location.pathname} queries=${queries} clusters=${clusters} session=${session} ids=${ids}
    parameters=${parameters} setParameters=${setParameters} />`;
}

function Page({ route }) {
  const isKnown = session.status !== null;
  const isAuthorized = session.status?.isAuthorized;
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header>
      <a class="brand" href="/">Fleetwright</a>
      <nav aria-label="Views">${NAVIGATION.map(([path, title]) => html`<a key=${path} href=${path}
        aria-current=${location.pathname === path ? "page" : undefined}>${title}</a>`)}</nav>
      ${isAuthorized && html`<${Server} query=${queries.use("/v1/serverInfo", 5_000)} /><${SignedIn} session=${session} />`}
    </header>
    <main id="main" tabindex="-1">
      ${!isKnown && html`<p role="status">${session.error ? `The server does not answer: ${visible(session.error)}` : "reading…"}</p>`}
      ${isKnown && !isAuthorized && html`<${SignIn} session=${session} />`}
      ${isAuthorized && html`<${View} route=${route} />`}
    </main>`;
}

function drawNow() {
  clearTimeout(timer);
  [timer, drawnAt] = [null, Date.now()];
  const route = found(location.pathname);
  document.title = `${visible(route.title)} – Fleetwright`;
  render(html`<${Page} route=${route} />`, document.getElementById("page"));
  queries.stopUnused();
}

// Links between views change the address without a new page; the heading is focused, so that it is read.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  const isOther = event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (!link || isOther || link.origin !== location.origin || link.hash) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  drawNow();
  window.scrollTo(0, 0);
  document.getElementById("main").focus();
});
window.addEventListener("popstate", drawNow);

// Ages grow without news.
setInterval(draw, 5_000);
document.getElementById("page").replaceChildren();
drawNow();
