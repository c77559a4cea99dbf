// Tabs, and an address that leads back to what is shown.

const VIEWS = [accuracyView, knockoutsView, concentrationView, gatesView, cyclingView, windowView, deepseekView, claimsView];
const state = { view: VIEWS[0].id, model: null, padding: null };

/** Read the view, run and padding from the address. */
function recall() {
  const [view, ...pairs] = decodeURIComponent(location.hash.slice(1)).split("&");
  if (VIEWS.some(({ id }) => id === view)) state.view = view;
  for (const pair of pairs) {
    const [name, value] = pair.split("=");
    if (name === "model" && value in data.models) state.model = value;
    if (name === "padding" && value in PADDINGS) state.padding = value;
  }
}

/** Write them there, without a new step in the history. */
function remember() {
  const pairs = ["model", "padding"].filter((name) => state[name]).map((name) => `${name}=${encodeURIComponent(state[name])}`);
  history.replaceState(null, "", `#${[state.view, ...pairs].join("&")}`);
}

const place = document.getElementById("view");
const tabs = VIEWS.map(({ id, title }, at) =>
  h("button", {
    type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "view",
    onclick: () => open(id),
    onkeydown: (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: VIEWS.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = mod(to, VIEWS.length);
      open(VIEWS[next].id);
      tabs[next].focus();
    },
  }, title));

/** Draw one view; the others cost nothing until they are opened. */
function open(id) {
  state.view = id;
  tabs.forEach((tab, at) => {
    const chosen = VIEWS[at].id === id;
    tab.setAttribute("aria-selected", String(chosen));
    tab.setAttribute("tabindex", chosen ? 0 : -1);
  });
  place.setAttribute("aria-labelledby", `tab-${id}`);
  clearInterval(replay);
  clearCharts(place);
  place.replaceChildren(...VIEWS.find((view) => view.id === id).draw(state).flat(Infinity).filter(Boolean));
  startCharts(place);
  remember();
}

document.getElementById("tabs").append(...tabs);
document.getElementById("subtitle").textContent =
  `Results at the ${data.scale} scale: ${Object.keys(data.models).length} runs${data.modulus ? `, positions mod ${data.modulus}` : ""}, ${percent} % intervals.`;
place.setAttribute("role", "tabpanel");
window.addEventListener("hashchange", () => { recall(); open(state.view); });
recall();
open(state.view);
