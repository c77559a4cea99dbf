// Reading the data, making elements, writing numbers. Text of the data only ever becomes text nodes and attributes.

const data = JSON.parse(document.getElementById("data").textContent);
const PADDINGS = data.paddings;

/** An element; attributes that are functions are listeners, null and false are left out, children may be strings. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const MISSING = "–";
const present = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** A number with so many decimals and a true minus; a dash where there is none. */
function fixed(value, digits = 1) {
  if (!present(value)) return MISSING;
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "\u2212");
}

const signed = (value, digits = 1) => (present(value) && Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits);
const counted = (value) => (present(value) ? value.toLocaleString("en") : MISSING);
const interval = (low, high, digits = 1) => (present(low) ? `${fixed(low, digits)} to ${fixed(high, digits)}` : MISSING);
const percent = Math.round(100 * data.confidence);
const range = (count) => [...Array(count).keys()];
const mod = (value, by) => ((value % by) + by) % by;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of a value on a sampled scale that runs from low to high. */
function coloured(scale, value, low, high) {
  if (!present(value)) return data.colours.undefined;
  const share = Math.min(1, Math.max(0, (value - low) / (high - low)));
  return scale[Math.round(share * (scale.length - 1))];
}

/** Black or white, whichever can be read on this colour. */
function readable(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#000000" : "#ffffff";
}

/** What a view says where there is nothing to show. */
const notRun = (text) => h("p", { class: "notrun" }, text);
