// The window illustration: prepend tokens and see offsets and scores move. Scores are those of a trained model's gates.

const windowView = {
  id: "window",
  title: "Window",
  draw(state) {
    const has = (model) => model in data.gates;
    state.model = firstRun(state.model, has);
    const shown = { gate: null, prepended: 0, followed: 2 };
    const body = panel(() => windowBody(state.model, shown));
    return [
      h("h2", null, "What an entry is made of"),
      h("p", null, "A compressor reads windows of W tokens that start every S tokens, and writes one entry per window: the sum of its tokens' payloads, weighted by gate scores. Bars are the mean scores by offset of a gate trained here, over windows of held-out text. What a gate gives to one particular token also depends on the token. Prepend tokens: nothing changes but where each token stands."),
      h("div", { class: "controls" }, choose("run", runOptions(has), state.model, (value) => {
        state.model = value;
        shown.gate = null;
        remember();
        body.update();
      })),
      body,
    ];
  },
};

function windowBody(model, shown) {
  const [row, found] = [data.models[model], data.gates[model]];
  if (!row.compressed) return [notRun(`${row.label} has no windows: it keeps every token.`)];
  if (!found) return [notRun(`${row.label}: gate statistics were not run, so there are no scores to show.`)];
  if (!(shown.gate in found.gates)) {
    const keys = found.gates.map((gate, at) => [gate.branch === "key" ? gate.static.at(-1) : Infinity, at]);
    shown.gate = keys.sort(([one], [other]) => one - other)[0][1]; // the most concentrated key gate
  }
  shown.prepended = Math.min(shown.prepended, row.stride - 1);
  const title = (gate) => `layer ${gate.layer}, head ${gate.head}, ${row.tied ? "key and value" : gate.branch}`;
  const picture = panel(() => windowPicture(model, shown, (selector) => {
    picture.update();
    picture.querySelector(selector)?.focus(); // the button that was pressed has been drawn anew
  }));
  return [
    h("div", { class: "controls" }, choose("gate", found.gates.map((gate, at) => ({ value: String(at), label: title(gate) })), String(shown.gate), (value) => {
      shown.gate = Number(value);
      picture.update();
    })),
    picture,
  ];
}

/** The windows that hold a position: which, and at which offset. */
function windowsOf(position, row, lead) {
  const first = Math.max(0, Math.ceil((position + lead - row.window + 1) / row.stride));
  const last = Math.floor((position + lead) / row.stride);
  return range(Math.max(0, last - first + 1)).map((more) => ({ window: first + more, offset: position + lead - (first + more) * row.stride }));
}

function windowPicture(model, shown, again) {
  const [row, found] = [data.models[model], data.gates[model]];
  const [scores, gate, lead] = [found.scores[shown.gate], found.gates[shown.gate], found.lead];
  const words = data.words.slice(0, 2 * row.window);
  const length = words.length + shown.prepended;
  const highest = Math.max(...scores);
  const colour = (offset) => coloured(data.colours.depth, row.window > 1 ? offset / (row.window - 1) : 0, 0, 1);
  const position = shown.followed + shown.prepended;
  const bar = (offset) => h("i", { style: { height: `${(100 * scores[offset]) / highest}%`, background: colour(offset) } });
  const token = (at, offset, window) => {
    if (at < 0) return h("span", { class: "token padding" }, h("span", { class: "score" }), h("span", { class: "word" }, "·"), h("small", null, "no token"));
    if (at >= length) return h("span");
    const word = at < shown.prepended ? "pad" : words[at - shown.prepended];
    const own = at - shown.prepended;
    const says = `${word}, position ${at}, offset ${offset} of window ${window}, mean score ${fixed(scores[offset], 3)}`;
    const inside = [h("span", { class: "score" }, bar(offset)), h("span", { class: "word" }, word), h("small", null, fixed(scores[offset], 2).replace(/^0/, ""))];
    if (own < 0) return h("span", { class: "token padding", title: says }, inside);
    return h("button", { type: "button", class: "token", "aria-label": says, title: says, "aria-pressed": String(own === shown.followed), "data-token": `${window}.${own}`,
      onclick: () => { shown.followed = own; again(`[data-token="${window}.${own}"]`); } }, inside);
  };
  const windows = [];
  for (let window = 0; window * row.stride - lead + row.window <= length; window++) windows.push(window);
  const open = length - (windows.length * row.stride - lead);
  const places = windowsOf(position, row, lead);
  const says = places.map(({ window, offset }) => windows.includes(window)
    ? `offset ${offset} of window ${window}, mean score ${fixed(scores[offset], 3)}`
    : `offset ${offset} of window ${window}, which is still open`).join("; ");
  const summed = (prepended) => windowsOf(shown.followed + prepended, row, lead).reduce((sum, { offset }) => sum + scores[offset], 0);
  const sums = range(row.stride).map(summed);
  const most = Math.max(...sums);
  return h("div", { class: "picture" },
    h("h3", null, `Prepend tokens (${row.label}, W = ${row.window}, S = ${row.stride})`),
    h("div", { class: "shifts", role: "group", "aria-label": "tokens prepended" }, range(row.stride).map((prepended) =>
      h("button", { type: "button", "aria-pressed": String(prepended === shown.prepended), "data-shift": prepended, "aria-label": `prepend ${prepended}: the followed token's score is ${fixed(sums[prepended], 3)}`,
        onclick: () => { shown.prepended = prepended; again(`[data-shift="${prepended}"]`); } },
      h("span", { class: "box" }, h("i", { style: { height: `${(100 * sums[prepended]) / most}%`, background: css("--accent") } })), `+${prepended}`))),
    h("p", { role: "status" }, h("b", null, words[shown.followed]), ` stands at position ${position}, phase ${mod(position, row.stride)}: ${says}. A uniform gate gives every offset ${fixed(1 / row.window, 3)}.`),
    h("div", { class: "windows" }, windows.map((window) => {
      const start = window * row.stride - lead;
      return h("div", { class: "window", style: { gridTemplateColumns: `repeat(${row.window}, minmax(0, 1fr))` } },
        h("h4", null, `window ${window} → one entry; offsets 0 to ${row.window - 1} are positions ${start} to ${start + row.window - 1}`.replace(/ -/g, " \u2212")),
        range(row.window).map((offset) => token(start + offset, offset, window)));
    })),
    open > 0 && h("p", { class: "note" }, `The last ${open} tokens are in a window that is still open: no entry holds all of them yet.`),
    dataTable({
      caption: `Mean scores of this gate by offset at step ${counted(found.steps.at(-1))}: layer ${gate.layer}, head ${gate.head}, ${gate.branch}`,
      columns: ["offset", ...range(row.window).map(String)], rows: [["mean score", ...scores.map((score) => fixed(score, 4))]],
    }));
}
