// Accuracy by position: any run and padding, beside full attention, another run, and the paper's own curve.

const accuracyView = {
  id: "accuracy",
  title: "Accuracy",
  draw(state) {
    const has = (model) => Object.keys(PADDINGS).some((padding) => lookup(model, padding));
    state.model = firstRun(state.model, has);
    state.padding = state.padding in PADDINGS ? state.padding : "prefix";
    const shown = { layout: "positions", full: true, theirs: true, other: "" };
    const body = panel(() => accuracyBody(state.model, state.padding, shown));
    const set = (change) => (value) => {
      change(value);
      remember();
      body.update();
    };
    return [
      h("h2", null, "Accuracy by position"),
      h("p", null, "How often the answer is right, by the position of the target key. A compressed memory that writes one entry every S tokens repeats with S."),
      h("div", { class: "controls" },
        choose("run", runOptions(has), state.model, set((value) => (state.model = value))),
        choose("compare with", [{ value: "", label: "no other run" }, ...runOptions(has)], shown.other, set((value) => (shown.other = value))),
        radios("padding", Object.entries(PADDINGS), state.padding, set((value) => (state.padding = value))),
        radios("positions", [["positions", "all"], ["periods", "periods overlaid"], ["folded", "folded (mean)"]], shown.layout, set((value) => (shown.layout = value))),
        h("fieldset", null, h("legend", null, "also show"),
          checkbox("full attention", shown.full, set((value) => (shown.full = value))),
          checkbox("published curve", shown.theirs, set((value) => (shown.theirs = value))))),
      body,
    ];
  },
};

/** The curves that are asked for, each with accuracies at all positions and what distinguishes it. */
function accuracyCurves(model, padding, shown) {
  const curves = [];
  const add = (id, of, run, style) => run && curves.push({ id, name: of, values: accuracies(run.correct, run.n), run, ...style });
  const row = data.models[model];
  add("run", row.label, lookup(model, padding), { colour: data.colours.padding[padding], kind: "solid", width: 2.6 });
  if (shown.full && row.like) add("full", `${data.models[row.like].label} (${PADDINGS[padding]})`, lookup(row.like, padding), { colour: data.colours.fullAttention, kind: "dashed" });
  if (shown.other && shown.other !== model) add("other", data.models[shown.other].label, lookup(shown.other, padding), { colour: data.colours.other, kind: "solid", symbol: "diamond" });
  const theirs = data.published.profiles[model]?.[padding];
  if (shown.theirs && theirs) curves.push({ id: "published", name: `published (${data.published.caption})`, values: theirs, colour: css("--ours"), kind: "dashdot" });
  return curves;
}

function accuracyBody(model, padding, shown) {
  const row = data.models[model];
  const run = lookup(model, padding);
  const curves = accuracyCurves(model, padding, shown);
  const missing = run ? null : notRun(`${row.label} under ${PADDINGS[padding]}: not run.`);
  if (!curves.length) return [missing];
  const modulus = data.modulus ?? curves[0].values.length;
  const period = foldingPeriod(model);
  const usable = curves.filter((one) => one.values.length === modulus);
  if (!usable.length) return [missing, notRun(`The published curve has ${curves[0].values.length} positions and these results ${modulus}.`)];
  const unlike = usable.length < curves.length && h("p", { class: "note" }, `The published curve is by position mod ${curves.at(-1).values.length} and is not drawn over positions mod ${modulus}.`);
  const folded = shown.layout === "folded";
  const columns = shown.layout === "positions" ? modulus : period;
  const lines = usable.map((one) => ({ ...one, values: folded ? fold(one.values, period) : one.values }));
  const bandOf = (one) => (!one.run ? null : folded ? (one.run.period === period ? one.run.folded : null) : shown.layout === "positions" ? one.run : null);
  const xs = range(columns);
  const overlaid = shown.layout === "periods";
  const series = () => lines.flatMap((one) => {
    const limits = bandOf(one);
    const drawn = limits ? band(xs, limits.low, limits.high, one.colour) : [];
    if (!overlaid) return [...drawn, ...curve(xs.map((x) => [x, one.values[x]]), { ...one, period: folded ? 0 : row.stride ? period : 0 })];
    return range(modulus / period).flatMap((cycle) =>
      curve(xs.map((x) => [x, one.values[cycle * period + x]]), { ...one, kind: cycle && one.id === "run" ? "dashed" : one.kind, width: one.id === "run" ? 2.4 : 1.2 }));
  });
  const says = (x) => {
    const at = folded || overlaid ? `phase ${x} (mod ${period})` : `position ${x}`;
    return [at, ...lines.map((one) => `${one.name}: ${overlaid ? range(modulus / period).map((cycle) => fixed(one.values[cycle * period + x])).join(", ") : fixed(one.values[x])} %`)].join("\n");
  };
  const axis = folded || overlaid ? `target-key position mod ${period}` : `target-key position mod ${modulus}`;
  const table = {
    caption: `Accuracy in percent by ${axis}${run ? `; n = ${counted(run.n * (folded ? modulus / period : 1))} prompts each` : ""}`,
    columns: [axis, ...lines.flatMap((one) => (bandOf(one) ? [one.name, `${percent} % interval`] : overlaid ? range(modulus / period).map((cycle) => `${one.name}, period ${cycle + 1}`) : [one.name]))],
    rows: xs.map((x) => [String(x), ...lines.flatMap((one) => {
      const limits = bandOf(one);
      if (overlaid) return range(modulus / period).map((cycle) => fixed(one.values[cycle * period + x], 2));
      return limits ? [fixed(one.values[x], 2), interval(limits.low[x], limits.high[x])] : [fixed(one.values[x], 2)];
    })]),
  };
  return [
    missing,
    run && accuracyFacts(model, run),
    unlike,
    chart({
      label: `Accuracy by ${axis}: ${lines.map((one) => `${one.name} ${fixed(Math.min(...one.values))} to ${fixed(Math.max(...one.values))} percent`).join("; ")}`,
      make: () => baseOption({
        x: positions(columns, row.stride && !folded && !overlaid ? period : columns > 12 ? 4 : 1, axis),
        y: { min: 0, max: 100, name: "accuracy (%)" },
        series: [...series(), ...periodMarks(columns, row.stride)],
        tooltip: { formatter: (items) => says(Math.round(items[0].axisValue)) },
      }),
      legend: [
        ...lines.map((one) => ({ name: one.name, colour: one.colour, kind: one.kind })),
        ...(overlaid ? [{ name: "later periods of this run", colour: data.colours.padding[padding], kind: "dashed" }] : []),
        ...(lines.some(bandOf) ? [{ name: `${percent} % interval`, colour: lines[0].colour, kind: "band" }] : []),
        ...(row.stride ? [{ name: "boundary phase S\u22121", colour: css("--quiet"), kind: "triangle" }] : []),
      ],
      table,
      height: 360,
    }),
  ];
}

function accuracyFacts(model, run) {
  const fact = (name, [value, low, high]) => h("li", null, `${name} `, h("b", null, fixed(value)), ` (${interval(low, high)})`);
  const { repeats } = run;
  const says = repeats.flat
    ? `gap within the noise (p = ${fixed(repeats.gapP, 3)})`
    : repeats.period ? `repeats every ${repeats.period} positions` : "no significant period";
  return h("ul", { class: "facts" },
    h("li", null, "n ", h("b", null, counted(run.n)), " mappings at each position"),
    fact("mean", run.summary.mean), fact("worst", run.summary.worst), fact("gap", run.summary.gap), h("li", null, says),
    Object.entries(data.models[model].losses).map(([corpus, loss]) => h("li", null, `loss on ${corpus} `, h("b", null, fixed(loss, 3)))));
}
