/* What is along one side of a panel: a range of numbers or dates, or levels at 0, 1, 2, ... */

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low > high ? [0, 1] : [low, high];
}

function tickLabel(value, step, largest) {
  if (largest >= 1e15 || step < 1e-4) return value === 0 ? "0" : value.toPrecision(3);
  if (largest >= 1e4 && step >= 100) {
    const unit = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : 1e3;
    const maximumFractionDigits = Math.min(3, Math.max(0, Math.ceil(-Math.log10(step / unit))));
    const options = { notation: "compact", maximumFractionDigits };
    return new Intl.NumberFormat("en", options).format(value);
  }
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  return value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1"); // no -0
}

function levelAxis(name, levels) {
  const step = Math.ceil(levels.length / 12);
  const ticks = levels.map((label, value) => ({ value, label })).filter((_, i) => i % step === 0);
  return { name, levels, low: -0.5, high: levels.length - 0.5, ticks, room: 92 };
}

function padded(values) {
  const [low, high] = extent(values);
  const pad = low < high ? (high / 2 - low / 2) * 0.08 : Math.abs(low) * 0.1 || 0.5;
  return [Math.max(low - pad, -Number.MAX_VALUE), Math.min(high + pad, Number.MAX_VALUE)];
}

function numberAxis(name, values) {
  const [low, high] = padded(values);
  const raw = high / 5 - low / 5;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw * 0.999);
  const size = Math.max(Math.abs(low), Math.abs(high));
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high && ticks.length < 10; i++) {
    const value = i * step + 0; // no -0
    ticks.push({ value, label: tickLabel(value, step, size) });
  }
  return { name, levels: null, low, high, ticks, room: 52 };
}

/* Days since a moment, in seconds since 1970: dates, or moments where the axis is short, of UTC. */

function dateAxis(name, values, first) {
  const [low, high] = padded(values);
  const moment = (days) => first * 1e3 + days * 86400e3;
  if (![low, high].every((days) => Math.abs(moment(days)) < 8.6e15)) return numberAxis(name, values);
  const isShort = high - low < 4;
  const ticks = [0.1, 0.5, 0.9].map((share) => {
    const days = low + share * (high - low);
    const value = isShort ? days : Math.round(days);
    const text = new Date(moment(value)).toISOString();
    return { value, label: isShort ? text.slice(5, 16).replace("T", " ") : text.slice(0, 10) };
  });
  return { name, levels: null, low, high, ticks, room: 72 };
}

function axisOf({ name, levels, values, x, first }) {
  if (levels) return levelAxis(name, levels);
  const all = values.concat(x);
  return first === null ? numberAxis(name, all) : dateAxis(name, all, first);
}
