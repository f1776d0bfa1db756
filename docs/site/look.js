// Tables are sorted by a click on a heading, figures shown in full size by a click on them.
document$.subscribe(() => {
  const number = text => {
    const found = text.replace(/,/g, "").replace("−", "-").match(/^[^\d-]*(-?\d+(\.\d+)?(e[-+]?\d+)?)/i);
    return found ? Number(found[1]) : NaN;
  };
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent.trim() && table.tHead.textContent.trim() === "") return;
      head.dataset.sort = "0";
      head.addEventListener("click", () => {
        const way = head.dataset.sort === "1" ? -1 : 1;
        for (const other of table.tHead.rows[0].cells) if (other.dataset.sort) other.dataset.sort = "0";
        head.dataset.sort = String(way);
        const key = row => row.cells[column]?.textContent.trim() ?? "";
        const rows = [...body.rows];
        const numeric = rows.filter(row => !Number.isNaN(number(key(row)))).length * 2 > rows.length;
        const compare = numeric
          ? (a, b) => (Number.isNaN(number(a)) ? 1 : Number.isNaN(number(b)) ? -1 : way * (number(a) - number(b)))
          : (a, b) => way * a.localeCompare(b);
        body.append(...rows.sort((a, b) => compare(key(a), key(b))));
      });
    });
  }
  for (const image of document.querySelectorAll(".md-content img")) {
    if (image.closest("a")) continue;
    image.addEventListener("click", () => {
      const dialog = document.createElement("dialog");
      dialog.className = "zoom";
      dialog.append(image.cloneNode());
      dialog.addEventListener("click", () => dialog.remove());
      image.after(dialog);
      dialog.showModal();
    });
  }
});
