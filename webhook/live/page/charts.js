// Charts. Each says its numbers to a screen reader too, or has a table beside it that does.

// The width of a chart inside its figure, in CSS pixels, by the columns that the style makes.
function widthOf(id) {
  const [gap, least, frame] = [16, 384, 26];
  const room = $(id).clientWidth;
  const columns = Math.max(1, Math.floor((room + gap) / (least + gap)));
  return Math.max(220, Math.round((room - gap * (columns - 1)) / columns) - frame);
}

function bars(row, most, width) {
  const [left, right, height, step] = [76, 44, 16, 26];
  const scale = (value) => (most ? (value / most) * (width - left - right) : 0);
  const all = shape("svg", {
    role: "img", viewBox: `0 0 ${width} ${3 * step}`, height: 3 * step,
    "aria-label": `${row.flavor}, ${row.resource}: hardware ${amount(row.hardware)}, usable ${amount(row.usable)}, ` +
      `floors ${amount(row.floors)}. The table below says the same.`,
  });
  const line = (index, name, value) => {
    const y = index * step;
    all.append(shape("text", { x: 0, y: y + 13, class: "faint" }, name));
    const text = value === null ? "not evaluated" : amount(value);
    all.append(shape("text", { x: left + scale(value || 0) + 6, y: y + 13 }, text));
    return y;
  };
  const bar = (kind, x, y, wide) =>
    all.append(shape("rect", { class: kind, x: left + x, y, width: Math.max(0, wide), height, rx: 2 }));
  let y = line(0, "hardware", row.hardware);
  if (row.hardware) bar("hardware-bar", 1, y + 1, scale(row.hardware) - 2);
  y = line(1, "usable", row.usable);
  if (row.usable) bar("usable-bar", 0, y, scale(row.usable));
  y = line(2, "floors", row.floors);
  let at = 0;
  const rest = row.floors - row.parts.reduce((sum, part) => sum + part.amount, 0);
  for (const part of [...row.parts.map((each) => each.amount), rest]) {
    if (part > 0) bar("floor-bar", scale(at), y, scale(part) - 2);
    at += part;
  }
  if (row.hardware !== null && row.floors > row.hardware) {
    bar("over-bar", scale(row.hardware), y, scale(row.floors - row.hardware) - 2);
    const x = left + scale(row.hardware);
    all.append(shape("line", { class: "limit", x1: x, x2: x, y1: 0, y2: 3 * step }));
  }
  return all;
}

function useBar(quota, most) {
  const width = 300;
  const scale = (value) => (most ? (value / most) * width : 0);
  const own = Math.max(0, (quota.used || 0) - (quota.borrowed || 0));
  return shape(
    "svg", { "aria-hidden": "true", viewBox: `0 0 ${width} 10`, preserveAspectRatio: "none" },
    shape("rect", { class: "usable-bar", x: 0, y: 1, width: scale(own), height: 8 }),
    shape("rect", { class: "borrowed-bar", x: scale(own), y: 1, width: scale(quota.borrowed || 0), height: 8 }),
    shape("rect", { class: "hardware-bar", x: 1, y: 1, width: Math.max(0, scale(quota.floor) - 2), height: 8 }),
  );
}

function lines(series, past, width) {
  const [left, right, height, top] = [30, 8, 110, 8];
  const count = series.floors.length;
  const most = Math.max(1, ...["floors", "hardware", "usable"].flatMap((name) => series[name].map((each) => each || 0)));
  const x = (index) => left + (index / Math.max(count, 10)) * (width - left - right);
  const y = (value) => top + (1 - value / most) * (height - top);
  const last = series.floors.length - 1;
  const minutes = Math.round((count * past.step) / 60);
  const all = shape("svg", {
    role: "img", viewBox: `0 0 ${width} ${height + 22}`, height: height + 22,
    "aria-label": `${series.flavor}, ${series.resource}: the last ${minutes} minutes of floors, hardware and usable. ` +
      "The table of changes says the same.",
  });
  for (let from = 0; from < count; from += 1) {
    let to = from;
    while (to < count && isShort(series, to)) to += 1;
    if (to > from) {
      all.append(shape("rect", { class: "short", x: x(from), y: top, width: x(to) - x(from), height: height - top }));
      from = to;
    }
  }
  for (const value of [0, most]) {
    all.append(shape("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    all.append(shape("text", { class: "faint", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, amount(value)));
  }
  for (const [name, kind] of [["hardware", "hardware-line"], ["usable", "usable-line"], ["floors", "floor-line"]]) {
    let path = "";
    series[name].forEach((value, index) => {
      if (value === null) return;
      const from = index > 0 && series[name][index - 1] !== null ? "L" : "M";
      path += `${from}${x(index)} ${y(value)}L${x(index + 1)} ${y(value)}`;
    });
    if (path) all.append(shape("path", { class: kind, d: path }));
  }
  const hours = (index) => hourAndMinute(past.start + index * past.step);
  all.append(shape("text", { class: "faint", x: left, y: height + 18 }, hours(0)));
  if (last > 0) {
    const end = shape("text", { class: "faint", x: x(count), y: height + 18, "text-anchor": "end" }, hours(count));
    if (x(count) - left > 120) all.append(end);
  }
  return all;
}

function legend(width) {
  const all = shape("svg", { "aria-hidden": "true", viewBox: `0 0 ${width} 20`, height: 20 });
  [["hardware-line", "hardware"], ["usable-line", "usable"], ["floor-line", "floors"]].forEach(([kind, name], index) => {
    const x = index * 95;
    all.append(shape("path", { class: kind, d: `M${x} 10L${x + 24} 10` }));
    all.append(shape("text", { class: "faint", x: x + 30, y: 14 }, name));
  });
  return all;
}
