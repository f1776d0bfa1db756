"use strict";
// Sorting: numbers from the largest, names from A, a second click turns round, a third brings the file's order back.
// What is missing stays at the end either way.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, place) => {
    const text = row.cells[place].dataset.value;
    return text === undefined || text === "" || isNaN(text) ? text : Number(text);
  };
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const known = original.filter((row) => value(row, place) !== undefined);
    const absent = original.filter((row) => value(row, place) === undefined);
    const numeric = place > 0;
    const first = head.dataset.first || (numeric ? "descending" : "ascending");
    const second = first === "ascending" ? "descending" : "ascending";
    const now = head.getAttribute("aria-sort");
    const next = now === first ? second : now === second ? null : first;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (next === null) { body.append(...original); return; }
    head.setAttribute("aria-sort", next);
    const sign = next === "ascending" ? 1 : -1;
    known.sort((a, b) => {
      const [x, y] = [value(a, place), value(b, place)];
      return sign * (numeric ? x - y : String(x).localeCompare(String(y)));
    });
    body.append(...known, ...absent);
  }));
}
const show = document.querySelector(".show");
show.hidden = show.children.length === 0;
for (const box of show.querySelectorAll("input")) {
  const apply = () => document.getElementById("table").classList.toggle(`hide-${box.dataset.part}`, !box.checked);
  box.addEventListener("change", apply);
  apply();
}
// A link to the runs of a row opens them.
const open = () => {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found && found.tagName === "DETAILS") found.open = true;
};
addEventListener("hashchange", open);
open();
// A table that is wider than its frame says how many columns lie beyond the edge.
for (const frame of document.querySelectorAll(".frame")) {
  const scroller = frame.querySelector(".scroll");
  const look = () => {
    const edge = scroller.getBoundingClientRect().right;
    const heads = [...scroller.querySelectorAll("thead th")];
    const hidden = heads.filter((head) => head.getBoundingClientRect().right > edge + 2).length;
    frame.classList.toggle("wide", scroller.scrollWidth > scroller.clientWidth + 1);
    frame.classList.toggle("cut", hidden > 0);
    if (hidden > 0) frame.querySelector(".more").textContent = `${hidden} more column${hidden > 1 ? "s" : ""} \u2192`;
  };
  scroller.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(scroller);
  look();
}
