// Knockout maps: a row per head, and the losses by position of the row that is chosen.

const knockoutsView = {
  id: "knockouts",
  title: "Knockouts",
  draw(state) {
    const has = (model) => Object.keys(PADDINGS).some((padding) => knockout(model, padding));
    state.model = firstRun(state.model, has);
    state.padding = state.padding in PADDINGS ? state.padding : "prefix";
    const shown = { folded: true, place: null, theirs: "" };
    const body = panel(() => knockoutBody(state.model, state.padding, shown));
    const set = (change) => (value) => {
      change(value);
      remember();
      body.update();
    };
    return [
      h("h2", null, "Knockout maps"),
      h("p", null, "Each row replaces the output of one KV head, at the last token, by its mean. Colour is the change of accuracy relative to the whole model: red is lost, blue gained, clipped at ±100 %. Choose a row to see its losses by position."),
      h("div", { class: "controls" },
        choose("run", runOptions(has), state.model, set((value) => { state.model = value; shown.place = null; shown.theirs = ""; })),
        radios("padding", Object.entries(PADDINGS), state.padding, set((value) => (state.padding = value))),
        radios("positions", [["folded", "folded to one period"], ["all", "all"]], "folded", set((value) => (shown.folded = value === "folded")))),
      body,
    ];
  },
};

function knockoutBody(model, padding, shown) {
  const row = data.models[model];
  const [run, out] = [lookup(model, padding), knockout(model, padding)];
  if (!run || !out) return [notRun(`${row.label} under ${PADDINGS[padding]}: knockouts were not run.`)];
  const period = shown.folded ? foldingPeriod(model) : data.modulus;
  const clean = accuracies(run.correct, run.n);
  const values = out.correct.map((correct) => changes(clean, accuracies(correct, run.n), period));
  const keys = out.places.map((place) => place.join("."));
  if (!keys.includes(shown.place)) {
    const least = values.map((line) => Math.min(...line.map((value) => value ?? 0)));
    shown.place = keys[least.indexOf(Math.min(...least))]; // the head that matters most
  }
  const n = (run.n * data.modulus) / period;
  const detail = panel(() => knockoutDetail(model, padding, shown, period, () => detail.update()));
  const axis = `target-key position mod ${period}`;
  return [
    h("div", { class: "row" },
      h("div", null,
        h("div", { class: "scroll" }, map({
          caption: `Accuracy change in percent of clean accuracy by ${axis}; n = ${counted(n)} prompts per cell. Rows: layer · KV head.`,
          rows: out.places.map((place, at) => ({ key: keys[at], name: placeName(place), title: placeTitle(place) })),
          groups: [{
            name: axis, labels: range(period), values, period: shown.folded ? 0 : row.stride ?? 0,
            colour: (value) => coloured(data.colours.change, value, -100, 100),
            text: (value) => fixed(value, 0), says: (column, value) => `${shown.folded ? "phase" : "position"} ${column}: ${signed(value)} %`,
          }],
          chosen: shown.place,
          changed: (key) => { shown.place = key; detail.update(); },
        })),
        h("p", null, scaleKey(data.colours.change, "\u2212100 %", "+100 %", "of clean accuracy"), notJudgedKey())),
      detail),
  ];
}

function knockoutDetail(model, padding, shown, period, again) {
  const row = data.models[model];
  const [run, out] = [lookup(model, padding), knockout(model, padding)];
  const at = out.places.findIndex((place) => place.join(".") === shown.place);
  const place = out.places[at];
  const before = accuracies(run.correct, run.n);
  const after = accuracies(out.correct[at], run.n);
  const change = changes(before, after, period);
  const [clean, knocked] = [fold(before, period), fold(after, period)];
  const n = (run.n * data.modulus) / period;
  const layers = shown.folded && padding === "prefix" ? publishedLayers("knockouts", model) : [];
  const theirs = layers.includes(shown.theirs) ? data.published.knockouts[model][shown.theirs] : null;
  const xs = range(period);
  const clip = (value) => (present(value) ? Math.max(-100, Math.min(100, value)) : null);
  const axis = `target-key position mod ${period}`;
  return [
    h("h3", null, `${row.label}: ${placeTitle(place)}`),
    layers.length ? h("div", { class: "controls" }, choose("lay over", [{ value: "", label: "nothing published" }, ...layers.map((layer) => ({ value: layer, label: `published, layer ${layer} of 28` }))], shown.theirs,
      (value) => { shown.theirs = value; again(); })) : null,
    chart({
      label: `Accuracy change with ${placeTitle(place)} knocked out, by ${axis}: ${change.map((value, x) => `${x}: ${signed(value, 0)} percent`).join(", ")}`,
      make: () => baseOption({
        x: positions(period, period > 12 ? row.stride ?? 4 : 1, axis),
        y: signedAxis({ min: -100, max: 100, name: "change, % of clean accuracy" }),
        series: [
          { type: "bar", name: "change", barWidth: period > 12 ? 6 : "45%", data: change.map((value, x) => ({ value: [x, clip(value)], itemStyle: { color: coloured(data.colours.change, value, -130, 130), borderColor: css("--quiet"), borderWidth: 0.5 } })) },
          ...(theirs ? curve(theirs.map((value, x) => [x, clip(value)]), { colour: css("--ours"), kind: "dashdot", name: "published", symbol: "diamond" }) : []),
          ...periodMarks(period, row.stride, -100),
        ],
        tooltip: { formatter: (items) => {
          const x = Math.round(items[0].axisValue);
          return `${shown.folded ? "phase" : "position"} ${x}\nwhole model ${fixed(clean[x])} %\nwithout this head ${fixed(knocked[x])} %\nchange ${signed(change[x])} %${theirs ? `\npublished, layer ${shown.theirs}: ${signed(theirs[x])} %` : ""}`;
        } },
      }),
      legend: [
        { name: "change", colour: data.colours.change[4], kind: "bar" },
        ...(theirs ? [{ name: `published, layer ${shown.theirs} of 28 (${data.published.caption})`, colour: css("--ours"), kind: "dashdot" }] : []),
        ...(row.stride ? [{ name: "boundary phase S\u22121", colour: css("--quiet"), kind: "triangle" }] : []),
      ],
      table: {
        caption: `${placeTitle(place)} knocked out, ${PADDINGS[padding]}, n = ${counted(n)} prompts each; percent`,
        columns: [axis, "whole model", "without it", "change (%)", ...(theirs ? ["published"] : [])],
        rows: xs.map((x) => [String(x), fixed(clean[x], 2), fixed(knocked[x], 2), signed(change[x], 2), ...(theirs ? [signed(theirs[x])] : [])]),
      },
      height: 300,
    }),
  ];
}
