/* The pictures of one pair: the data and both transformations, as SVG. */

const WIDTH = 300;
const HEIGHT = 250;

/* A frame with ticks and names; draw(x, y) returns the marks, given the scales. */

function panel(caption, xAxis, yAxis, draw) {
  const [left, below] = [yAxis.room, xAxis.levels ? 78 : 38];
  const box = { left, right: WIDTH - 8, top: 6, bottom: HEIGHT - below };
  const part = (axis, v) =>
    Math.min(1, Math.max(0, (v / 2 - axis.low / 2) / (axis.high / 2 - axis.low / 2)));
  const x = (v) => +(box.left + (box.right - box.left) * part(xAxis, v)).toFixed(2);
  const y = (v) => +(box.bottom - (box.bottom - box.top) * part(yAxis, v)).toFixed(2);
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const says = `${caption}; across ${xAxis.name}, up ${yAxis.name}`;
  const svg = drawing("svg", { viewBox, role: "img", "aria-label": says });
  const full = (text) => drawing("title", {}, text);

  const edge = `M${box.left} ${box.top}V${box.bottom}H${box.right}`;
  svg.append(drawing("path", { class: "frame", d: edge }));
  for (const { value, label } of xAxis.ticks) {
    const turned = `translate(${x(value) + 3} ${box.bottom + 11}) rotate(-38)`;
    const place = xAxis.levels ? { transform: turned, "text-anchor": "end" }
      : { x: x(value), y: box.bottom + 15, "text-anchor": "middle" };
    svg.append(
      drawing("path", { class: "tick", d: `M${x(value)} ${box.bottom}v4` }),
      drawing("text", place, shortened(label, xAxis.levels ? 12 : 14), full(label)),
    );
  }
  for (const { value, label } of yAxis.ticks) {
    svg.append(
      drawing("path", { class: "tick", d: `M${box.left} ${y(value)}h-4` }),
      drawing("text", { x: box.left - 7, y: y(value) + 3.5, "text-anchor": "end" },
        shortened(label, yAxis.levels ? 10 : 14), full(label)),
    );
  }
  const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  const upwards = `translate(10 ${middle.y}) rotate(-90)`;
  svg.append(
    drawing("text", { class: "label", x: middle.x, y: HEIGHT - 4, "text-anchor": "middle" },
      shortened(xAxis.name, 36), full(xAxis.name)),
    drawing("text", { class: "label", transform: upwards, "text-anchor": "middle" },
      shortened(yAxis.name, 28), full(yAxis.name)),
  );
  if (!yAxis.levels && yAxis.low < 0 && yAxis.high > 0) {
    svg.append(drawing("path", { class: "zero", d: `M${box.left} ${y(0)}H${box.right}` }));
  }
  svg.append(...draw(x, y));
  const title = element("figcaption", { class: "name", title: caption }, shortened(caption, 44));
  return element("figure", {}, title, svg);
}

/* Points in a few layers, so that they look denser where they overlap. */

function scatter(xs, ys, x, y) {
  const layers = Array.from({ length: 10 }, () => []);
  xs.forEach((value, i) => {
    if (value === null || ys[i] === null) return;
    layers[i % layers.length].push(`M${x(value)} ${y(ys[i])}h.01`);
  });
  const size = Math.min(5, Math.max(2.4, 5 - Math.log10(xs.length / 50)));
  const look = { class: "points", "stroke-width": size.toFixed(2) };
  return layers.filter((layer) => layer.length)
    .map((layer) => drawing("path", { ...look, d: layer.join("") }));
}

/* Medians of each column in bins of the other, [place, median, low, high]. */

function conditionalMedians([ofB, ofA], x, y) {
  const path = (points) => `M${points.map(([u, v]) => `${x(u)} ${y(v)}`).join("L")}`;
  const low = ofB.map(([place, , value]) => [place, value]);
  const high = ofB.map(([place, , , value]) => [place, value]);
  const turned = ofA.map(([place, median]) => [median, place]);
  return [
    ...(ofA.length ? [drawing("path", { class: "median other", d: path(turned) })] : []),
    ...(ofB.length ? [
      drawing("path", { class: "band", d: `${path([...high, ...low.reverse()])}Z` }),
      drawing("path", { class: "median", d: path(ofB) }),
    ] : []),
  ];
}

/* Five quantiles at each level: a box with its median, and a line; at(level, value) is a pixel. */

function boxPlots(levels, boxes, at) {
  const path = (...points) => `M${points.map((point) => at(...point)).join("L")}`;
  return boxes.flatMap((box, i) => {
    if (!box.length) return [];
    const [low, lower, median, upper, high] = box;
    const text = `${levels[i]}: median ${decimals(median)}, middle half `
      + `${decimals(lower)} to ${decimals(upper)}, 90% ${decimals(low)} to ${decimals(high)}`;
    const [from, to] = [i - 0.32, i + 0.32];
    const around = path([from, lower], [to, lower], [to, upper], [from, upper]);
    return [
      drawing("path", { class: "whisker", d: path([i, low], [i, lower]) + path([i, upper], [i, high]) }),
      drawing("path", { class: "box", d: `${around}Z` }, drawing("title", {}, text)),
      drawing("path", { class: "curve", d: path([from, median], [to, median]) }),
    ];
  });
}

/* The share of each level of b in the rows of a level of a. */

function shares(a, b, counts, x, y) {
  return counts.flatMap((row, i) => {
    const total = row.reduce((sum, count) => sum + count, 0);
    return row.flatMap((count, j) => {
      const share = total ? count / total : 0;
      const size = { x: x(i - 0.5), y: y(j + 0.5), width: x(1) - x(0), height: y(0) - y(1) };
      const percent = `${Math.round(100 * share)}%`;
      const text = `${b.levels[j]} in ${a.levels[i]}: ${integers.format(count)} (${percent})`;
      const cell = drawing("rect", { class: "share", ...size, "fill-opacity": share.toFixed(3) },
        drawing("title", {}, text));
      const place = { x: x(i), y: y(j) + 3.5, "text-anchor": "middle" };
      const fits = size.width > 28 && size.height > 12;
      return fits ? [cell, drawing("text", { ...place, class: "label" }, percent)] : [cell];
    });
  });
}

/* Five quantiles of the numbers at each level, or counts of b's levels at each level of a. */

function groupsOf(a, b) {
  if (a.levels && b.levels) {
    const counts = a.levels.map(() => b.levels.map(() => 0));
    a.values.forEach((code, i) => {
      if (code !== null && b.values[i] !== null) counts[code][b.values[i]]++;
    });
    return counts;
  }
  const [codes, numbers] = a.levels ? [a.values, b.values] : [b.values, a.values];
  const sorted = (a.levels ?? b.levels).map((_, level) =>
    numbers.filter((value, i) => value !== null && codes[i] === level).sort((u, v) => u - v));
  const quantile = (values, share) => {
    const place = share * (values.length - 1);
    const [low, high] = [values[Math.floor(place)], values[Math.ceil(place)]];
    return low + (high - low) * (place % 1);
  };
  return sorted.map((values) =>
    (values.length ? [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => quantile(values, share)) : []));
}

/* The picture of the data: points and medians, boxes, or shares. */

function dataPanel(caption, a, b, { medians = [[], []], marked = null } = {}) {
  if (!a.levels && !b.levels) {
    return panel(caption, axisOf(a), axisOf(b), (x, y) => [
      ...scatter(a.values, b.values, x, y),
      ...conditionalMedians(medians, x, y),
      ...ring(marked, a.values, b.values, x, y),
    ]);
  }
  const groups = groupsOf(a, b);
  if (a.levels && b.levels) {
    return panel(caption, axisOf(a), axisOf(b), (x, y) => shares(a, b, groups, x, y));
  }
  const range = (side) => axisOf(side.levels ? side : { ...side, values: groups.flat(), x: [] });
  return panel(caption, range(a), range(b), (x, y) => (a.levels
    ? boxPlots(a.levels, groups, (level, value) => `${x(level)} ${y(value)}`)
    : boxPlots(b.levels, groups, (level, value) => `${x(value)} ${y(level)}`)));
}

function transformation(side, symbol) {
  const caption = `${symbol}(${side.name})`;
  const yAxis = numberAxis(symbol, side.levels ? side.y.concat(0) : side.y);
  const marks = (x, y) => (side.levels ? bars(side, x, y) : line(side, x, y));
  return panel(caption, axisOf(side), yAxis, marks);
}

function bars(side, x, y) {
  const drawn = side.x.filter((_, i) => side.y[i] !== null);
  return drawn.map((code) => {
    const value = side.y[side.x.indexOf(code)];
    const [top, bottom] = [y(Math.max(value, 0)), y(Math.min(value, 0))];
    const [from, to] = [x(code - 0.36), x(code + 0.36)];
    const size = { x: from, y: top, width: to - from, height: Math.max(bottom - top, 0.5) };
    const text = `${side.levels[code]}: ${decimals(value)}`;
    return drawing("rect", { class: "bar", ...size }, drawing("title", {}, text));
  });
}

function line(side, x, y) {
  const points = side.x.map((value, i) => [value, side.y[i]])
    .filter((point) => !point.includes(null)).map(([u, v]) => `${x(u)} ${y(v)}`);
  const turns = side.turns.map(([u, v]) => drawing("circle", { class: "turn", cx: x(u), cy: y(v), r: 4 }));
  return [drawing("path", { class: "curve", d: points.length ? `M${points.join("L")}` : "" }), ...turns];
}

/* A ring around the row that makes a large part of the correlation. */

function ring(marked, xs, ys, x, y) {
  if (marked === null || xs[marked] === null || ys[marked] === null) return [];
  return [drawing("circle", { class: "marked", cx: x(xs[marked]), cy: y(ys[marked]), r: 6 })];
}

function card(pair, index) {
  const { sides: [a, b], facts } = pair;
  const full = `${a.name} × ${b.name}`;
  const panels = element("div", { class: "panels", role: "region", tabindex: 0, "aria-label": full },
    dataPanel("Data", a, b, pair),
    transformation(a, "f"),
    transformation(b, "g"),
  );
  const heading = element("h3", { class: "name", title: full },
    `${shortened(a.name, 60)} × ${shortened(b.name, 60)}`);
  return element("article", { class: "detail", id: `detail-${index}` },
    heading, element("p", { class: "measures" }, facts), panels);
}

function showInTable(names) {
  table.choose(names);
  at("table-section").scrollIntoView({ block: "nearest", behavior: "smooth" });
}
