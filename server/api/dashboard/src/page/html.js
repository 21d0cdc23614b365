// Templates of elements. Texts in them are set as text, never as markup.

import htm from "./vendor/htm.mjs";
import { Component, h, render } from "./vendor/preact.mjs";

export const html = htm.bind(h);
export { Component, render };
