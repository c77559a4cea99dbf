// Native controls with labels, so that keyboards and screen readers need nothing special.

/** A drop-down; options are {value, label, group}. */
function choose(label, options, value, changed) {
  const select = h("select", { onchange: () => changed(select.value) });
  const groups = new Map();
  for (const option of options) {
    const item = h("option", { value: option.value, selected: option.value === value }, option.label);
    if (!option.group) {
      select.append(item);
      continue;
    }
    if (!groups.has(option.group)) {
      groups.set(option.group, h("optgroup", { label: option.group }));
      select.append(groups.get(option.group));
    }
    groups.get(option.group).append(item);
  }
  // a label around the drop-down would have all its options in its text
  const id = `control-${controls++}`;
  select.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), select);
}

let controls = 0; // made so far, for ids and names

/** One of a few; options are [value, label] or [value, label, disabled]. */
function radios(legend, options, value, changed) {
  const name = `control-${controls++}`;
  const inputs = options.map(([option, label, disabled]) =>
    h("label", null,
      h("input", { type: "radio", name, value: option, checked: option === value, disabled, onchange: () => changed(option) }),
      ` ${label}`));
  return h("fieldset", null, h("legend", null, legend), inputs);
}

function checkbox(label, value, changed, disabled = false) {
  const input = h("input", { type: "checkbox", checked: value, disabled, onchange: () => changed(input.checked) });
  return h("label", null, input, ` ${label}`);
}

/** A slider over the indices of `names`, which it says aloud. */
function slider(label, names, index, changed) {
  const id = `control-${controls++}`;
  const shown = h("span", { "aria-hidden": "true" }, names[index]);
  const input = h("input", {
    type: "range", id, min: 0, max: names.length - 1, step: 1, value: index, "aria-valuetext": names[index],
    oninput: () => {
      shown.textContent = names[input.value];
      input.setAttribute("aria-valuetext", names[input.value]);
      changed(Number(input.value));
    },
  });
  const field = h("div", { class: "field slider" }, h("div", null, h("label", { for: id }, label), ": ", shown), input);
  field.move = (to) => {
    input.value = to;
    input.dispatchEvent(new Event("input"));
  };
  return field;
}

/** All runs for a drop-down; those without `has(model)` say so. */
function runOptions(has) {
  return Object.entries(data.models).map(([value, model]) => ({
    value,
    label: model.label + (has(value) ? "" : " (not run)"),
    group: model.compressed ? "compressed" : "full attention",
  }));
}

/** The wanted run if it is one of the table's, else the first that has something to show, else the first. */
function firstRun(wanted, has) {
  const models = Object.keys(data.models);
  if (models.includes(wanted)) return wanted;
  if (has("w8s8-1kv")) return "w8s8-1kv";
  return models.find((model) => data.models[model].compressed && has(model)) ?? models.find(has) ?? models[0];
}
