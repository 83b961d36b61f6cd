/* The table of pairs: an order of all rows, those of them that match, and one page of these. */

const cardOf = (() => {
  const key = (a, b) => JSON.stringify([a, b].sort());
  const cards = new Map(data.details.map(({ sides: [a, b] }, i) => [key(a.name, b.name), i]));
  return (a, b) => (cards.has(key(a, b)) ? `detail-${cards.get(key(a, b))}` : null);
})();

const table = (() => {
  const { columns, rows } = data;
  const PAGE = 200;
  const [left, right] = columns.map((column) => column.values);
  const lowered = columns.slice(0, 2).map((c) => c.levels.map((level) => level.toLowerCase()));
  let order = Uint32Array.from({ length: rows }, (_, i) => i);
  let matching = order;
  let page = 0;
  const first = columns.findIndex((column) => column.ordering);
  let sorted = first < 0 ? null : { column: first, sign: strongest(columns[first]) };
  let pair = null; // names of a pair; one name twice stands for all pairs of that column

  // The first click on a header brings the strongest to the top, or the first name.
  function strongest({ levels, smallest }) {
    return levels || smallest ? 1 : -1;
  }

  function mark() {
    [...at("headers").children].forEach((th, i) => {
      if (sorted && i === sorted.column) {
        th.setAttribute("aria-sort", sorted.sign > 0 ? "ascending" : "descending");
      } else th.removeAttribute("aria-sort");
    });
  }

  function sort(index) {
    const { values, levels } = columns[index];
    const again = sorted && sorted.column === index;
    const sign = again ? -sorted.sign : strongest(columns[index]);
    let keys = Float64Array.from(values, (value) => value ?? NaN);
    if (levels) {
      const { compare } = new Intl.Collator("en", { numeric: true });
      const ranks = [];
      levels.map((_, i) => i).sort((i, j) => compare(levels[i], levels[j]))
        .forEach((level, rank) => { ranks[level] = rank; });
      keys = Float64Array.from(values, (code) => ranks[code]);
    }
    const last = (i) => (Number.isNaN(keys[i]) ? 1 : 0);
    order = Uint32Array.from({ length: rows }, (_, i) => i)
      .sort((i, j) => last(i) - last(j) || sign * (keys[i] - keys[j]) || i - j);
    sorted = { column: index, sign };
    mark();
    filter();
  }

  function ofPair() {
    if (!pair) return () => true;
    const code = (column, name) => {
      const found = columns[column].levels.indexOf(name);
      return found < 0 ? null : found;
    };
    const [a, b] = pair;
    const [aLeft, aRight, bLeft, bRight] = [code(0, a), code(1, a), code(0, b), code(1, b)];
    if (a === b) return (row) => left[row] === aLeft || right[row] === aRight;
    return (row) => (left[row] === aLeft && right[row] === bRight)
      || (left[row] === bLeft && right[row] === aRight);
  }

  function filter() {
    const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.map((word) => lowered.map((names) => names.map((n) => n.includes(word))));
    const isPair = ofPair();
    matching = order.filter((row) => isPair(row)
      && hits.every(([inLeft, inRight]) => inLeft[left[row]] || inRight[right[row]]));
    page = 0;
    at("pair").hidden = !pair;
    if (pair) at("pair").textContent = `${[...new Set(pair)].map((n) => shortened(n, 60)).join(" × ")}  ✕`;
    const total = rows < data.pairs ? `, the first of ${integers.format(data.pairs)}` : "";
    at("count").textContent =
      `${integers.format(matching.length)} of ${integers.format(rows)} pairs${total}`;
    at("none").hidden = matching.length > 0;
    at("none").textContent = rows === 0 ? "No pair was measured."
      : !pair || words.length ? "No pair matches."
      : total ? "This pair is not listed here, or was not measured." : "This pair was not measured.";
    show();
  }

  function cell(column, index, row) {
    const value = column.values[row];
    if (column.levels) {
      const text = column.levels[value];
      const short = shortened(text, index < 2 ? 22 : 80);
      const picture = index > 0 ? null : cardOf(text, columns[1].levels[right[row]])
        ?? (data.samples.length > 1 ? "any-section" : null);
      if (!picture) return element("td", { class: "name", title: text }, short);
      const link = element("a", { href: `#${picture}` }, short);
      link.addEventListener("click", () => drawPair?.([text, columns[1].levels[right[row]]]));
      return element("td", { class: "name", title: text }, link);
    }
    const text = column.integer && value !== null ? integers.format(value)
      : column.smallest && value !== null && value < column.smallest ? `<${column.smallest}`
      : column.smallest && value === column.floor ? `<${value}` : decimals(value);
    return element("td", { class: "number", title: value ?? "none" }, text);
  }

  function show() {
    const pages = Math.max(1, Math.ceil(matching.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const visible = matching.subarray(page * PAGE, (page + 1) * PAGE);
    at("pairs").replaceChildren(...Array.from(visible, (row) =>
      element("tr", {}, ...columns.map((column, i) => cell(column, i, row)))));
    at("page").textContent = `page ${integers.format(page + 1)} of ${integers.format(pages)}`;
    at("pager").hidden = pages === 1;
    for (const id of ["first", "previous"]) at(id).disabled = page === 0;
    for (const id of ["next", "last"]) at(id).disabled = page === pages - 1;
    at("scroll").scrollTop = 0;
  }

  function choose(names) {
    pair = names;
    if (names) at("search").value = "";
    filter();
  }

  columns.forEach((column, i) => {
    const words = column.name.split(" ").map((word) => element("span", {}, word));
    const button = element("button", { type: "button" }, ...words.flatMap((word) => [word, " "]));
    button.addEventListener("click", () => sort(i));
    const kind = column.levels ? "name" : "number";
    const title = column.help ? { title: column.help } : {};
    at("headers").append(element("th", { class: kind, scope: "col", ...title }, button));
  });
  const explained = columns.filter((column) => column.help);
  at("meanings").append(...explained.flatMap(({ name, help }) => [
    element("dt", { class: "name" }, name), element("dd", {}, help)]));
  at("meanings").parentElement.hidden = explained.length === 0;
  mark();
  const turns = { first: () => 0, previous: () => page - 1, next: () => page + 1, last: () => 1e9 };
  for (const [id, turn] of Object.entries(turns)) {
    at(id).addEventListener("click", () => { page = turn(); show(); });
  }
  at("search").addEventListener("input", filter);
  at("pair").addEventListener("click", () => choose(null));
  filter();
  return { choose };
})();
