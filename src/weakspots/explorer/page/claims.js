// Every claim in the paper's order, with its verdict here, the published figure beside it, and what it rests on.

const SIGNS = { holds: "\u2713", fails: "\u2717", "not run": "\u25cb", flat: "\u2013" };

const claimsView = {
  id: "claims",
  title: "Claims",
  draw() {
    if (!data.claims) return [h("h2", null, "Claims"), notRun("The claims have not been judged: not run.")];
    const statuses = ["holds", "fails", "not run"];
    const shown = { status: "" };
    const body = panel(() => claimsBody(shown.status));
    const count = (status) => data.claims.filter((claim) => claim.status === status).length;
    return [
      h("h2", null, "Claims of the paper"),
      h("p", null, `Each verdict is measured at the ${data.scale} scale. Accuracies are in percent, gaps in percentage points; n counts key–name mappings, each asked at every position, and runs or descents where a claim is about the theory.`),
      h("div", { class: "controls" }, radios("show", [["", `all ${data.claims.length}`], ...statuses.map((status) => [status, `${SIGNS[status]} ${status} (${count(status)})`])], "", (value) => { shown.status = value; body.update(); })),
      body,
    ];
  },
};

function claimsBody(status) {
  const chosen = data.claims.filter((claim) => !status || claim.status === status);
  if (!chosen.length) return h("p", null, "No claim has this verdict.");
  return [claimsScreen(chosen), h("h3", null, "In full"), claimsInFull(chosen)];
}

// One line per claim, the same words as in claims.md; its name leads to what it rests on below.
function claimsScreen(all) {
  const sections = [...new Set(all.map((claim) => claim.section))];
  const chosen = sections.flatMap((section) => all.filter((claim) => claim.section === section));
  const rows = chosen.flatMap((claim, at) => [
    claim.section !== chosen[at - 1]?.section && h("tr", null, h("th", { colspan: 4, scope: "colgroup" }, claim.section)),
    h("tr", null, h("td", null, verdict(claim.status)), h("td", null, h("a", { href: `#claim-${claim.id}`, onclick: (event) => { event.preventDefault(); document.getElementById(`claim-${claim.id}`).scrollIntoView(); } }, claim.name)), h("td", null, claim.measured_briefly), h("td", null, claim.published_briefly)),
  ].filter(Boolean));
  const head = ["verdict", "claim", "measured", "paper"].map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "scroll" }, h("table", { class: "screen" }, h("caption", { class: "sr" }, "All claims at a glance"), h("thead", null, h("tr", null, head)), h("tbody", null, rows)));
}

function claimsInFull(chosen) {
  return chosen.map((claim, at) => [claim.section !== chosen[at - 1]?.section && h("h3", null, claim.section), claimArticle(claim)]);
}

const verdict = (status) => h("span", { class: `badge ${status.replace(" ", "")}` }, `${SIGNS[status] ?? ""} ${status}`);
const link = (path) => h("a", { href: path.split("/").map(encodeURIComponent).join("/") }, path);
const joined = (nodes) => nodes.flatMap((node, at) => (at ? [", ", node] : [node]));

function claimArticle(claim) {
  const entry = (name, ...value) => [h("dt", null, name), h("dd", null, value)];
  const tables = [...new Set([...claim.tables, ...claim.parts.map((part) => part.table).filter(Boolean)])];
  const article = h("article", { class: `claim ${claim.status.replace(" ", "")}`, id: `claim-${claim.id}`, "aria-label": claim.id },
    h("p", null, verdict(claim.status), " ", claim.text),
    h("dl", null,
      entry("measured", claim.value),
      present(claim.low) && entry("interval", interval(claim.low, claim.high)),
      entry("n", present(claim.n) ? counted(claim.n) : MISSING),
      claim.seeds && entry("seeds", claim.seeds),
      entry("published", claim.published ?? MISSING),
      claim.figures.length ? entry("figure", joined(claim.figures.map(link))) : null,
      tables.length && tables.length <= 8 ? entry(tables.length > 1 ? "tables" : "table", joined(tables.map(link))) : null));
  if (claim.parts.length) {
    const details = h("details", null, h("summary", null, `${claim.parts.length} parts${tables.length > 8 ? ", with their tables" : ""}`));
    // filled when it is opened: all parts of all claims are many
    details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(claimParts(claim)); });
    article.append(details);
  }
  return article;
}

function claimParts(claim) {
  const paddings = claim.parts.some((part) => part.padding);
  const theirs = claim.parts.some((part) => part.published);
  const linked = claim.parts.some((part) => part.table);
  const cells = (on, value) => (on ? [value] : []);
  return dataTable({
    caption: `Parts of ${claim.id}`,
    columns: ["run", ...cells(paddings, "padding"), "verdict", "measured", "interval", "n", "seed", ...cells(theirs, "published"), ...cells(linked, "table")],
    rows: claim.parts.map((part) => [part.label ?? part.model, ...cells(paddings, h("span", null, part.padding ? PADDINGS[part.padding] ?? part.padding : MISSING)), verdict(part.status), h("span", null, part.value), interval(part.low, part.high),
      counted(part.n), part.seeds ?? MISSING, ...cells(theirs, h("span", null, part.published ?? MISSING)), ...cells(linked, part.table ? link(part.table) : MISSING)]),
  });
}
