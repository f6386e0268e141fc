"use strict";

// What everything is made of. What comes from the server becomes text, and never markup.

const $ = (id) => document.getElementById(id);

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== "" && child !== undefined));
  return made;
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Words

const plural = (count, one, many) => `${count} ${count === 1 ? one : many || one + "s"}`;
const amount = (value) => (value === null ? "–" : String(Math.round(value * 1000) / 1000));
const inNamespace = (thing) => (thing.namespace ? `${thing.namespace}/${thing.name}` : thing.name);

function lasting(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function timeOfDay(seconds) {
  const date = new Date(seconds * 1000);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString()} `;
  return day + date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function hourAndMinute(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function moment(seconds) {
  return element("time", { datetime: new Date(seconds * 1000).toISOString() }, timeOfDay(seconds));
}

const note = (text) => element("p", {}, text);
const badge = (level, text) => element("span", { class: `badge ${level}` }, text);

// The first column takes what the others leave.
function table(caption, heads, rows) {
  const numbers = heads.some(([, kind]) => kind === "number");
  const head = heads.map(([text, kind]) => element("th", { scope: "col", class: kind || null }, text));
  return element(
    "table", { class: numbers ? "numbers" : null }, element("caption", {}, caption), element("thead", {}, element("tr", {}, head)),
    rows.length && rows[0].tagName === "TBODY" ? rows : element("tbody", {}, rows),
  );
}

const cell = (...children) => element("td", {}, children);
const number = (value) =>
  element("td", { class: "number" }, value === null ? element("span", { class: "unseen" }, "not known") : "",
    value === null ? element("span", { "aria-hidden": "true" }, "–") : amount(value));
