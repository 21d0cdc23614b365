// The sign-in, and who is signed in.

import { visible } from "./format.js";
import { Component, html } from "./html.js";

export class SignIn extends Component {
  state = { error: null, isBusy: false };

  #submit = async (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("token");
    this.setState({ isBusy: true, error: null });
    try {
      await this.props.session.signIn(token);
    } catch (error) {
      this.setState({ isBusy: false, error: error.message });
    }
  };

  render({ session }, { error, isBusy }) {
    const methods = session.status?.methods ?? [];
    return html`<h1>Sign in</h1>
      ${session.error && html`<p class="bad" role="alert">The server does not answer: ${visible(session.error)}</p>`}
      ${methods.includes("oidc") && html`<p><button type="button" onClick=${() => session.goToProvider()}>Sign in at the identity provider</button></p>`}
      <form onSubmit=${this.#submit}>
        <p class="controls"><label>Token <input type="password" name="token" required autocomplete="current-password" /></label>
          <button type="submit" disabled=${isBusy}>Sign in</button></p>
        ${error && html`<p class="bad" role="alert">${visible(error)}</p>`}
        <p class="soft">A token of a client in the server's trust file (<code>auth.file</code>).</p>
      </form>`;
  }
}

export function SignedIn({ session }) {
  const { client, scope, expireTime } = session.status ?? {};
  if (!client) return null;
  const end = expireTime ? `, until ${new Date(expireTime).toLocaleTimeString()}` : "";
  return html`<span class="soft">${visible(client)} (${scope}${end}) <button type="button" onClick=${() => session.signOut()}>Sign out</button></span>`;
}
