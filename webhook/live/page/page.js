// Asking for the data, saying how fresh they are, and drawing what has changed.

const EVERY = 5000; // milliseconds between two questions
const PATIENCE = 8000; // for one answer
const GONE = 15; // seconds without an answer after which nothing here counts as current

const known = { data: null, tag: "", clock: null, page: "", problem: "", busy: false, ticks: 0, date: 0 };
const drawn = new Map(); // what was drawn last, by the element's id
const told = new Map(); // what was announced last, by subject

// How fresh everything is

function sinceAnswer() {
  // A machine that slept may have stopped one of the two clocks.
  return Math.max(0, performance.now() - known.ticks, Date.now() - known.date) / 1000;
}

function age(part) {
  const then = known.clock && known.clock[part];
  return then === null || then === undefined ? null : then + sinceAnswer();
}

const gone = () => known.clock !== null && (known.problem !== "" || sinceAnswer() > GONE);

function isOld(part) {
  const limit = known.data.limits[part];
  return limit !== null && age(part) !== null && age(part) > limit;
}

// What is wrong with reading it now, '' if nothing is.
function trouble(part) {
  const { flavors, queues, violations } = known.data;
  return { facts: flavors.trouble.join("; "), queues: queues.statusReason, audit: violations.reason }[part];
}

// It was read, and cannot be read again.
const isInDoubt = (part) => age(part) !== null && trouble(part) !== "";

const OF = { facts: "Floors and hardware", queues: "Use of the queues", audit: "The audit" };

// What is written below a section's heading, and how to style it.
function freshness(part) {
  const absent = { facts: known.data.flavors.reason, queues: known.data.queues.reason, audit: "" }[part];
  if (absent) return { text: "", style: "" };
  const reason = trouble(part);
  const seconds = age(part);
  if (seconds === null) return { text: `${part === "queues" ? "Use not" : "Not"} evaluated: ${reason || "not read yet"}.`, style: "unsure" };
  const old = isOld(part) || gone();
  const verb = part === "audit" ? "looked" : "read";
  const text = `${old ? "Old: " : ""}${verb} ${lasting(seconds)} ago${reason ? `; not current: ${reason}` : ""}.`;
  return { text: text[0].toUpperCase() + text.slice(1), style: old || reason ? "old" : "" };
}

function drawFreshness() {
  if (known.data === null) {
    $("answered").textContent = known.problem ? "Not read yet" : "Waiting for the first answer …";
  } else {
    $("answered").textContent = `Answered ${lasting(sinceAnswer())} ago`;
    for (const line of document.querySelectorAll(".fresh")) {
      const { text, style } = freshness(line.dataset.part);
      line.textContent = text;
      line.className = `fresh ${style}`;
      line.closest("section").classList.toggle("stale", style === "old");
    }
    const tiles = glance(known.data);
    redraw("glance", tiles, drawGlance);
    document.title = gone() ? "Old · Floorkeeper" : `${tiles[0][1] === "bad" ? `Floors ${tiles[0][2]} · ` : ""}Floorkeeper`;
  }
  document.body.classList.toggle("gone", gone());
  const [level, text] = banner();
  redraw("banner", [level, text], () => (text ? [element("p", { class: `banner ${level}` }, text)] : []));
}

function banner() {
  if (known.data === null) {
    return known.problem ? ["bad", `Nothing could be read yet: ${known.problem}. Trying again.`] : ["", ""];
  }
  if (gone()) {
    const what = known.problem ? `Floorkeeper is not there: ${known.problem}.` : "Floorkeeper was not asked for a while.";
    return ["bad", `${what} What follows is as it was at ${timeOfDay(known.date / 1000)}.`];
  }
  const old = Object.keys(OF).filter(isOld);
  if (old.length) {
    return ["warn", `Floorkeeper answers, and part of this is old: ${old.map((part) => OF[part]).join(", ")}.`];
  }
  if (known.page && known.clock.page !== known.page) {
    return ["unknown", "There is a newer version of this page: load it again."];
  }
  return ["", ""];
}

// Drawing only what has changed leaves a reader's place, and a screen reader's, where it is.

function redraw(id, value, draw) {
  const text = JSON.stringify(value);
  if (drawn.get(id) === text) return;
  drawn.set(id, text);
  $(id).replaceChildren(...draw(value));
}

// What a screen reader is told: what has become different, once

function announce(data, tiles) {
  const said = tiles.map(([name, , value, more]) => [name, `${name}: ${value}, ${more}.`]);
  for (const row of data.flavors.rows) {
    said.push([`${row.flavor} ${row.resource}`, `Flavor ${row.flavor}: ${VERDICTS[row.verdict][1]}.`]);
  }
  const first = told.size === 0;
  const news = said.filter(([subject, text]) => told.get(subject) !== text).map(([, text]) => text);
  told.clear();
  for (const [subject, text] of said) told.set(subject, text);
  if (!first && news.length) $("news").textContent = news.slice(0, 5).join(" ");
}

function draw() {
  drawFreshness();
  const data = known.data;
  if (data === null) return;
  redraw("floors-body", { flavors: data.flavors, width: widthOf("floors-body") }, drawFloors);
  redraw("queues-body", data.queues, drawQueues);
  redraw("violations-body", data.violations, drawViolations);
  redraw("denials-body", { denials: data.denials, denialsKnown: data.denialsKnown }, drawDenials);
  redraw("history-body", { past: data.history, width: widthOf("history-body") }, drawHistory);
  redraw("changes-body", data.history, drawChanges);
  $("changes").hidden = !data.history.series.length;
  redraw("version", data.version, () => [` · version ${data.version}`]);
  announce(data, glance(data));
}

async function ask() {
  if (known.busy || document.hidden) return;
  known.busy = true;
  try {
    const headers = known.tag ? { "If-None-Match": known.tag } : {};
    const answer = await fetch("data.json", { cache: "no-store", headers, signal: AbortSignal.timeout(PATIENCE) });
    const clock = answer.headers.get("Floorkeeper-Clock");
    if ((answer.status !== 200 && answer.status !== 304) || clock === null) throw new Error(`it answers ${answer.status}`);
    if (answer.status === 200) {
      known.data = await answer.json();
      known.tag = answer.headers.get("ETag") || "";
    }
    known.clock = JSON.parse(clock);
    known.page = known.page || known.clock.page;
    known.ticks = performance.now();
    known.date = Date.now();
    known.problem = "";
  } catch (error) {
    known.problem = { TimeoutError: "no answer in time", TypeError: "no connection" }[error.name] || error.message;
  } finally {
    known.busy = false;
  }
  draw();
}

for (const part of document.querySelectorAll("nav, main")) part.hidden = false;
setInterval(ask, EVERY);
setInterval(drawFreshness, 1000);
document.addEventListener("visibilitychange", () => {
  drawFreshness();
  ask();
});
addEventListener("resize", draw);
drawFreshness();
ask();
