// Tables sort by a click on a heading; without this script they stand as they are.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const rows = [...body.rows].map((row) => {
        const text = row.cells[column].textContent;
        const found = text.match(/^[<[]?\s*([-+]?\d[\d.]*)/);
        return { row, text, number: found ? parseFloat(found[1]) : NaN, less: text.startsWith("<") };
      });
      const numeric = rows.some((a) => !isNaN(a.number)) && rows.every((a) => !isNaN(a.number) || a.text === "–");
      rows.sort((a, b) => {
        if (!numeric) return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
        if (isNaN(a.number) || isNaN(b.number)) return isNaN(a.number) - isNaN(b.number);
        return sign * (a.number - b.number || b.less - a.less);
      });
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      body.append(...rows.map((a) => a.row));
    });
  });
}
