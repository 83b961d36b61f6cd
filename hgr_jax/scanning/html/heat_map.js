/* Colours: equal steps of lightness in OKLab, from a dark violet to a light yellow. */

const ramp = (() => {
  const anchors = [ // lightness, green to red, blue to yellow
    [0.26, 0.055, -0.085], [0.43, 0.0, -0.115], [0.6, -0.075, -0.03],
    [0.77, -0.135, 0.11], [0.94, -0.035, 0.165],
  ];
  const gamma = (v) => 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
  const color = (t) => {
    const position = t * (anchors.length - 1);
    const i = Math.min(Math.floor(position), anchors.length - 2);
    const [L, a, b] = anchors[i].map((v, k) => v + (position - i) * (anchors[i + 1][k] - v));
    const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
    return [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ].map((v) => Math.round(Math.min(255, gamma(Math.max(0, v)))));
  };
  return Array.from({ length: 256 }, (_, i) => color(i / 255));
})();

/* The heat map: one pixel for each cell in a hidden image, of which a square part is shown. */

function heatMap(choosePair) {
  const { names, above, below, measure, measure_below: measureBelow } = data;
  const p = names.length;
  const canvas = at("map");
  const context = canvas.getContext("2d");
  const image = Object.assign(element("canvas"), { width: p, height: p });
  const view = { zoom: 1, x: 0, y: 0 }; // x, y: the cell at the corner of the visible part
  const plot = { left: 0, top: 0, side: 1, cell: 1 };
  let hover = null;
  const colors = {};
  let drag = null;

  function values(i, j) {
    const [first, second] = i < j ? [i, j] : [j, i];
    const index = (first * (2 * p - first - 1)) / 2 + second - first - 1;
    return [above[index], below[index]];
  }

  const value = (i, j) => values(i, j)[i < j ? 0 : 1];
  const shade = (v) => ramp[Math.round(255 * Math.min(1, v))];

  function paint() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "muted", "card", "line", "absent"]) {
      colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const [absent, diagonal] = [rgb(colors.absent), rgb(colors.line)];
    const pixels = new ImageData(p, p);
    for (let i = 0, k = 0; i < p; i++) {
      for (let j = 0; j < p; j++, k += 4) {
        const v = i === j ? null : value(i, j);
        pixels.data.set(i === j ? diagonal : v === null ? absent : shade(v), k);
        pixels.data[k + 3] = 255;
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
    const margin = Math.round(Math.min(longest + 14, 150, Math.max(60, width * 0.25)));
    Object.assign(plot, { left: margin, top: margin, side: Math.max(40, width - margin - 1) });
    const ratio = window.devicePixelRatio || 1;
    const height = plot.top + plot.side + 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  function fitted(text, width) {
    const size = context.measureText(text).width;
    if (size <= width) return text;
    let length = Math.ceil(([...text].length * width) / size);
    while (length > 3 && context.measureText(shortened(text, length)).width > width) length--;
    return shortened(text, length);
  }

  function label(i, isColumn, strong) {
    const center = ((i + 0.5) - (isColumn ? view.x : view.y)) * plot.cell;
    if (center < 0 || center > plot.side) return;
    context.save();
    context.translate(plot.left, plot.top);
    context.translate(isColumn ? center : -6, isColumn ? -6 : center);
    if (isColumn) context.rotate(-Math.PI / 2);
    if (strong) {
      context.fillStyle = colors.card;
      context.fillRect(isColumn ? -3 : -plot.left + 6, -8, plot.left - 3, 16);
    }
    context.fillStyle = strong ? colors.ink : colors.muted;
    context.textAlign = isColumn ? "left" : "right";
    context.fillText(fitted(names[i], plot.left - 10), 0, 0);
    context.restore();
  }

  function draw() {
    const { left, top, side } = plot;
    const seen = p / view.zoom;
    const cell = plot.cell = side / seen;
    view.x = Math.min(Math.max(view.x, 0), p - seen);
    view.y = Math.min(Math.max(view.y, 0), p - seen);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(left, top, side, side);
    context.clip();
    context.imageSmoothingEnabled = cell < 1;
    context.drawImage(image, view.x, view.y, seen, seen, left, top, side, side);
    const x = (j) => left + (j - view.x) * cell;
    const y = (i) => top + (i - view.y) * cell;
    if (cell >= 34) {
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "center";
      for (let i = Math.floor(view.y); i < Math.min(p, view.y + seen); i++) {
        for (let j = Math.floor(view.x); j < Math.min(p, view.x + seen); j++) {
          const v = i === j ? null : value(i, j);
          if (v === null) continue;
          context.fillStyle = v > 0.55 ? "#101010" : "#ffffff";
          context.fillText(v.toFixed(2), x(j + 0.5), y(i + 0.5));
        }
      }
    }
    if (hover) {
      for (const [color, lineWidth] of [["#000000", 4], ["#ffffff", 2]]) {
        Object.assign(context, { strokeStyle: color, lineWidth });
        context.strokeRect(x(hover.j) - 1, y(hover.i) - 1, cell + 2, cell + 2);
      }
    }
    context.restore();
    context.font = `${Math.min(12, Math.max(10, cell * 0.8))}px system-ui, sans-serif`;
    const step = Math.ceil(11 / cell);
    for (let i = Math.ceil(view.y / step) * step; i < Math.min(p, view.y + seen); i += step) {
      label(i, false, false);
    }
    for (let j = Math.ceil(view.x / step) * step; j < Math.min(p, view.x + seen); j += step) {
      label(j, true, false);
    }
    if (hover) {
      label(hover.i, false, true);
      label(hover.j, true, true);
    }
    canvas.classList.toggle("zoomed", view.zoom > 1);
    const state = { zoom: view.zoom, cell, left: x(0), top: y(0) };
    for (const [name, number] of Object.entries(state)) canvas.dataset[name] = number.toFixed(3);
    at("zoom-out").disabled = view.zoom <= 1;
  }

  /* Zooms about the cell in `hover`, or the middle. */

  function zoom(factor) {
    const most = Math.max(4, (80 * p) / plot.side);
    const next = Math.min(most, Math.max(1, view.zoom * factor));
    const seen = p / view.zoom;
    const at = hover ? { x: hover.j + 0.5, y: hover.i + 0.5 }
      : { x: view.x + seen / 2, y: view.y + seen / 2 };
    for (const axis of ["x", "y"]) view[axis] = at[axis] - ((at[axis] - view[axis]) * view.zoom) / next;
    view.zoom = next;
    draw();
  }

  function reset() {
    Object.assign(view, { zoom: 1, x: 0, y: 0 });
    draw();
  }

  function under(event) {
    const j = Math.floor(view.x + (event.offsetX - plot.left) / plot.cell);
    const i = Math.floor(view.y + (event.offsetY - plot.top) / plot.cell);
    const inside = event.offsetX >= plot.left && event.offsetY >= plot.top;
    return inside && i >= 0 && j >= 0 && i < p && j < p ? { i, j } : null;
  }

  function point(event) {
    hover = under(event);
    show(event.clientX, event.clientY);
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

  /* Chooses the pair of a cell; returns a function that scrolls to it. */

  function choose(cell) {
    const [i, j] = [cell.i, cell.j].sort((first, second) => first - second);
    return choosePair([names[i], names[j]]);
  }

  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag && event.buttons) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (drag.moved || Math.hypot(dx, dy) > 4) {
        view.x -= dx / plot.cell;
        view.y -= dy / plot.cell;
        drag = { x: event.clientX, y: event.clientY, moved: true };
      }
    }
    point(event);
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("pointercancel", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("click", (event) => {
    const cell = under(event);
    if (!cell || (drag && drag.moved)) return;
    choose(cell)();
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = {
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    }[event.key];
    if (move) {
      const inside = (i) => Math.min(p - 1, Math.max(0, i));
      hover = hover ? { i: inside(hover.i + move[0]), j: inside(hover.j + move[1]) } : { i: 0, j: 1 };
      const seen = p / view.zoom;
      view.x = Math.min(hover.j, Math.max(view.x, hover.j + 1 - seen));
      view.y = Math.min(hover.i, Math.max(view.y, hover.i + 1 - seen));
      const corner = canvas.getBoundingClientRect();
      show(corner.left + plot.left + (hover.j + 0.5 - view.x) * plot.cell,
        corner.top + plot.top + (hover.i + 0.5 - view.y) * plot.cell);
      event.preventDefault();
    } else if (event.key === "Enter" && hover) choose(hover)();
    else if ("+=".includes(event.key)) zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") reset();
  });
  at("zoom-in").addEventListener("click", () => zoom(1.5));
  at("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
  at("zoom-reset").addEventListener("click", reset);
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
    + "Click a cell, or use arrows and Enter, to see the pair. "
    + "Plus and minus zoom, and a drag moves what is zoomed.";
  canvas.setAttribute("aria-label",
    `${measure} and ${measureBelow} of all pairs of ${p} columns; arrows choose a cell, Enter shows `
    + "its pair; the table holds the same values.");
  paint();
  return values;
}
