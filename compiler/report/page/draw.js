// Draws the pictures: gives each specification its table's rows and the page's colours. Every number comes from the
// page's tables of data; nothing is computed here.
"use strict";
const vega = Object.assign({}, ...Object.values(moduleExports));
for (const name of ["vega-transforms", "vega-view-transforms", "vega-encode"])
  Object.assign(vega.transforms, moduleExports[name]);
const data = JSON.parse(document.getElementById("data").textContent);
data.specifications = JSON.parse(document.getElementById("specifications").textContent);
const views = [];

function themeOf(isDark) {
  return isDark
    ? {ink: "#e6edf3", pale: "#9aa4af", grid: "#30363d", colours: ["#6cb6ff", "#f0a04b", "#4cc38a", "#d2a8ff", "#ff8f8f"], ramp: ["#26384c", "#8ac6ff"], twoSided: ["#f0a04b", "#30363d", "#6cb6ff"], ground: "#0d1117"}
    : {ink: "#1f2328", pale: "#57606a", grid: "#d0d7de", colours: ["#1f5f99", "#c4610a", "#1d7a5a", "#6f42c1", "#b3261e"], ramp: ["#d3e2f0", "#0b4a80"], twoSided: ["#c4610a", "#eceff2", "#1f5f99"], ground: "#ffffff"};
}

function rowsOf(table) {
  return table.rows.map(row => Object.fromEntries(table.columns.map((column, i) => [column, row[i]])));
}

async function draw(figure, isDark) {
  const picture = data.pictures[figure.dataset.picture], theme = themeOf(isDark);
  const specification = structuredClone(data.specifications[picture.specification]);
  const box = figure.querySelector(".picture");
  box.replaceChildren();
  specification.description = picture.title + ". " + picture.description;
  const layout = specification.usermeta, table = rowsOf(data.tables[picture.table]);
  if (layout) {
    const bands = new Set(table.map(row => row[picture.fields.yField])).size;
    specification.height = Math.max(60, Math.min(layout.mostHeight, layout.rowHeight * bands));
  }
  specification.padding = {left: 0, right: 4, top: 14, bottom: 6};
  specification.width = Math.max(200, box.clientWidth - 2);
  const values = {...picture.fields, ink: theme.ink, colours: theme.colours, ramp: theme.ramp, twoSided: theme.twoSided, ground: theme.ground};
  specification.signals = [...Object.entries(values).map(([name, value]) => ({name, value})), ...(specification.signals || [])];
  for (const scale of specification.scales) if (scale.type === "xScale") scale.type = picture.fields.xScale;
  specification.data[0].values = table;
  const text = {labelColor: theme.pale, titleColor: theme.ink, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal"};
  const config = {axis: {...text, gridColor: theme.grid, domainColor: theme.pale, tickColor: theme.pale}, legend: text};
  const isLarge = specification.data[0].values.length > 600;
  const view = new vega.View(vega.parse(specification, config), {renderer: isLarge ? "canvas" : "svg", container: box, hover: false});
  views.push(view);
  await view.runAsync();
  figure.dataset.marks = box.querySelectorAll("svg path, svg text, canvas").length;
}

async function drawAll() {
  while (views.length) views.pop().finalize();
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  for (const figure of document.querySelectorAll("figure[data-picture]")) await draw(figure, isDark);
  document.documentElement.dataset.drawn = "yes";
}

let pending = 0;
addEventListener("resize", () => { clearTimeout(pending); pending = setTimeout(drawAll, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
