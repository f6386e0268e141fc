// What each section says.

const SERIES = 8; // charts of the past that are drawn
const CHANGES = 30; // rows of their table

const VERDICTS = {
  exceed: ["bad", "exceeds"],
  away: ["bad", "away"],
  spare: ["warn", "unclaimed"],
  fit: ["fine", "fits"],
  "not evaluated": ["unknown", "not evaluated"],
};

function glance(data) {
  const flavors = data.flavors.rows;
  const having = (...verdicts) => flavors.filter((row) => verdicts.includes(row.verdict)).length;
  const short = having("exceed", "away");
  const unsure = having("not evaluated");
  const recent = data.denials.filter((denial) => known.clock.now - denial.last < 3600);
  const denied = recent.reduce((sum, denial) => sum + denial.count, 0);
  const audit = data.violations;
  let floors = ["fine", "fit", "every flavor"];
  if (data.flavors.reason) floors = ["unknown", "not evaluated", data.flavors.reason];
  else if (!flavors.length) floors = ["unknown", "none", "no accelerators, and no floors"];
  else if (short) floors = ["bad", `${short} short`, `of ${plural(flavors.length, "flavor")}`];
  else if (unsure) floors = ["unknown", `${unsure} not evaluated`, `of ${plural(flavors.length, "flavor")}`];
  return [
    tile("Floors", ["facts"], ...floors),
    gated(data),
    audit.at === null
      ? tile("Violations", ["audit"], "unknown", "not evaluated", audit.reason)
      : tile("Violations", ["audit"], worst(audit), String(audit.count),
        audit.notEvaluated.length ? `and ${plural(audit.notEvaluated.length, "thing")} not evaluated`
          : audit.count ? `of ${plural(audit.rules.length, "rule")}` : "every rule holds"),
    data.denialsKnown
      ? tile("Denied", [], denied ? "warn" : "fine", String(denied), "in the last hour")
      : tile("Denied", [], "unknown", "not evaluated", "this process judges no writes"),
  ];
}

// `parts` are what the tile goes by. What is not known to be so still never looks fine.
function tile(name, parts, level, value, more) {
  if (gone() || parts.some(isOld)) return [name, "unknown", value, `old: ${more}`];
  if (parts.some(isInDoubt)) return [name, level === "fine" ? "unknown" : level, value, `not current: ${more}`];
  return [name, level, value, more];
}

// Kueue counts what waits in a ClusterQueue. A pod whose queue is missing is in none, and only an audit sees it.
function gated({ queues, violations }) {
  const { waiting, silent } = queues;
  const pods = violations.gatedPods;
  if (pods > (waiting || 0)) {
    const rest = waiting === null ? "the queues are not evaluated"
      : `${plural(waiting, "Workload waits", "Workloads wait")} in ClusterQueues`;
    return tile("Gated", ["queues", "audit"], "warn", plural(pods, "pod"), `at the last audit; ${rest}`);
  }
  if (waiting === null) {
    return tile("Gated", ["queues"], "unknown", "not evaluated", queues.statusReason || queues.reason || "no queue says so");
  }
  const what = waiting === 1 ? "Workload that waits in a ClusterQueue" : "Workloads that wait in ClusterQueues";
  if (waiting) return tile("Gated", ["queues"], "warn", String(waiting), what);
  if (silent) return tile("Gated", ["queues"], "unknown", "0", `${what}; ${plural(silent, "queue")} not known`);
  if (pods === null) return tile("Gated", ["queues"], "unknown", "0", `${what}; no audit looked for pods outside of them`);
  return tile("Gated", ["queues", "audit"], "fine", "0", `${what}; no gated pod at the last audit`);
}

function worst(audit) {
  if (audit.rules.some((rule) => rule.severity === "deny")) return "bad";
  if (audit.count) return "warn";
  return audit.notEvaluated.length ? "unknown" : "fine";
}

function drawGlance(tiles) {
  return tiles.map(([name, level, value, more]) =>
    element("div", { class: level }, element("dt", {}, name), element("dd", {}, value, element("small", {}, more))));
}

function drawFloors({ flavors, width }) {
  if (flavors.reason) return [note(`Not evaluated: ${flavors.reason}.`)];
  if (!flavors.rows.length) return [note("No node offers an accelerator, and no queue has a floor of one.")];
  const most = new Map();
  for (const row of flavors.rows) {
    const larger = Math.max(row.hardware || 0, row.usable || 0, row.floors, most.get(row.resource) || 0);
    most.set(row.resource, larger);
  }
  const charts = flavors.rows.slice(0, 24).map((row) => {
    const [level, word] = VERDICTS[row.verdict];
    const parts = row.parts.map((part) => `${part.name} ${amount(part.amount)}`);
    if (row.otherParts) parts.push(`${row.otherParts} more`);
    return element(
      "figure", {},
      element(
        "figcaption", {},
        element("div", { class: "row" }, element("h3", {}, row.flavor, element("small", {}, row.resource)),
          badge(level, word)),
        row.verdict === "fit" ? "" : element("p", {}, row.text),
        row.uncounted.map((text) => element("p", { class: "quiet" }, `Not compared: ${text}`)),
      ),
      bars(row, most.get(row.resource), width),
      parts.length ? element("small", {}, `Floors: ${parts.join(", ")}`) : "",
    );
  });
  const rows = flavors.rows.map((row) =>
    element("tr", {}, element("th", { scope: "row" }, row.flavor,
      element("small", {}, `${row.resource}; ${VERDICTS[row.verdict][1]}`)),
      number(row.floors), number(row.hardware), number(row.usable)));
  const heads = [["Flavor"], ["Floors", "number"], ["Hardware", "number"], ["Usable", "number"]];
  const more = flavors.more ? [note(`${flavors.more} more flavors are not shown.`)] : [];
  return [element("div", { class: "charts" }, charts), table("What is promised, and what there is", heads, rows),
    ...more];
}

function queueRow(row) {
  const models = (row.localQueues || []).map(inNamespace);
  if (row.otherLocalQueues) models.push(`${row.otherLocalQueues} more`);
  const about = [row.cohort ? `cohort ${row.cohort}` : "in no cohort"];
  if (row.localQueues !== null) about.push(models.length ? `for ${models.join(", ")}` : "no LocalQueue leads here");
  return element("tr", { class: "group" }, element(
    "th", { scope: "rowgroup", colspan: 5 }, row.queue, element("small", {}, about.join("; ")),
    row.inactive ? element("small", { class: "old" }, `not active: ${row.inactive}`) : "",
  ));
}

function drawQueues(queues) {
  if (queues.reason) return [note(`Not evaluated: ${queues.reason}.`)];
  if (!queues.rows.length) return [note("No ClusterQueue has a quota of an accelerator.")];
  const most = new Map();
  for (const quota of queues.rows.flatMap((row) => row.quotas)) {
    most.set(quota.resource, Math.max(most.get(quota.resource) || 0, quota.floor, quota.used || 0));
  }
  const groups = queues.rows.map((row) => element("tbody", {}, queueRow(row), row.quotas.map((quota) => element(
    "tr", {},
    element("th", { scope: "row" }, element("small", {}, `${quota.flavor}, ${quota.resource}`),
      useBar(quota, most.get(quota.resource))),
    number(quota.floor), number(quota.used), number(quota.borrowed), number(row.gated),
  ))));
  const heads = [["Queue"], ["Floor", "number"], ["Used", "number"], ["Borrowed", "number"], ["Gated", "number"]];
  const caption = "Floor, used and borrowed in units of the resource; gated are Workloads that wait. In a bar: blue is used, orange " +
    "borrowed, and the outline is the floor. A dash is not known.";
  const more = queues.more ? [note(`${queues.more} more queues are not shown: those with the fewest gated.`)] : [];
  return [table(caption, heads, groups), ...more];
}

// Violations and denials

const SEVERITIES = {
  deny: ["bad", "denial"],
  patch: ["warn", "patch"],
  warn: ["unknown", "warning"],
};
const SETUP = { deny: ["bad", "set-up: wrong"], warn: ["warn", "set-up: look"] }; // written by nobody

function drawViolations(violations) {
  const missing = violations.notEvaluated.map(({ what, why }) => element("li", {}, `Not evaluated: ${what}: ${why}`));
  if (violations.at === null) return [];
  const none = missing.length ? "Nothing was found among what could be looked at." : "None: every rule holds.";
  const rules = violations.rules.map((rule) => {
    const [level, word] = (rule.setup ? SETUP : SEVERITIES)[rule.severity] || ["unknown", rule.severity];
    const items = rule.findings.map((finding) => element(
      "li", {},
      element("div", {}, element("strong", {}, `${finding.kind} ${finding.names.join(", ")}`),
        finding.count > finding.names.length ? ` and ${finding.count - finding.names.length} more` : "",
        finding.namespace ? ` in ${finding.namespace}` : ""),
      element("div", {}, finding.what),
      element("div", { class: "fix" }, `Fix: ${finding.fix}`),
    ));
    if (rule.more) items.push(element("li", {}, `${rule.more} more; floorkeeper audit lists them all`));
    return element(
      "div", { class: "rule" },
      element("div", { class: "row" }, element("h3", {}, rule.rule), badge(level, `${rule.count} · ${word}`)),
      element("ul", {}, items),
    );
  });
  const exempt = violations.exempt ? [note(`${plural(violations.exempt, "object")} exempt by the policy.`)] : [];
  return [...(rules.length ? rules : [note(none)]), ...(missing.length ? [element("ul", {}, missing)] : []), ...exempt];
}

function drawDenials({ denials, denialsKnown }) {
  if (!denialsKnown) return [note("Not evaluated: this process judges no writes. floorkeeper serve shows what it denied.")];
  if (!denials.length) return [note("None since this process began.")];
  const rows = denials.map((denial) => {
    const what = `${denial.operation} ${denial.kind} ${inNamespace(denial)}`;
    const again = denial.count > 1 ? element("small", {}, `${denial.count} times since ${timeOfDay(denial.first)}`) : "";
    return element(
      "tr", {},
      element("th", { scope: "row", class: "when" }, moment(denial.last),
        element("small", {}, denial.user || "nobody said who")),
      cell(element("strong", {}, what), denial.dryRun ? element("small", {}, "a dry run") : "", again,
        denial.messages.map((message) => element("p", {}, message)),
        denial.messages.length ? "" : element("p", {}, denial.rules.join(", "))),
    );
  });
  const caption = "The latest first, of this process only: another replica has its own";
  return [table(caption, [["When, and who", "when"], ["What, and why"]], rows)];
}

// The past

function isShort(series, index) {
  return series.usable[index] !== null && series.floors[index] > series.usable[index];
}

function changesOf(series, past) {
  const found = [];
  const same = (a, b) => ["floors", "hardware", "usable"].every((name) => series[name][a] === series[name][b]);
  for (let index = 0; index < series.floors.length; index += 1) {
    if (index === 0 || !same(index, index - 1)) found.push({ series, index, at: past.start + index * past.step });
  }
  return found;
}

function drawHistory({ past, width }) {
  if (!past.series.length) return [note("Nothing was seen yet.")];
  const weight = (series) => (series.floors.some((_, index) => isShort(series, index)) ? 1000 : 0) +
    Math.min(999, changesOf(series, past).length);
  const chosen = [...past.series].sort((a, b) => weight(b) - weight(a)).slice(0, SERIES);
  const figures = chosen.map((series) => element(
    "figure", {},
    element("figcaption", {}, element("h3", {}, series.flavor, element("small", {}, series.resource))),
    lines(series, past, width), legend(width),
  ));
  const left = past.series.length - chosen.length + past.more;
  const text = "One point a minute: the worst moment of it. Where more is promised than usable, the ground is red.";
  return [note(text), element("div", { class: "charts" }, figures),
    ...(left ? [note(`${plural(left, "flavor")} more, with fewer changes, ${left === 1 ? "is" : "are"} not drawn.`)] : [])];
}

function drawChanges(past) {
  const changes = past.series.flatMap((series) => changesOf(series, past)).sort((a, b) => b.at - a.at);
  const rows = changes.slice(0, CHANGES).map(({ series, index, at }) => element(
    "tr", {},
    element("th", { scope: "row" }, moment(at), element("small", {}, `${series.flavor}, ${series.resource}`)),
    number(series.floors[index]), number(series.hardware[index]), number(series.usable[index]),
  ));
  const heads = [["From, and flavor"], ["Floors", "number"], ["Hardware", "number"], ["Usable", "number"]];
  const more = changes.length > CHANGES ? [note(`${changes.length - CHANGES} older changes are left out.`)] : [];
  return [table("Changes of the last hours, the latest first", heads, rows), ...more];
}
