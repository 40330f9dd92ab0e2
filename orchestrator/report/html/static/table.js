"use strict";
/* The table of all cells: sorted by its headings, narrowed down by words and choices, exported as it is shown.

   A remark is a row of its own below the row that it is about: it moves, hides and is exported with it. */

(() => {
  const table = document.getElementById("cells-table");
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const words = document.getElementById("cells-words");
  const choices = [...document.querySelectorAll("#cells-filters select")];
  const text = (cell) => cell.textContent.trim();
  const isRemark = (row) => row !== null && row.classList.contains("remark");
  const rows = [...body.rows].filter((row) => !isRemark(row)).map((row) => {
    const below = isRemark(row.nextElementSibling) ? [row.nextElementSibling] : [];
    const texts = [...[...row.cells].map(text), below.map(text).join("")];
    return { parts: [row, ...below], texts, all: texts.join(" ").toLowerCase() };
  });
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  let shown = rows;

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fixed = choices.filter((choice) => choice.value).map((choice) => [Number(choice.dataset.column), choice.value]);
    shown = rows.filter(
      (one) => wanted.every((word) => one.all.includes(word)) && fixed.every(([column, value]) => one.texts[column] === value)
    );
    const kept = new Set(shown);
    for (const one of rows) for (const part of one.parts) part.hidden = !kept.has(one);
    const all = rows.length === 1 ? "1 cell" : `${rows.length} cells`;
    const said = shown.length === rows.length ? all : `${shown.length} of ${all}`;
    document.getElementById("cells-count").textContent = said;
  }

  /* What has no number comes last, whichever way the others are sorted. */
  function compare(column, numeric, way) {
    if (!numeric) return (one, other) => way * natural(one.texts[column], other.texts[column]);
    const value = (one) => parseFloat(one.texts[column]);
    return (one, other) => {
      const [left, right] = [value(one), value(other)];
      if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right);
      return way * (left - right);
    };
  }

  function sort(column) {
    const heading = headings[column];
    const way = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const one of headings) one.setAttribute("aria-sort", one === heading ? way : "none");
    rows.sort(compare(column, heading.classList.contains("n"), way === "ascending" ? 1 : -1));
    body.append(...rows.flatMap((one) => one.parts));
    filter();
  }

  /* Text that a spreadsheet would take for a formula gets a leading quote, as in report.csv; numbers stay numbers. */
  function field(text) {
    const safe = /^[=+\-@]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function save() {
    const lines = [[...headings.map(text), table.dataset.remarks], ...shown.map((one) => one.texts)];
    const csv = lines.map((line) => line.map(field).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv;charset=utf-8" }));
    link.download = document.getElementById("cells-export").dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => sort(column)));
  words.addEventListener("input", filter);
  for (const choice of choices) choice.addEventListener("change", filter);
  document.getElementById("cells-filters").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("cells-export").addEventListener("click", save);
  filter(); // a browser may have kept what was typed before
})();
