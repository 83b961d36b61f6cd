/* Title, summary, and those of the parts that this report has. */

let drawPair = null;

function start() {
  const { names, measure } = data;
  at("title").textContent = data.title;
  const listed = (pairs) => pairs.flatMap(([term, text]) => [
    element("dt", { class: "name" }, term), element("dd", { class: "name" }, text)]);
  at("summary").append(...data.summary.map((pair) => element("div", {}, ...listed([pair]))));
  at("left-out").append(...data.left_out.map((text) => element("p", { class: "hint" }, text)));

  const hasMap = names.length > 1;
  at("map-section").hidden = !hasMap;
  document.querySelector(".columns").classList.toggle("single", !hasMap || data.samples.length < 2);
  const values = !hasMap ? null : heatMap((pair) => {
    table.choose(pair);
    if (drawPair && pair[0] !== pair[1]) drawPair(pair);
    const part = drawPair && pair[0] !== pair[1] ? at("any-picture") : at("scroll");
    part.scrollIntoView({ block: "nearest", behavior: "smooth" });
  });
  const places = new Map(names.map((name, i) => [name, i]));

  const measures = (a, b) => {
    const [i, j] = [places.get(a), places.get(b)];
    if (i === undefined || j === undefined || i === j) return "";
    const [correlation, below] = values(i, j);
    return `${measure} ${decimals(correlation)} · ${data.measure_below} ${decimals(below)}`;
  };
  at("details").append(...data.details.map(card));
  at("skipped").append(...listed(data.skipped));
  columnParts();
  drawPair = chooser(measures);
  const parts = [
    ["details", data.details.length], ["any", data.samples.length > 1 ? 1 : 0],
    ["profiles", data.profiles.length], ["skipped", data.skipped.length],
  ];
  for (const [part, count] of parts) {
    const heading = at(`${part}-heading`).textContent;
    at(`${part}-section`).hidden = count === 0;
    const text = part === "any" ? heading : `${heading} (${integers.format(count)})`;
    if (count > 0) at("parts").append(element("a", { href: `#${part}-section` }, text));
  }
}

start();
