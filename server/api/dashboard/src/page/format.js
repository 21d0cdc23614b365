// How values are shown.

// 64-bit integers are strings in JSON. From ten dollars on, less than a cent says nothing.
export const dollars = (microUsd) => {
  const amount = Number(microUsd) / 1e6;
  return `$${amount.toFixed(Math.abs(amount) >= 10 ? 2 : 4)}`;
};

// Last word of a resource's name.
export const idOf = (name) => name.slice(name.lastIndexOf("/") + 1);

export const clusterOf = (name) => name.split("/")[1] ?? "";

export const number = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// The name of an enum's value without its prefix: NODE_STAGE_NOT_READY is "not ready".
export const word = (value, prefix) => value.replace(prefix, "").replaceAll("_", " ").toLowerCase();

// How instances are bought, as the label `karpenter.sh/capacity-type` has it.
export const capacityType = (value) =>
  value === "CAPACITY_TYPE_UNSPECIFIED" ? "" : word(value, "CAPACITY_TYPE_").replaceAll(" ", "-");

// Control characters, and those that change the direction of a text, as their codes: names come from clusters, and one of them
// must not look like another one.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const visible = (text) =>
  String(text).replace(HIDDEN, (hidden) => `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A time of the API, or a Date, as an age: "5 min".
export const age = (time) => duration(Date.now() - new Date(time));

// The time until then.
export const until = (time) => duration(new Date(time) - Date.now());

// A time of the API in UTC: "2026-01-01 10:05:00Z".
export const moment = (time) => `${new Date(time).toISOString().slice(0, 19).replace("T", " ")}Z`;

function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, unit] = units.find(([length]) => seconds >= length) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export const clock = (time) => new Date(time).toLocaleTimeString();
