// Maps: a row of coloured cells per head. They are tables, so every number can be read, and rows are chosen by button.

/**
 * `rows` are {name, title, key}, `groups` are columns {name, labels, values [row][column], colour, text, says, period},
 * `bar` optionally is {name, values, low, high} before them. `chosen` is a row's key, `changed` gets another.
 */
function map({ caption, rows, groups, bar, chosen, changed }) {
  const columns = groups.reduce((sum, group) => sum + group.labels.length, 0);
  // numbers where they fit; they are always there for screen readers and pointers
  const wide = columns > 24 || groups.some((group) => group.labels.length > 12);
  const buttons = rows.map((row) =>
    h("button", { type: "button", "aria-pressed": String(row.key === chosen), title: row.title, "data-key": row.key, tabindex: row.key === chosen ? 0 : -1 }, row.name));
  if (!rows.some((row) => row.key === chosen)) buttons[0]?.setAttribute("tabindex", 0);
  const pick = (at, focus) => {
    if (at < 0 || at >= rows.length) return;
    rowsDrawn.forEach((row, index) => row.classList.toggle("chosen", index === at));
    buttons.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(index === at));
      button.setAttribute("tabindex", index === at ? 0 : -1);
    });
    if (focus) buttons[at].focus();
    changed(rows[at].key);
  };
  const keyed = (event, at) => {
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    pick(to, true);
  };
  const rowsDrawn = rows.map((row, at) => {
    const cells = groups.flatMap((group, number) => [
      number ? h("td", { class: "gap", "aria-hidden": "true" }) : null,
      ...group.values[at].map((value, column) => {
        const colour = group.colour(value);
        return h("td", {
          class: "cell" + (group.period && column && column % group.period === 0 ? " border" : ""),
          style: { background: colour, color: readable(colour) }, title: `${row.title}, ${group.says(column, value)}`,
        }, h("span", { class: wide ? "sr" : null }, group.text(value)));
      }),
    ]);
    const first = bar && h("td", { class: "bar", title: `${row.title}, ${bar.name} ${fixed(bar.values[at], 2)}` },
      h("i", { style: { width: `${(45 * Math.max(0, bar.values[at] - bar.low)) / Math.max(1e-9, bar.high - bar.low)}%` } }),
      h("span", null, fixed(bar.values[at], 1)));
    buttons[at].addEventListener("keydown", (event) => keyed(event, at));
    return h("tr", { class: row.key === chosen ? "chosen" : null, onclick: () => pick(at) },
      h("th", { scope: "row" }, buttons[at]), first, bar && h("td", { class: "gap", "aria-hidden": "true" }), cells);
  });
  const gap = () => h("col", { class: "gap" });
  const skip = () => h("td", { class: "gap" });
  return h("table", { class: `map${columns > 8 ? " many" : ""}` }, h("caption", null, caption),
    h("colgroup", null, h("col", { class: "names" }), bar && [h("col", { style: { width: "3.2rem" } }), gap()],
      groups.map((group, number) => [number ? gap() : null, ...group.labels.map(() => h("col"))])),
    h("thead", null,
      groups.length > 1 || bar ? h("tr", null, h("td"), bar && [h("th", { scope: "col" }, bar.name), skip()],
        groups.map((group, number) => [number ? skip() : null, h("th", { scope: "colgroup", colspan: group.labels.length }, group.name)])) : null,
      h("tr", null, h("th", { scope: "col" }, "head"), bar && [h("td"), skip()],
        groups.map((group, number) => [number ? skip() : null,
          ...group.labels.map((label, at) => h("th", { scope: "col", "aria-label": `${group.name} ${label}` }, group.labels.length > 12 && at % (group.period || 4) ? "" : label))]))),
    h("tbody", null, rowsDrawn));
}

/** What the colours of a map mean. */
function scaleKey(colours, low, high, name) {
  return h("span", { class: "scale" }, low, h("i", { style: { background: `linear-gradient(to right, ${colours.join(",")})` } }), `${high} (${name})`);
}

const notJudgedKey = () => h("span", { class: "scale" }, h("i", { class: "square", style: { background: data.colours.undefined } }), `not judged: the model answers less than ${data.judgedFrom} % there`);
