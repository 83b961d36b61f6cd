/* The pictures of one pair: data, both transformations, and the transformed data, as SVG. */

const WIDTH = 300;
const HEIGHT = 250;

/* A frame with ticks and names; draw(x, y) returns the marks, given the scales. */

function panel(caption, xAxis, yAxis, draw) {
  const [left, below] = [yAxis.room, xAxis.levels ? 78 : 38];
  const box = { left, right: WIDTH - 8, top: 6, bottom: HEIGHT - below };
  const part = (axis, v) => (v / 2 - axis.low / 2) / (axis.high / 2 - axis.low / 2);
  const x = (v) => +(box.left + (box.right - box.left) * part(xAxis, v)).toFixed(2);
  const y = (v) => +(box.bottom - (box.bottom - box.top) * part(yAxis, v)).toFixed(2);
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const svg = drawing("svg", { viewBox, role: "img", "aria-label": caption });
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

function scatter(xs, ys, x, y, jitter) {
  const layers = Array.from({ length: 10 }, () => []);
  // As good as random: a sequence of even steps would draw lines of its own beside ordered rows.
  const noise = (i, seed) => Math.abs((Math.sin((i + 1) * seed) * 43758.5453) % 1);
  const spread = (on, i, seed) => (on ? 0.6 * noise(i, seed) - 0.3 : 0);
  xs.forEach((value, i) => {
    if (value === null || ys[i] === null) return;
    const right = x(value + spread(jitter[0], i, 12.9898));
    const up = y(ys[i] + spread(jitter[1], i, 78.233));
    layers[i % layers.length].push(`M${right} ${up}h.01`);
  });
  const size = Math.min(5, Math.max(2.4, 5 - Math.log10(xs.length / 50)));
  const look = { class: "points", "stroke-width": size.toFixed(2) };
  return layers.filter((layer) => layer.length)
    .map((layer) => drawing("path", { ...look, d: layer.join("") }));
}

function transformation(side, symbol) {
  const caption = `${symbol}(${side.name})`;
  const yAxis = numberAxis(symbol, side.levels ? side.y.concat(0) : side.y);
  const marks = (x, y) => (side.levels ? bars(side, x, y) : [line(side, x, y)]);
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
  let pen = "M";
  const parts = side.x.map((value, i) => {
    if (value === null || side.y[i] === null) {
      pen = "M";
      return "";
    }
    const part = `${pen}${x(value)} ${y(side.y[i])}`;
    pen = "L";
    return part;
  });
  return drawing("path", { class: "curve", d: parts.join("") });
}

/* Pearson's correlation of the rows where there are both, with the line of least squares. */

function fitLine(xs, ys) {
  const rows = xs.map((value, i) => [value, ys[i]]).filter(([u, v]) => u !== null && v !== null);
  const mean = (k) => rows.reduce((sum, row) => sum + row[k] / rows.length, 0);
  const [mx, my] = [mean(0), mean(1)];
  let [xx, xy, yy] = [0, 0, 0];
  for (const [u, v] of rows) {
    xx += (u - mx) ** 2;
    xy += (u - mx) * (v - my);
    yy += (v - my) ** 2;
  }
  const r = xy / Math.sqrt(xx) / Math.sqrt(yy);
  return Number.isFinite(r) ? { r, mx, my, slope: xy / xx } : null;
}

/* The part of the line that is inside of both axes. */

function fittedLine({ mx, my, slope }, xAxis, yAxis, x, y) {
  const across = [yAxis.low, yAxis.high].map((v) => mx + (v - my) / slope).sort((u, v) => u - v);
  const inside = slope === 0 ? [xAxis.low, xAxis.high]
    : [Math.max(xAxis.low, across[0]), Math.min(xAxis.high, across[1])];
  const ends = inside.map((u) => `${x(u)} ${y(my + slope * (u - mx))}`);
  return drawing("path", { class: "curve", d: `M${ends.join("L")}` });
}

/* A ring around the row that makes a large part of the correlation. */

function ring(marked, xs, ys, x, y) {
  if (marked === null || xs[marked] === null || ys[marked] === null) return [];
  return [drawing("circle", { class: "marked", cx: x(xs[marked]), cy: y(ys[marked]), r: 6 })];
}

const LISTED = 8; // copies of a column

const STRIPES = "A level of a category is a stripe: a point's place within it is made up, so that "
  + "points do not hide each other, and means nothing.";

function card({ sides: [a, b], note, facts: inWords, pearson, correlation, marked }, index, measures) {
  const jitter = [Boolean(a.levels), Boolean(b.levels)];
  const sampled = jitter.includes(true) ? null : fitLine(a.values, b.values);
  const linear = pearson === null ? sampled : { r: pearson };
  // Transformed columns have mean 0 and variance 1, so the slope of all rows is their correlation.
  const after = correlation === null ? fitLine(a.transformed, b.transformed)
    : { r: correlation, mx: 0, my: 0, slope: correlation };
  const withR = (text, fit) => (fit ? `${text}: r = ${fit.r.toFixed(3)}` : text);
  const fAxis = numberAxis(`f(${a.name})`, a.transformed);
  const gAxis = numberAxis(`g(${b.name})`, b.transformed);
  const button = element("button", { type: "button" }, "Show in table");
  button.addEventListener("click", () => {
    table.choose([a.name, b.name]);
    at("table-section").scrollIntoView({ block: "nearest", behavior: "smooth" });
  });
  const panels = element("div", { class: "panels" },
    panel(withR("Data", linear), axisOf(a), axisOf(b),
      (x, y) => [...scatter(a.values, b.values, x, y, jitter),
        ...(jitter.includes(true) ? [] : ring(marked, a.values, b.values, x, y))]),
    transformation(a, "f"),
    transformation(b, "g"),
    panel(withR("Transformed", after), fAxis, gAxis, (x, y) => {
      const marks = [...scatter(a.transformed, b.transformed, x, y, [false, false]),
        ...ring(marked, a.transformed, b.transformed, x, y)];
      return after ? [...marks, fittedLine(after, fAxis, gAxis, x, y)] : marks;
    }),
  );
  const full = `${a.name} × ${b.name}`;
  const heading = element("h3", { class: "name", title: full },
    `${shortened(a.name, 60)} × ${shortened(b.name, 60)}`);
  const facts = element("span", { class: "measures" }, inWords || measures, button);
  const article = element("article", { class: "detail", id: `detail-${index}` },
    element("div", { class: "heading" }, heading, facts), panels);
  if (jitter.includes(true)) article.append(element("p", { class: "note stripes" }, STRIPES));
  for (const { name, copies } of [a, b]) {
    if (!copies.length) continue;
    const others = copies.slice(0, LISTED).map((copy) => shortened(copy, 60)).join(", ");
    const more = copies.length > LISTED ? ` and ${copies.length - LISTED} more` : "";
    const text = `${shortened(name, 60)} stands for its copies too: ${others}${more}`;
    article.append(element("p", { class: "note copies", title: copies.join(", ") }, text));
  }
  if (note) article.append(element("p", { class: "note" }, note));
  return article;
}
