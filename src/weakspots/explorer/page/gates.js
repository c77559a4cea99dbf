// Gate beside knockout: which phases a head's gate prefers, and at which its knockout loses accuracy.

const GATES_PADDING = "prefix"; // as in the figure

const gatesView = {
  id: "gates",
  title: "Gates & knockouts",
  draw(state) {
    const has = (model) => model in data.gates && Boolean(knockout(model, GATES_PADDING));
    state.model = firstRun(state.model, has);
    const shown = { branch: "key", place: null, theirs: "" };
    const body = panel(() => gatesBody(state.model, shown));
    const set = (change) => (value) => {
      change(value);
      remember();
      body.update();
    };
    return [
      h("h2", null, "Gate beside knockout"),
      h("p", null, "Each row is one KV head at the last checkpoint. Left: the effective number of phases of its key gate, 1 to S. Middle: the mean gate score by phase, relative to a uniform share; value scores are moved back by one phase, so that a head that keeps a key with its successor peaks at the same phase in both. Right: what is lost when the head is knocked out (prefix padding)."),
      h("div", { class: "controls" },
        choose("run", runOptions(has), state.model, set((value) => { state.model = value; shown.place = null; shown.theirs = ""; })),
        radios("gate", [["key", "key"], ["value", "value"]], "key", set((value) => (shown.branch = value)))),
      body,
    ];
  },
};

/** The gates of a run by head: index of the key's and of the value's in the lists of `data.gates`. */
function gatePlaces(model) {
  const places = new Map();
  data.gates[model].gates.forEach((gate, at) => {
    const key = `${gate.layer}.${gate.head}`;
    if (!places.has(key)) places.set(key, { key, place: [gate.layer, gate.head], gates: {} });
    places.get(key).gates[gate.branch] = at;
  });
  return [...places.values()];
}

/** Change by phase of the head at this place, or null if it was not knocked out. */
function changeAt(model, key, period) {
  const [run, out] = [lookup(model, GATES_PADDING), knockout(model, GATES_PADDING)];
  const at = out?.places.findIndex((place) => place.join(".") === key) ?? -1;
  return at < 0 ? null : changes(accuracies(run.correct, run.n), accuracies(out.correct[at], run.n), period);
}

function gatesBody(model, shown) {
  const [row, found] = [data.models[model], data.gates[model]];
  if (!row.compressed) return [notRun(`${row.label} has no gates.`)];
  if (!found) return [notRun(`${row.label}: gate statistics were not run.`)];
  if (!knockout(model, GATES_PADDING)) return [notRun(`${row.label}: knockouts under prefix padding were not run.`)];
  const places = gatePlaces(model);
  const branch = row.tied ? "key" : shown.branch;
  const losses = places.map(({ key }) => changeAt(model, key, row.stride) ?? range(row.stride).map(() => null));
  if (!places.some(({ key }) => key === shown.place)) {
    const least = losses.map((line) => Math.min(...line.map((value) => value ?? 0)));
    shown.place = places[least.indexOf(Math.min(...least))].key;
  }
  const detail = panel(() => gatesDetail(model, shown, () => detail.update()));
  const n = (lookup(model, GATES_PADDING).n * data.modulus) / row.stride;
  return [
    row.gate === "uniform" && h("p", { class: "note" }, "Uniform averaging has no learned gate: every offset has the same share."),
    row.tied && h("p", { class: "note" }, "One gate serves both key and value."),
    h("div", { class: "scroll" }, map({
      caption: `By position mod ${row.stride}. Rows: layer · KV head. Knockouts: n = ${counted(n)} prompts per cell.`,
      rows: places.map(({ key, place }) => ({ key, name: placeName(place), title: placeTitle(place) })),
      bar: { name: "static", values: places.map((place) => found.phases[place.gates.key]), low: 1, high: row.stride },
      groups: [
        {
          name: `${branch} gate, × uniform`, labels: range(row.stride), values: places.map((place) => found.preferences[place.gates[branch]]),
          colour: (value) => coloured(data.colours.preference, Math.log2(Math.max(value, 1e-9)), 0, 3),
          text: (value) => fixed(value, 1), says: (column, value) => `${branch} gate at phase ${column}: ${fixed(value, 2)} × uniform`,
        },
        {
          name: "knockout, % of clean", labels: range(row.stride), values: losses,
          colour: (value) => coloured(data.colours.change, value, -100, 100),
          text: (value) => fixed(value, 0), says: (column, value) => `knocked out at phase ${column}: ${signed(value)} %`,
        },
      ],
      chosen: shown.place,
      changed: (key) => { shown.place = key; detail.update(); },
    })),
    h("p", null, scaleKey(data.colours.preference, "\u2264 1", "\u2265 8", "× uniform share, logarithmic"),
      scaleKey(data.colours.change, "\u2212100 %", "+100 %", "of clean accuracy"), notJudgedKey()),
    detail,
  ];
}

function gatesDetail(model, shown, again) {
  const [row, found] = [data.models[model], data.gates[model]];
  const place = gatePlaces(model).find(({ key }) => key === shown.place);
  const layers = publishedLayers("keys", model);
  const layer = layers.includes(shown.theirs) ? shown.theirs : null;
  const ours = {
    key: found.preferences[place.gates.key],
    value: row.tied ? null : found.preferences[place.gates.value],
    change: changeAt(model, shown.place, row.stride),
  };
  const theirs = layer && { key: data.published.keys[model][layer], value: data.published.values[model]?.[layer] ?? null, change: data.published.knockouts[model]?.[layer] ?? null };
  const xs = range(row.stride);
  const points = (values) => xs.map((x) => [x, values[x]]);
  const [blue, orange] = [data.colours.padding.prefix, data.colours.padding.in_sequence];
  const highest = Math.max(2, Math.ceil(Math.max(...[ours, theirs].filter(Boolean).flatMap((one) => [one.key, one.value].filter(Boolean).flat()))));
  // both axes have their zero at one height: room below it for the largest gain
  const gains = [ours.change, theirs?.change].filter(Boolean).flat().filter(present);
  const floor = Math.min(100, 25 * Math.ceil(Math.max(0, ...gains) / 25));
  const lost = (values) => values.map((value) => (present(value) ? Math.max(-100, Math.min(100, -value)) : null));
  const lines = () => [
    ...(ours.change ? [{ type: "bar", name: "lost", yAxisIndex: 1, barWidth: "40%", itemStyle: { color: data.colours.change[5], opacity: 0.55 }, data: points(lost(ours.change)) }] : []),
    ...curve(points(ours.key), { colour: blue, name: "key gate" }),
    ...(ours.value ? curve(points(ours.value), { colour: orange, name: "value gate", kind: "dashed", symbol: "diamond" }) : []),
    ...(theirs ? curve(points(theirs.key), { colour: css("--ours"), kind: "dashdot", name: "published key gate", symbol: "none" }) : []),
    ...(theirs?.change ? [{ type: "scatter", name: "published loss", yAxisIndex: 1, symbol: "diamond", symbolSize: 10, itemStyle: { color: "transparent", borderColor: css("--ours"), borderWidth: 2 }, data: points(lost(theirs.change)) }] : []),
  ];
  return [
    h("h3", null, `${row.label}: ${placeTitle(place.place)}`),
    layers.length ? h("div", { class: "controls" }, choose("lay over", [{ value: "", label: "nothing published" }, ...layers.map((one) => ({ value: one, label: `published, layer ${one} of 28` }))], shown.theirs,
      (value) => { shown.theirs = value; again(); })) : null,
    chart({
      label: `${placeTitle(place.place)}, by phase. Key gate: ${ours.key.map((value) => fixed(value, 2)).join(", ")}. ${ours.value ? `Value gate: ${ours.value.map((value) => fixed(value, 2)).join(", ")}. ` : ""}Change when knocked out, percent: ${(ours.change ?? []).map((value) => signed(value, 0)).join(", ")}`,
      make: () => baseOption({
        x: positions(row.stride, 1, `position mod ${row.stride}`),
        y: [
          { min: (-highest * floor) / 100, max: highest, name: "gate, × uniform", axisLabel: { color: css("--quiet"), formatter: (value) => (value < 0 ? "" : fixed(value, 0)) } },
          { min: -floor, max: 100, interval: 25, name: "lost, % of clean accuracy", nameGap: 42, nameRotate: 90, axisLabel: { color: css("--quiet"), formatter: (value) => fixed(value, 0) } },
        ],
        series: lines(),
        tooltip: { formatter: (items) => {
          const x = Math.round(items[0].axisValue);
          return [`phase ${x}`, `key gate ${fixed(ours.key[x], 2)} × uniform`, ours.value && `value gate ${fixed(ours.value[x], 2)} × uniform`, ours.change && `knocked out ${signed(ours.change[x])} %`,
            theirs && `published, layer ${layer}: key gate ${fixed(theirs.key[x], 2)}${theirs.change ? `, knocked out ${signed(theirs.change[x])} %` : ""}`].filter(Boolean).join("\n");
        } },
      }),
      legend: [
        { name: row.tied ? "gate of both" : "key gate", colour: blue, kind: "solid" },
        ...(ours.value ? [{ name: "value gate, back by one", colour: orange, kind: "dashed" }] : []),
        { name: "lost when knocked out (right axis)", colour: data.colours.change[5], kind: "bar" },
        ...(theirs ? [{ name: `published key gate, layer ${layer} of 28`, colour: css("--ours"), kind: "dashdot" }] : []),
        ...(theirs?.change ? [{ name: "published loss", colour: css("--ours"), kind: "diamond" }] : []),
      ],
      table: {
        caption: `${row.label}, ${placeTitle(place.place)}: gates relative to a uniform share, knockout in percent of the clean accuracy`,
        columns: ["phase", row.tied ? "gate of both" : "key gate", ...(ours.value ? ["value gate"] : []), "knockout (%)", ...(theirs ? ["published key gate", "published knockout"] : [])],
        rows: xs.map((x) => [String(x), fixed(ours.key[x], 3), ...(ours.value ? [fixed(ours.value[x], 3)] : []), signed(ours.change?.[x] ?? null, 2), ...(theirs ? [fixed(theirs.key[x], 3), signed(theirs.change?.[x] ?? null)] : [])]),
      },
      height: 320,
    }),
  ];
}
