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
  // Values that have their first digits in common: only how they differ is written.
  const tens = 10 ** Math.ceil(Math.log10(high - low));
  const origin = step < 1e-5 * size ? Math.floor(extent(values)[0] / tens) * tens : 0;
  const largest = origin ? high - origin : size;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high && ticks.length < 10; i++) {
    const value = i * step + 0; // no -0
    ticks.push({ value, label: tickLabel(value - origin, step, largest) });
  }
  const maximumSignificantDigits = 1 + Math.max(0, Math.ceil(Math.log10(size / tens)));
  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits });
  const less = origin ? ` ${origin < 0 ? "+" : "\u2212"} ${digits.format(Math.abs(origin))}` : "";
  return { name: name + less, levels: null, low, high, ticks, room: 52 };
}

/* Days since a moment, with ticks where a calendar and a clock have them, of UTC. */

const DAY = 86400e3;
const CLOCK = [1 / 86400, 5 / 86400, 15 / 86400, 1 / 2880, 1 / 1440, 5 / 1440, 15 / 1440, 1 / 48,
  1 / 24, 2 / 24, 3 / 24, 6 / 24, 12 / 24, 1, 2, 7, 14];
const MONTH_NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000, 24000, 60000];

function dateAxis(name, values, first) {
  const [low, high] = padded(values);
  const moment = (days) => first * 1e3 + days * DAY;
  const span = high - low;
  if (span < 4 * CLOCK[0] || ![low, high].every((v) => Math.abs(moment(v)) < 8.6e15)) {
    return numberAxis(name, values);
  }
  const step = CLOCK.find((days) => span / days <= 4);
  const found = step ? clockTicks(moment(low), moment(high), step)
    : calendarTicks(moment(low), moment(high), span / 30.4369);
  const ticks = found.map(([time, label]) => ({ value: (time - moment(0)) / DAY, label }));
  return { name, levels: null, low, high, ticks, room: 72 };
}

function clockTicks(from, to, step) {
  const ticks = [];
  for (let i = Math.ceil(from / (step * DAY)); i * step * DAY <= to; i++) {
    const text = new Date(Math.round(i * step * DAY)).toISOString();
    const short = step < 1 / 1440 ? text.slice(11, 19) : text.slice(5, 16).replace("T", " ");
    ticks.push([i * step * DAY, step >= 1 ? text.slice(0, 10) : short]);
  }
  return ticks;
}

function calendarTicks(from, to, months) {
  const step = MONTHS.find((count) => months / count <= (count < 12 ? 5.8 : 6.5)) ?? MONTHS.at(-1);
  const start = new Date(from);
  const ticks = [];
  const before = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / step);
  for (let i = before; ; i++) {
    const [year, month] = [Math.floor((i * step) / 12), (((i * step) % 12) + 12) % 12];
    const time = new Date(0).setUTCFullYear(year, month, 1);
    if (!(time <= to)) return ticks;
    if (time < from) continue;
    const label = month === 0 ? String(year)
      : ticks.length ? MONTH_NAMES[month] : `${year}-${String(month + 1).padStart(2, "0")}`;
    ticks.push([time, label]);
  }
}

function axisOf({ name, levels, values, x, first }) {
  if (levels) return levelAxis(name, levels);
  const all = values.concat(x);
  return first === null ? numberAxis(name, all) : dateAxis(name, all, first);
}
