// Gate cycling: a slider for the shift, what was predicted and what came, and the R² of every run and shift.

const cyclingView = {
  id: "cycling",
  title: "Cycling",
  draw(state) {
    const models = Object.keys(data.cycling.models);
    const intro = [
      h("h2", null, "Moving the weak spots"),
      h("p", null, "The gates' own parameters are shifted by δ offsets, the payload maps stay. Predicted: the accuracy at phase r becomes that of phase r − δ before, but for the boundary phase S−1."),
    ];
    if (!models.length) return [...intro, notRun("No run's gates have been cycled: not run."), publishedCycles()];
    if (!models.includes(state.model)) state.model = models[0];
    const shown = { model: state.model, shift: null };
    const shifts = Object.keys(data.cycling.models[shown.model].shifts).map(Number);
    shown.shift = shifts.includes(1) ? 1 : shifts.at(-1);
    const body = panel(() => cyclingBody(shown));
    const control = panel(() => {
      const known = cyclingShifts(shown.model);
      if (!known.includes(shown.shift)) shown.shift = known.at(-1);
      return slider("δ, shift of the gates in offsets", known.map((shift) => signed(shift, 0)), known.indexOf(shown.shift), (at) => { shown.shift = known[at]; body.update(); mark(); });
    });
    const grid = panel(() => cyclingGrid((model, shift) => {
      Object.assign(shown, { model, shift });
      state.model = model;
      pick.querySelector("select").value = model;
      remember();
      control.update();
      body.update();
      mark();
    }));
    const mark = () => grid.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.cycle === `${shown.model}/${shown.shift}`)));
    const pick = choose("run", models.map((value) => ({ value, label: data.models[value].label })), shown.model, (value) => {
      shown.model = state.model = value;
      remember();
      control.update();
      body.update();
      mark();
    });
    mark();
    return [...intro, h("div", { class: "controls" }, pick, control), body, h("h3", null, "R² without the boundary phase"), grid];
  },
};

/** The shifts of a run in order, with 0 for the model as it is. */
const cyclingShifts = (model) => [0, ...Object.keys(data.cycling.models[model].shifts).map(Number)].sort((one, other) => one - other);

function cyclingBody(shown) {
  const run = data.cycling.models[shown.model];
  const cycle = run.shifts[shown.shift] ?? null; // none at 0
  const xs = range(run.stride);
  const colour = data.colours.padding[data.cycling.padding];
  const observed = cycle ? cycle.observed : run.clean;
  const predicted = cycle ? cycle.predicted : run.clean;
  const [moved, expected] = [observed, predicted].map((values) => values.map((value, x) => value - run.clean[x]));
  const limit = 10 * Math.max(1, Math.ceil(Math.max(...[...moved, ...expected].map(Math.abs)) / 10));
  const points = (values) => xs.map((x) => [x, values[x]]);
  const label = `${data.models[shown.model].label}, δ = ${signed(shown.shift, 0)}`;
  const boundary = run.stride - 1;
  return [
    h("div", { role: "status" }, h("ul", { class: "facts" },
      h("li", null, h("b", null, label)),
      h("li", null, `n `, h("b", null, counted(run.n)), ` prompts per phase (${counted(run.mappings)} mappings)`),
      cycle ? [
        h("li", null, "R² ", h("b", null, fixed(cycle.rSquared[0], 3)), ` (${interval(cycle.rSquared[1], cycle.rSquared[2], 2)}); if all phases were levelled ${fixed(cycle.flat, 2)}`),
        h("li", null, "published R² ", h("b", null, present(cycle.publishedRSquared) ? fixed(cycle.publishedRSquared, 3) : MISSING)),
        h("li", null, "mean changes by ", h("b", null, signed(cycle.meanChange)), ` points (published ${signed(cycle.publishedMeanChange)})`),
      ] : h("li", null, "not cycled"))),
    h("div", { class: "row" },
      chart({
        label: `Accuracy by phase, ${label}. Observed: ${observed.map((value) => fixed(value)).join(", ")}. Predicted: ${predicted.map((value) => fixed(value)).join(", ")}`,
        make: () => baseOption({
          x: positions(run.stride, 1, `target-key position mod ${run.stride}`),
          y: { min: 0, max: 100, name: "accuracy (%)" },
          series: [
            ...(cycle ? band(xs, cycle.low, cycle.high, colour) : []),
            ...curve(points(run.clean), { colour: data.colours.fullAttention, name: "not cycled", symbol: "none", width: 1.6 }),
            ...(cycle ? [...curve(points(observed), { colour, name: "observed", width: 2.4 }), ...curve(points(predicted), { colour: css("--ours"), kind: "dashed", name: "predicted", symbol: "none", width: 1.6 })] : []),
            ...periodMarks(run.stride, run.stride),
          ],
          tooltip: { formatter: (items) => {
            const x = Math.round(items[0].axisValue);
            return [`phase ${x}`, `not cycled ${fixed(run.clean[x])} %`, cycle && `observed ${fixed(observed[x])} % (${interval(cycle.low[x], cycle.high[x])})`, cycle && `predicted ${fixed(predicted[x])} %`].filter(Boolean).join("\n");
          } },
        }),
        legend: [{ name: "observed", colour, kind: "solid" }, { name: "predicted", colour: css("--ours"), kind: "dashed" }, { name: "not cycled", colour: data.colours.fullAttention, kind: "solid" },
          { name: `${percent} % interval`, colour, kind: "band" }, { name: "boundary phase", colour: css("--quiet"), kind: "triangle" }],
        table: {
          caption: `Accuracy by phase in percent, ${label}, ${PADDINGS[data.cycling.padding]}`,
          columns: ["phase", "not cycled", "observed", `${percent} % interval`, "predicted"],
          rows: xs.map((x) => [String(x), fixed(run.clean[x], 2), cycle ? fixed(observed[x], 2) : MISSING, cycle ? interval(cycle.low[x], cycle.high[x]) : MISSING, cycle ? fixed(predicted[x], 2) : MISSING]),
        },
        height: 320,
      }),
      cycle && chart({
        label: `Predicted and observed change by phase in points: ${xs.map((x) => `phase ${x}: ${signed(expected[x])} and ${signed(moved[x])}`).join("; ")}`,
        make: () => baseOption({
          x: signedAxis({ min: -limit, max: limit, name: "predicted change (points)" }),
          y: signedAxis({ min: -limit, max: limit, name: "observed change (points)" }),
          series: [
            { type: "line", silent: true, symbol: "none", data: [[-limit, -limit], [limit, limit]], lineStyle: { color: css("--quiet"), type: dash.dashed, width: 1 }, tooltip: { show: false } },
            { type: "scatter", name: "phases", symbolSize: 11, data: xs.map((x) => ({ name: `phase ${x}`, value: [expected[x], moved[x]], itemStyle: { color: x === boundary ? "transparent" : colour, borderColor: colour, borderWidth: 2 } })),
              label: { show: true, formatter: (item) => item.name.slice(6), position: "right", color: css("--text"), fontSize: 11 } },
          ],
          tooltip: { trigger: "item", formatter: (item) => `${item.name}\npredicted ${signed(item.value[0])}\nobserved ${signed(item.value[1])} points` },
        }),
        legend: [{ name: "a phase, with its number", colour, kind: "point" }, { name: "the boundary phase", colour, kind: "hollow" }],
        height: 320,
      })),
  ];
}

function cyclingGrid(picked) {
  const models = Object.keys(data.cycling.models);
  const shifts = [...new Set(models.flatMap(cyclingShifts))].filter(Boolean).sort((one, other) => one - other);
  const cell = (model, shift) => {
    const cycle = data.cycling.models[model].shifts[shift];
    if (!cycle) return MISSING;
    return h("button", { type: "button", "data-cycle": `${model}/${shift}`, title: `published ${fixed(cycle.publishedRSquared, 3)}`, onclick: () => picked(model, shift) }, `${fixed(cycle.rSquared[0], 2)} (${fixed(cycle.publishedRSquared, 2)})`);
  };
  return dataTable({
    caption: "Squared correlation of predicted and observed change by run and shift, with the published one in brackets; choose one to show it",
    columns: ["run", ...shifts.map((shift) => `δ = ${signed(shift, 0)}`)],
    rows: models.map((model) => [data.models[model].label, ...shifts.map((shift) => cell(model, shift))]),
  });
}

/** The published R² alone, where nothing has been cycled here. */
function publishedCycles() {
  const { shifts, models } = data.published.cycling;
  return dataTable({
    caption: "Published R² without the boundary phase; not run here",
    columns: ["run", ...shifts.map((shift) => `δ = ${signed(shift, 0)}`)],
    rows: Object.entries(models).map(([model, values]) => [data.models[model]?.label ?? model, ...values.map((value) => fixed(value, 3))]),
  });
}
