/* Title, summary, and those of the parts that this report has. */

function start() {
  const { names, measure } = data;
  at("title").textContent = data.title;
  const listed = (pairs) => pairs.flatMap(([term, text]) => [
    element("dt", { class: "name" }, term), element("dd", { class: "name" }, text)]);
  at("summary").append(...data.summary.map((pair) => element("div", {}, ...listed([pair]))));
  at("left-out").append(...data.left_out.map((text) => element("p", { class: "hint" }, text)));

  const hasMap = names.length > 1;
  at("map-section").hidden = !hasMap;
  document.querySelector(".columns").classList.toggle("single", !hasMap);
  const values = hasMap ? heatMap() : null;
  const places = new Map(names.map((name, i) => [name, i]));

  const measures = ([a, b]) => {
    const [i, j] = [places.get(a.name), places.get(b.name)];
    if (i === undefined || j === undefined || i === j) return "";
    const [correlation, pearson] = values(i, j);
    return `${measure} ${decimals(correlation)} · |Pearson| ${decimals(pearson)}`;
  };
  at("details").append(...data.details.map((pair, i) => card(pair, i, measures(pair.sides))));
  at("skipped").append(...listed(data.skipped));
  columnParts();
  const parts = [
    ["details", data.details.length], ["any", data.samples.length > 1 ? 1 : data.no_samples.length],
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
