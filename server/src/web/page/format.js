// How values are shown.

// 64-bit integers are strings in JSON.
export const dollars = (microUsd) => `$${(Number(microUsd) / 1e6).toFixed(4)}`;

// Last word of a resource's name.
export const idOf = (name) => name.slice(name.lastIndexOf("/") + 1);

export const clusterOf = (name) => name.split("/")[1] ?? "";

export const number = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// The name of an enum's value without its prefix: NODE_STAGE_NOT_READY is "not ready".
export const word = (value, prefix) => value.replace(prefix, "").replaceAll("_", " ").toLowerCase();

// Control characters, and those that change the direction of a text, as their codes: names come from clusters, and one of them
// must not look like another one.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const visible = (text) =>
  String(text).replace(HIDDEN, (hidden) => `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A time of the API, or a Date, as an age: "5 min".
export function age(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - new Date(time)) / 1000));
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, unit] = units.find(([length]) => seconds >= length) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export const clock = (time) => new Date(time).toLocaleTimeString();
