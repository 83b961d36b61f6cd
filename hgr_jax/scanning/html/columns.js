/* The columns: a summary of each, and a picture of any two. */

const BAR = 5;
const BARS_HEIGHT = 22;

function histogram(bars) {
  const most = Math.max(...bars);
  const box = { width: BAR * bars.length, height: BARS_HEIGHT, "aria-hidden": "true" };
  const svg = drawing("svg", { class: "bars", viewBox: `0 0 ${box.width} ${BARS_HEIGHT}`, ...box });
  bars.forEach((count, i) => {
    const height = count ? Math.max(1, (BARS_HEIGHT * count) / most) : 0;
    svg.append(drawing("rect", {
      class: "bar", x: BAR * i, y: (BARS_HEIGHT - height).toFixed(1), width: BAR - 1,
      height: height.toFixed(1),
    }));
  });
  return svg;
}

const counted = (number, word) => `${integers.format(number)} ${word}${number === 1 ? "" : "s"}`;

function profileRow({ name, kind, distinct, missing, values, bars, alerts }) {
  const count = (number) => (number === null ? "–" : integers.format(number));
  const full = { class: "name", title: name };
  const head = element("th", { ...full, scope: "row" }, shortened(name, 40));
  const marks = alerts.map((alert) => element("p", {}, alert));
  return element("tr", {}, head,
    element("td", {}, kind),
    element("td", { class: "number" }, count(distinct)),
    element("td", { class: "number" }, count(missing)),
    element("td", { class: "values" }, values),
    element("td", {}, bars.length ? histogram(bars) : ""),
    element("td", { class: "alerts" }, ...marks));
}

/* A picture of any two columns, of the same rows for all; returns a function that draws a pair. */

function chooser(measures) {
  const { samples } = data;
  if (samples.length < 2) return null;
  const selects = [at("any-a"), at("any-b")];
  for (const select of selects) {
    select.append(...samples.map(({ name }, i) =>
      element("option", { value: i, title: name }, shortened(name, 60))));
  }
  const draw = () => {
    const [a, b] = selects.map((select) => samples[select.value]);
    const rows = a.values.filter((value, i) => value !== null && b.values[i] !== null).length;
    at("any-facts").textContent = measures(a.name, b.name);
    const card = cardOf(a.name, b.name);
    if (card) at("any-facts").append(" ", element("a", { href: `#${card}` }, "f and g"));
    at("any-picture").replaceChildren(dataPanel(counted(rows, "row"), a, b));
  };
  for (const select of selects) select.addEventListener("change", draw);
  at("any-table").addEventListener("click", () => {
    showInTable(selects.map((select) => samples[select.value].name));
  });
  const choose = (names) => {
    names.forEach((name, k) => {
      const found = samples.findIndex((sample) => sample.name === name);
      if (found >= 0) selects[k].value = String(found);
    });
    draw();
  };
  choose(data.details.length ? data.details[0].sides.map(({ name }) => name)
    : samples.slice(0, 2).map(({ name }) => name));
  return choose;
}

function columnParts() {
  at("profiles").append(...data.profiles.map(profileRow));
  const alerts = data.profiles.filter((profile) => profile.alerts.length).length;
  at("profiles-count").textContent =
    `${counted(data.profiles.length, "column")}, ${alerts} with something to look at`;
  at("profiles-alerts").hidden = alerts === 0;
  at("only-alerts").addEventListener("change", (event) => {
    [...at("profiles").children].forEach((row, i) => {
      row.hidden = event.target.checked && !data.profiles[i].alerts.length;
    });
  });
}
