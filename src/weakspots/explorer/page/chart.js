// Line and point charts by ECharts, each with a label for screen readers, a legend and a table of its numbers.

const dark = matchMedia("(prefers-color-scheme: dark)"); // where the darkest colours of a scale need an outline
const live = new Set(); // charts on screen, to resize and to take down

/** The parts of an option that all charts share. `x` and `y` are axes, `series` as ECharts takes them. */
function baseOption({ x, y, series, tooltip, right = 12, left = 52 }) {
  const quiet = css("--quiet");
  const axis = (given) => ({
    type: "value", nameLocation: "middle", axisLine: { show: true, onZero: false, lineStyle: { color: quiet } }, splitLine: { show: false },
    axisTick: { show: true }, axisLabel: { color: quiet, fontSize: 12, hideOverlap: true },
    nameTextStyle: { color: quiet, fontSize: 12 }, ...given,
  });
  const right_axes = Array.isArray(y) && y.length > 1;
  return {
    animation: false, // nothing moves by itself, and a drawing is complete when it is shown
    grid: { left, right: right_axes ? 56 : right, top: 16, bottom: 54 },
    xAxis: axis({ nameGap: 34, ...x }),
    yAxis: Array.isArray(y) ? y.map((one) => axis({ nameGap: 36, ...one })) : axis({ nameGap: 36, ...y }),
    series,
    tooltip: {
      trigger: "axis", renderMode: "richText", confine: true, backgroundColor: css("--panel"), borderColor: css("--line"),
      textStyle: { color: css("--text"), fontSize: 12 }, axisPointer: { type: "line", lineStyle: { color: quiet } }, ...tooltip,
    },
  };
}

/** The x axis of whole positions 0 to count - 1, with a label at every n-th. */
const positions = (count, every, name) => {
  const shown = range(count).filter((x) => x % every === 0);
  return { min: -0.5, max: count - 0.5, name, axisLabel: { color: css("--quiet"), fontSize: 12, margin: 15, customValues: shown }, axisTick: { customValues: shown }, axisLine: { show: true, onZero: false, lineStyle: { color: css("--quiet") } } };
};

/** A y axis of percent with signs, or of shares. */
const signedAxis = (given) => ({ axisLabel: { color: css("--quiet"), fontSize: 12, formatter: (value) => signed(value, 0) }, ...given });

/**
 * A chart. `make()` gives its option anew (colours follow the system's light or dark), `label` says what it shows,
 * `legend` is a list of {name, colour, kind}, `table` is {caption, columns, rows}.
 */
function chart({ make, label, legend = [], table, height = 320 }) {
  const place = h("div", { class: "chart", role: "img", "aria-label": label, style: { height: `${height}px` } });
  const figure = h("div", null, place, legendList(legend), table && tableView(table));
  figure.start = () => {
    const drawn = echarts.init(place, null, { renderer: "svg" });
    const draw = () => drawn.setOption(make(), true);
    draw();
    const entry = { drawn, draw };
    live.add(entry);
  };
  return figure;
}

/** Start the charts inside a view that is in the page now: they need its width. */
const startCharts = (root) => root.querySelectorAll(".chart").forEach((place) => place.parentElement.start?.());

/** Take down the charts inside an element. */
function clearCharts(root) {
  for (const entry of live) {
    if (!root.contains(entry.drawn.getDom())) continue;
    entry.drawn.dispose();
    live.delete(entry);
  }
}

/** An element whose content `render()` makes anew at every `update()`. */
function panel(render) {
  const element = h("div");
  element.update = () => {
    clearCharts(element);
    element.replaceChildren(...[render()].flat(Infinity).filter(Boolean));
    if (element.isConnected) startCharts(element);
  };
  element.update();
  return element;
}

window.addEventListener("resize", () => live.forEach(({ drawn }) => drawn.resize()));
dark.addEventListener("change", () => live.forEach(({ draw }) => draw()));

const LINES = { solid: "", dashed: "5 3", dotted: "2 2", dashdot: "7 2 2 2" };

/** Names of lines and points with a sample of each: kind is a dash of LINES, point, hollow, triangle or band. */
function legendList(entries) {
  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const sample = ({ colour, kind }) => {
    const picture = svg("svg", { width: 26, height: 12, "aria-hidden": "true" });
    if (kind in LINES) picture.append(svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.2, "stroke-dasharray": LINES[kind] }));
    else if (kind === "band") picture.append(svg("rect", { width: 26, height: 12, fill: colour, opacity: 0.3 }));
    else if (kind === "bar") picture.append(svg("rect", { x: 8, width: 10, height: 12, fill: colour }));
    else if (kind === "triangle") picture.append(svg("path", { d: "M13 1 L18 11 L8 11 Z", fill: colour }));
    else if (kind === "diamond") picture.append(svg("path", { d: "M13 1 L18 6 L13 11 L8 6 Z", fill: "none", stroke: colour, "stroke-width": 2 }));
    else picture.append(svg("circle", { cx: 13, cy: 6, r: 4.5, stroke: kind === "hollow" ? colour : css("--text"), "stroke-width": kind === "hollow" ? 2 : 0.8, fill: kind === "hollow" ? "none" : colour }));
    return picture;
  };
  return h("ul", { class: "legend" }, entries.map((entry) => h("li", null, sample(entry), entry.name)));
}

/** The numbers of a chart as a table that can be unfolded. */
function tableView({ caption, columns, rows }) {
  return h("details", null, h("summary", null, "Table of these numbers"), dataTable({ caption, columns, rows }));
}

function dataTable({ caption, columns, rows }) {
  const cell = (tag, value, at) => h(tag, { class: at === 0 || value instanceof Node ? "text" : null, scope: tag === "th" ? "col" : null }, value);
  // the caption stays in sight while a wide table is scrolled; readers of the screen have the table's own
  return h("div", null, h("p", { class: "note", "aria-hidden": "true" }, caption), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: "data" }, h("caption", { class: "sr" }, caption),
      h("thead", null, h("tr", null, columns.map((name, at) => cell("th", name, at)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((value, at) => cell("td", value, at))))))));
}

const dash = { solid: "solid", dashed: [5, 3], dotted: [2, 2], dashdot: [7, 2, 2, 2] };

/**
 * A curve by position: solid inside a period, with a thin dotted line across the borders. `points` are [x, y] with null
 * where there is none.
 */
function curve(points, { colour, period, kind = "solid", width = 2, name, symbol = "circle", yAxisIndex = 0 }) {
  const pieces = [];
  for (const [at, [x, y]] of points.entries()) {
    if (at && period && x % period === 0) pieces.push([x - 0.5, null]);
    pieces.push([x, y]);
  }
  const line = { type: "line", yAxisIndex, lineStyle: { color: colour, width, type: dash[kind] }, itemStyle: { color: colour } };
  const across = { ...line, data: points, symbol: "none", silent: true, lineStyle: { color: colour, width: 1, type: dash.dotted, opacity: 0.7 } };
  const inside = { ...line, name, data: pieces, symbol, symbolSize: symbol === "none" ? 0 : 5 };
  return period ? [across, inside] : [inside];
}

/** A band between two curves; drawn as one polygon, since stacking needs categories. */
function band(xs, low, high, colour) {
  if (!low || !low.some(present)) return [];
  return [{
    type: "custom", silent: true, z: 1, data: [0], clip: true, tooltip: { show: false },
    renderItem: (_, api) => {
      const upper = xs.map((x, at) => api.coord([x, high[at]]));
      const lower = xs.map((x, at) => api.coord([x, low[at]])).reverse();
      return { type: "polygon", shape: { points: [...upper, ...lower] }, style: { fill: colour, opacity: 0.22 } };
    },
  }];
}

/** Dashed lines at the borders between periods, and triangles under the boundary phases. */
function periodMarks(modulus, period, floor = 0) {
  if (!period) return [];
  const borders = range(modulus).filter((x) => x && x % period === 0);
  const phases = range(modulus).filter((x) => x % period === period - 1);
  return [{
    type: "scatter", name: "boundary phase", silent: true, symbol: "triangle", symbolSize: 7, clip: false, symbolOffset: [0, 7],
    itemStyle: { color: css("--quiet") }, data: phases.map((x) => [x, floor]), tooltip: { show: false },
    markLine: { symbol: "none", silent: true, label: { show: false }, lineStyle: { color: css("--quiet"), type: [4, 4], width: 1, opacity: 0.7 },
      data: borders.map((x) => ({ xAxis: x - 0.5 })) },
  }];
}
