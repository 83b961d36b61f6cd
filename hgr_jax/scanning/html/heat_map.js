/* Colours from 0 to 1: viridis, as of the pictures of the package. */

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const ANCHORS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"].map(rgb);
const ramp = Array.from({ length: 256 }, (_, k) => {
  const [place, i] = [k / 64, Math.floor(k / 64)];
  return ANCHORS[i].map((v, c) => Math.round(v + (place - i) * (ANCHORS[i + 1][c] - v)));
});

/* The heat map: one pixel for each cell in a hidden image, which is drawn without smoothing. */

function heatMap(choosePair) {
  const { names, above, below, measure, measure_below: measureBelow } = data;
  const p = names.length;
  const canvas = at("map");
  const context = canvas.getContext("2d");
  const image = Object.assign(element("canvas"), { width: p, height: p });
  let [margin, cell, hover, colors] = [0, 1, null, {}];

  function values(i, j) {
    const [first, second] = i < j ? [i, j] : [j, i];
    const index = (first * (2 * p - first - 1)) / 2 + second - first - 1;
    return [above[index], below[index]];
  }

  const value = (i, j) => (i === j ? null : values(i, j)[i < j ? 0 : 1]);
  const place = (k) => margin + k * cell;

  function paint() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["muted", "line", "absent"]) {
      colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const [absent, diagonal] = [rgb(colors.absent), rgb(colors.line)];
    const pixels = new ImageData(p, p);
    for (let i = 0, k = 0; i < p; i++) {
      for (let j = 0; j < p; j++, k += 4) {
        const v = value(i, j);
        const shade = v === null ? absent : ramp[Math.round(255 * Math.min(1, v))];
        pixels.data.set([...(i === j ? diagonal : shade), 255], k);
      }
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
    resize();
  }

  function resize() {
    const width = canvas.clientWidth;
    if (width === 0) return;
    context.font = "12px system-ui, sans-serif";
    const longest = Math.max(...names.map((name) => context.measureText(name).width));
    margin = Math.round(Math.min(longest + 14, 150, Math.max(60, width * 0.25)));
    cell = Math.max(40, width - margin - 1) / p;
    const [ratio, height] = [window.devicePixelRatio || 1, place(p) + 1];
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const [name, number] of Object.entries({ margin, cell })) canvas.dataset[name] = number;
    draw();
  }

  function label(i, isColumn) {
    context.save();
    context.translate(isColumn ? place(i + 0.5) : margin - 6, isColumn ? margin - 6 : place(i + 0.5));
    if (isColumn) context.rotate(-Math.PI / 2);
    context.fillStyle = colors.muted;
    context.textAlign = isColumn ? "left" : "right";
    context.fillText(shortened(names[i], Math.floor((margin - 10) / 6.5)), 0, 0);
    context.restore();
  }

  function draw() {
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.textBaseline = "middle";
    context.imageSmoothingEnabled = false;
    context.drawImage(image, margin, margin, p * cell, p * cell);
    if (cell >= 34) {
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "center";
      names.forEach((_, i) => names.forEach((_, j) => {
        const v = value(i, j);
        context.fillStyle = v > 0.55 ? "#101010" : "#ffffff";
        if (v !== null) context.fillText(v.toFixed(2), place(j + 0.5), place(i + 0.5));
      }));
    }
    context.font = `${Math.min(12, Math.max(10, cell * 0.8))}px system-ui, sans-serif`;
    for (const isColumn of [false, true]) {
      for (let i = 0; i < p; i += Math.ceil(11 / cell)) label(i, isColumn);
    }
    if (!hover) return;
    for (const [color, lineWidth] of [["#000000", 4], ["#ffffff", 2]]) {
      Object.assign(context, { strokeStyle: color, lineWidth });
      context.strokeRect(place(hover.j) - 1, place(hover.i) - 1, cell + 2, cell + 2);
    }
  }

  function under(event) {
    const [j, i] = [event.offsetX, event.offsetY].map((x) => Math.floor((x - margin) / cell));
    return [i, j].every((k) => k >= 0 && k < p) ? { i, j } : null;
  }

  /* The values of the cell in `hover`, beside a place in the window. */

  function show(clientX, clientY) {
    const tip = at("tip");
    tip.hidden = !hover;
    draw();
    if (!hover) return;
    const [i, j] = [hover.i, hover.j].sort((first, second) => first - second);
    const [correlation, other] = values(i, j);
    const [a, b] = [i, j].map((k) => shortened(names[k], 80));
    const lines = i === j ? [a] : [`${a} × ${b}`,
      `${measure} ${correlation === null ? "not measured" : decimals(correlation)}`,
      `${measureBelow} ${other === null ? "not measured" : decimals(other)}`];
    tip.replaceChildren(...lines.map((line) => element("p", {}, line)));
    const fits = (start, size, room) =>
      Math.max(4, start + 16 + size > room ? start - size - 12 : start + 16);
    const room = document.documentElement.clientWidth;
    tip.style.left = `${fits(clientX, tip.offsetWidth, room)}px`;
    tip.style.top = `${fits(clientY, tip.offsetHeight, window.innerHeight)}px`;
  }

  function leave() {
    hover = null;
    at("tip").hidden = true;
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    hover = under(event);
    show(event.clientX, event.clientY);
  });
  for (const away of ["pointerleave", "pointercancel"]) canvas.addEventListener(away, leave);
  canvas.addEventListener("click", (event) => {
    const chosen = under(event);
    if (!chosen) return;
    const [i, j] = [chosen.i, chosen.j].sort((first, second) => first - second);
    choosePair([names[i], names[j]]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  let width = 0;
  new ResizeObserver(() => {
    if (canvas.clientWidth === width) return;
    width = canvas.clientWidth;
    resize();
  }).observe(canvas);
  const stops = ramp.filter((_, i) => i % 15 === 0).map((rgb) => `rgb(${rgb.join(" ")})`);
  at("ramp").style.background = `linear-gradient(to right, ${stops.join(",")})`;
  const monotone = measureBelow === "monotone part"
    ? " (|Spearman|; with a category, what mean ranks of its levels explain)" : "";
  at("map-hint").textContent = `${measure} above the diagonal, ${measureBelow}${monotone} below. `
    + "Click a cell to see the pair.";
  canvas.setAttribute("aria-label",
    `${measure} and ${measureBelow} of all pairs of ${p} columns, which the table holds too.`);
  paint();
  return values;
}
