// Freezes, and the buttons that begin and end them. They call the API, which checks the scope and writes the audit log.

import { age, idOf, visible } from "./format.js";
import { Component, html } from "./html.js";
import { Name, ReadAt } from "./parts.js";

const DURATIONS = [["3600s", "an hour"], ["28800s", "8 hours"], ["86400s", "a day"], ["", "until it is thawed"]];

const NEEDS_OPERATE = "You need the scope operate to freeze and thaw.";

// A button that asks for a second press, and says what became of it.
class Confirmed extends Component {
  state = { isAsked: false, error: null };

  #act = async () => {
    this.setState({ isAsked: false, error: null });
    try {
      await this.props.action();
    } catch (error) {
      this.setState({ error: error.message });
    }
  };

  render({ title, question }, { isAsked, error }) {
    return html`<span>
      ${!isAsked && html`<button type="button" onClick=${() => this.setState({ isAsked: true })}>${title}</button>`}
      ${isAsked && html`<span role="alert">${question} </span>
        <button type="button" onClick=${this.#act}>Yes, ${title.toLowerCase()}</button>
        <button type="button" onClick=${() => this.setState({ isAsked: false })}>No</button>`}
      ${error && html`<span class="bad" role="alert"> ${visible(error)}</span>`}</span>`;
  }
}

// A form that freezes a target: a cluster, or the fleet where `target` is empty.
export class FreezeForm extends Component {
  state = { isOpen: false, message: null, error: null };

  #submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const body = { target: this.props.target, reason: form.get("reason"), onlyDisruption: form.has("onlyDisruption") };
    if (form.get("ttl")) body.ttl = form.get("ttl");
    this.setState({ error: null });
    try {
      const freeze = await this.props.session.json("/v1/freezes", { method: "POST", body });
      this.setState({ isOpen: false, message: `It is frozen: freeze ${idOf(freeze.name)}.` });
    } catch (error) {
      this.setState({ error: error.message });
    }
  };

  render({ session, what }, { isOpen, message, error }) {
    if (!session.may("operate")) return html`<p class="soft">${NEEDS_OPERATE}</p>`;
    return html`<div>
      <p><button type="button" aria-expanded=${isOpen ? "true" : "false"}
        onClick=${() => this.setState({ isOpen: !isOpen, message: null, error: null })}>Freeze ${what}</button>
        ${message && html` <span class="good" role="status">${visible(message)}</span>`}</p>
      ${isOpen && html`<form class="controls" onSubmit=${this.#submit}>
        <label>Reason <input name="reason" required maxlength="500" size="40" /></label>
        <label>For <select name="ttl">${DURATIONS.map(([ttl, title]) => html`<option value=${ttl}>${title}</option>`)}</select></label>
        <label><input type="checkbox" name="onlyDisruption" /> voluntary disruption only: launches go on</label>
        <button type="submit">Freeze ${what} now</button>
        ${error && html`<span class="bad" role="alert">${visible(error)}</span>`}
      </form>`}</div>`;
  }
}

const targetOf = (freeze) => (freeze.target ? freeze.target.replace(/^clusters\//, "") : "the whole fleet");

export function Freezes({ query, session }) {
  const freezes = query.value?.freezes ?? [];
  const thaw = (freeze) => () => session.json(`/v1/${freeze.name}`, { method: "DELETE" });
  return html`<${ReadAt} source=${query} />
    ${query.value && freezes.length === 0 && html`<p>Nothing is frozen.</p>`}
    <ol class="rows">${freezes.map((freeze) => html`<li key=${freeze.name}>
      <strong><${Name} text=${targetOf(freeze)} /></strong>
      <span>${freeze.onlyDisruption ? "voluntary disruption" : "launches and voluntary removals"}, for ${age(freeze.createTime)}</span>
      <span class="why soft"><${Name} text=${`${freeze.reason}, by ${freeze.creator}`} />${freeze.expireTime ? `, until ${new Date(freeze.expireTime).toLocaleString()}` : ""}</span>
      <code>fleetwright thaw --id ${idOf(freeze.name)}</code>
      ${session.may("operate") && html`<${Confirmed} title="Thaw" action=${thaw(freeze)}
        question=${`Freeze ${idOf(freeze.name)} ends, and what it holds back goes on.`} />`}</li>`)}</ol>`;
}
