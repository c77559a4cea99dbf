// The concentration plane: effective numbers of offsets, static and per window, replayed over training.

const concentrationView = {
  id: "concentration",
  title: "Concentration",
  draw(state) {
    const has = (model) => model in data.gates;
    state.model = firstRun(state.model, has);
    const shown = { branch: "key", step: null, trails: true, theirs: true };
    const body = panel(() => concentrationBody(state.model, shown));
    const set = (change) => (value) => {
      change(value);
      remember();
      body.update();
    };
    return [
      h("h2", null, "Two ways a gate can concentrate"),
      h("p", null, "Right to left: the gate's average over windows narrows to few offsets (static). Top to bottom: it narrows within every window. A gate on the diagonal favours the same offsets everywhere; one far below it follows the content. Both are effective numbers of offsets, from 1 to W."),
      h("div", { class: "controls" },
        choose("run", runOptions(has), state.model, set((value) => { state.model = value; shown.step = null; })),
        radios("gate", [["key", "key"], ["value", "value"]], "key", set((value) => (shown.branch = value))),
        h("fieldset", null, h("legend", null, "also show"),
          checkbox("paths through training", true, set((value) => (shown.trails = value))),
          checkbox("published layers", true, set((value) => (shown.theirs = value))))),
      body,
    ];
  },
};

let replay = null; // the timer of a replay in progress

function concentrationBody(model, shown) {
  clearInterval(replay);
  const [row, found] = [data.models[model], data.gates[model]];
  if (!row.compressed) return [notRun(`${row.label} has no gates.`)];
  if (!found) return [notRun(`${row.label}: gate statistics were not run.`)];
  const branch = row.tied ? "key" : shown.branch;
  const gates = found.gates.filter((gate) => gate.branch === branch);
  const last = found.steps.length - 1;
  shown.step = Math.min(shown.step ?? last, last);
  const plane = panel(() => concentrationPlane(model, shown, gates));
  const names = found.steps.map((step) => `step ${counted(step)} of ${counted(found.steps[last])}`);
  const steps = slider("training", names, shown.step, (index) => { shown.step = index; plane.update(); });
  const button = h("button", { type: "button", onclick: () => {
    const playing = button.textContent === "Stop";
    clearInterval(replay);
    button.textContent = playing ? "Replay training" : "Stop";
    if (playing) return;
    steps.move(0);
    replay = setInterval(() => {
      if (!button.isConnected || shown.step >= last) {
        clearInterval(replay);
        button.textContent = "Replay training";
      } else steps.move(shown.step + 1);
    }, 700);
  } }, "Replay training");
  return [
    row.tied && h("p", { class: "note" }, "One gate serves both key and value."),
    row.gate === "vector" && h("p", { class: "note" }, "This gate has one score per channel; the numbers are means over its channels."),
    h("div", { class: "controls" }, steps, button),
    plane,
  ];
}

function concentrationPlane(model, shown, gates) {
  const [row, found] = [data.models[model], data.gates[model]];
  const layers = Math.max(...gates.map((gate) => gate.layer)) + 1;
  const colour = (gate) => coloured(data.colours.depth, layers > 1 ? gate.layer / (layers - 1) : 0, 0, 1);
  const heads = new Set(gates.map((gate) => gate.head)).size;
  const name = (gate) => `layer ${gate.layer}${heads > 1 ? `, head ${gate.head}` : ""}`;
  const theirs = shown.theirs && shown.branch === "key" ? Object.entries(data.published.effective[model] ?? {}) : [];
  const at = shown.step;
  // a little more than 1 to W, so that a point at an end is whole
  const effective = (name) => ({ ...positions(row.window + 1, 1, name), min: 0.8, max: row.window + 0.2 });
  const trails = shown.trails ? gates.map((gate) => ({
    type: "line", silent: true, symbol: "none", tooltip: { show: false }, lineStyle: { color: dark.matches ? css("--quiet") : colour(gate), width: 1, opacity: 0.6 },
    data: range(at + 1).map((step) => [gate.static[step], gate.perWindow[step]]),
  })) : [];
  return [
    h("div", { class: "square" }, chart({
      label: `Effective numbers of offsets at step ${found.steps[at]}, static and per window: ${gates.slice(0, 24).map((gate) => `${name(gate)} ${fixed(gate.static[at], 2)} and ${fixed(gate.perWindow[at], 2)}`).join("; ")}`,
      make: () => baseOption({
        x: effective("static: effective number of the mean gate"),
        y: effective("per window: mean effective number"),
        series: [
          { type: "line", silent: true, symbol: "none", data: [[1, 1], [row.window, row.window]], lineStyle: { color: css("--quiet"), width: 1, type: dash.dashed }, tooltip: { show: false } },
          ...trails,
          { type: "scatter", name: "gates", symbolSize: 12, data: gates.map((gate) => ({ name: name(gate), value: [gate.static[at], gate.perWindow[at]], itemStyle: { color: colour(gate), borderColor: css("--text"), borderWidth: 1 } })) },
          ...(theirs.length ? [{ type: "scatter", name: "published", symbol: "diamond", symbolSize: 12, data: theirs.map(([layer, value]) => ({ name: `published, layer ${layer}`, value })), itemStyle: { color: "transparent", borderColor: css("--ours"), borderWidth: 2 },
            label: { show: true, formatter: (item) => item.name.replace("published, layer ", ""), position: "right", color: css("--text"), fontSize: 11 } }] : []),
        ],
        tooltip: { trigger: "item", formatter: (item) => `${item.name}\nstatic ${fixed(item.value[0], 2)}\nper window ${fixed(item.value[1], 2)}` },
      }),
      legend: [
        ...(layers <= 8 ? range(layers).map((layer) => ({ name: `layer ${layer}`, colour: colour({ layer }), kind: "point" })) : [{ name: "layer 0", colour: colour({ layer: 0 }), kind: "point" }, { name: `layer ${layers - 1}`, colour: colour({ layer: layers - 1 }), kind: "point" }]),
        { name: "the same in every window", colour: css("--quiet"), kind: "dashed" },
        ...(theirs.length ? [{ name: `published, with the number of the layer of 28 (${data.published.caption})`, colour: css("--ours"), kind: "diamond" }] : []),
      ],
      table: {
        caption: `Effective numbers of offsets, 1 to ${row.window}, at step ${counted(found.steps[at])}`,
        columns: ["gate", "static", "per window"],
        rows: [...gates.map((gate) => [name(gate), fixed(gate.static[at], 3), fixed(gate.perWindow[at], 3)]), ...theirs.map(([layer, [fixed_, window_]]) => [`published, layer ${layer}`, fixed(fixed_, 3), fixed(window_, 3)])],
      },
      height: 420,
    })),
  ];
}
