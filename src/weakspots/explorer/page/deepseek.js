// DeepSeek's models: the completion that flips, and the needle by residue; measured here or as published, never mixed up.

const deepseekView = {
  id: "deepseek",
  title: "DeepSeek",
  draw() {
    const shown = { source: null, length: null, needle: null, folded: false };
    const sources = completionSources();
    shown.source = sources[0]?.value ?? null;
    const completion = panel(() => completionBody(sources, shown));
    return [
      h("h2", null, "A completion that flips"),
      h("p", null, "After T.Cast(FP in its own kernel a model should go on with 8. A docstring before the code grows by one token at a time; the code does not change."),
      sources.length ? h("div", { class: "controls" }, choose("model and filler", sources, shown.source, (value) => { shown.source = value; shown.length = null; completion.update(); })) : null,
      completion,
      h("h2", null, "Needle accuracy by residue"),
      h("p", null, "One key of many is asked for, at every residue of its position. Stand-ins are tiny models of the same kind, trained here; none of their numbers belong to DeepSeek's models."),
      needlePart(shown),
    ];
  },
};

/** Everything that can be shown: what was run here first, then the published numbers. */
function completionSources() {
  const here = [];
  const theirs = [];
  for (const [model, row] of Object.entries(data.deepseek)) {
    for (const family of Object.keys(row.completion?.families ?? {})) here.push({ value: `${model}/${family}`, label: `${row.label}, filler ${family}` });
    if (row.published.completion) theirs.push({ value: `${model}/`, label: `${row.label}, published` });
  }
  return [...here, ...theirs];
}

function completionBody(sources, shown) {
  if (!sources.length) return [notRun("No model of DeepSeek's is in the configuration: not run.")];
  const cut = shown.source.indexOf("/");
  const [model, family] = [shown.source.slice(0, cut), shown.source.slice(cut + 1)];
  const row = data.deepseek[model];
  const run = family ? row.completion.families[family] : row.published.completion;
  const from = family ? `measured here, code from the ${row.completion.source}` : row.completion ? "published" : "published; not run here";
  const period = row.stride ?? 4;
  if (!run.length.includes(shown.length)) shown.length = run.length[0];
  const detail = panel(() => {
    const at = run.length.indexOf(shown.length);
    const probability = (value) => (present(value) ? fixed(value, 3) : "not reported");
    return h("p", { role: "status" }, h("b", null, `L = ${shown.length}`), `, L mod ${period} = ${mod(shown.length, period)}: P(8) = `, h("b", { id: "p8" }, probability(run.first[at])), ", P(32) = ", h("b", null, probability(run.second[at])), `, so ${run.firstOnTop[at] ? "8" : "32"} is on top.`);
  });
  const [right, wrong] = [data.colours.padding.prefix, data.colours.padding.in_sequence];
  const buttons = run.length.map((length, at) => h("button", {
    type: "button", "aria-pressed": String(length === shown.length), "data-length": length, class: at + 1 < run.length.length && mod(run.length[at + 1], period) === 0 ? "cycleend" : null,
    "aria-label": `L = ${length}: P(8) ${fixed(run.first[at], 3)}, ${run.firstOnTop[at] ? "8" : "32"} on top`,
    onclick: () => move(at),
    onkeydown: (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1 }[event.key];
      if (to in run.length) move(to);
    },
  }, h("span", { class: "box" }, h("i", { style: { height: `${100 * (run.first[at] ?? 0)}%`, background: run.firstOnTop[at] ? right : wrong } })), run.firstOnTop[at] ? "8" : "32", h("small", null, String(length))));
  const length = slider("docstring length L", run.length.map((one) => `${one} tokens`), run.length.indexOf(shown.length), (at) => press(at));
  const press = (at) => {
    shown.length = run.length[at];
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === at)));
    detail.update();
  };
  const move = (at) => {
    buttons[at].focus();
    length.move(at);
  };
  return [
    h("p", { class: "note", id: "completion-source" }, `${row.label}: ${from}.`),
    h("div", { class: "controls" }, length),
    detail,
    h("div", { class: "strip", role: "group", "aria-label": "P(8) at every docstring length" }, buttons),
    legendList([{ name: "8 on top; height is P(8)", colour: right, kind: "bar" }, { name: "32 on top", colour: wrong, kind: "bar" }]),
    family && h("p", null, `${row.completion.following[0]} of ${row.completion.following[1]} rankings over all filler families follow a period of ${period}, at the shift that fits best.`),
    tableView({ caption: `${row.label}: ${from}`, columns: ["L", `L mod ${period}`, "P(8)", "P(32)", "on top"], rows: run.length.map((one, at) => [String(one), String(mod(one, period)), fixed(run.first[at], 3), fixed(run.second[at], 3), run.firstOnTop[at] ? "8" : "32"]) }),
  ];
}

/** All needle curves: {value, label, correct, n, stride, published}. */
function needleCurves() {
  return Object.entries(data.deepseek).flatMap(([model, row]) => [
    row.needle && { value: model, label: row.label, ...row.needle, stride: row.stride, published: false },
    row.published.needle && { value: `${model}/published`, label: `${row.label} (published${row.needle ? "" : "; not run here"})`, ...row.published.needle, stride: row.stride, published: true },
  ]).filter(Boolean);
}

function needlePart(shown) {
  const curves = needleCurves();
  if (!curves.length) return notRun("The needle was not run, and nothing is published on these models.");
  shown.needle = curves[0].value;
  const body = panel(() => needleBody(curves, shown));
  const set = (change) => (value) => { change(value); body.update(); };
  return [
    h("div", { class: "controls" },
      choose("model", curves, shown.needle, set((value) => (shown.needle = value))),
      h("fieldset", null, h("legend", null, "positions"), checkbox("fold periods", false, set((value) => (shown.folded = value))))),
    body,
  ];
}

function needleBody(curves, shown) {
  const one = curves.find(({ value }) => value === shown.needle);
  const values = accuracies(one.correct, one.n);
  const modulus = values.length;
  const period = one.stride ?? modulus;
  const colour = one.published ? css("--ours") : data.colours.padding.prefix;
  const columns = shown.folded ? period : modulus;
  const others = curves.filter((other) => other !== one && other.published === one.published && other.correct.length === modulus && !shown.folded);
  const cycles = shown.folded ? range(modulus / period) : [0];
  const axis = `target-key position mod ${columns}`;
  return chart({
    label: `Needle accuracy of ${one.label} by ${axis}, percent: ${values.map((value) => fixed(value)).join(", ")}`,
    make: () => baseOption({
      x: positions(columns, 1, axis),
      y: { min: 0, max: 100, name: "accuracy (%)" },
      series: [
        ...others.flatMap((other) => curve(accuracies(other.correct, other.n).map((value, x) => [x, value]), { colour: css("--line"), symbol: "none", width: 1.2 })),
        ...cycles.flatMap((cycle) => curve(range(columns).map((x) => [x, values[cycle * period + x]]), { colour, name: one.label, kind: cycle ? "dashed" : "solid", period: shown.folded ? 0 : one.stride })),
        ...periodMarks(columns, one.stride),
      ],
      tooltip: { formatter: (items) => {
        const x = Math.round(items[0].axisValue);
        return `${one.label}\nresidue ${x}: ${cycles.map((cycle) => fixed(values[cycle * period + x])).join(", ")} %`;
      } },
    }),
    legend: [{ name: `${one.label}, n = ${counted(one.n)} prompts per residue`, colour, kind: "solid" }, ...(shown.folded ? [{ name: "later periods", colour, kind: "dashed" }] : others.length ? [{ name: one.published ? "the others, published" : "the others, run here", colour: css("--line"), kind: "solid" }] : [])],
    table: {
      caption: `${one.label}: needle accuracy in percent, n = ${counted(one.n)} prompts per residue`,
      columns: ["residue", "correct", "accuracy"], rows: values.map((value, x) => [String(x), counted(one.correct[x]), fixed(value, 2)]),
    },
    height: 300,
  });
}
