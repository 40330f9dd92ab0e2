"use strict";
/* Draws every chart of the page, and again when its width, the colours or the medium change. */

(() => {
  const root = document.documentElement;
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const drawn = new Map();
  /* What a chart has on A4 and on Letter below its heading, in pixels: a browser tells that it will print before it lays out the paper. */
  const PAPER = { width: 640, height: 740 };

  function look() {
    const style = getComputedStyle(root);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const names = ["surface", "ink", "muted", "line", "faint", "accent", "good", "warn", "bad", "low", "high"];
    return {
      ...Object.fromEntries(names.map((name) => [name, color(name)])),
      series: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((place) => color(`s${place}`)),
      font: getComputedStyle(document.body).fontFamily,
    };
  }

  function chosen(id) {
    const select = document.querySelector(`select[data-chart="${id}"]`);
    return select ? Number(select.value) : 0;
  }

  function draw(box, colors) {
    const { kind, says, plots: all } = plots[box.dataset.plot];
    const plot = all[chosen(box.dataset.plot)];
    const { height, option } = Charts.kinds[kind](plot, colors, box.clientWidth);
    box.style.height = `${height}px`;
    if (!drawn.has(box)) drawn.set(box, echarts.init(box, null, { renderer: "svg" }));
    const chart = drawn.get(box);
    chart.resize();
    chart.setOption({ ...option, aria: { enabled: true, label: { description: `${says} ${plot.name}` } } }, true);
  }

  const boxes = [...document.querySelectorAll(".plot")];
  const all = () => {
    const colors = look();
    boxes.forEach((box) => draw(box, colors));
  };

  /* As wide as paper; what is too high for a page is drawn larger, in the shape of one, and shrunk. */
  function onPaper(box, colors) {
    box.style.width = `${PAPER.width}px`;
    draw(box, colors);
    const larger = box.clientHeight / PAPER.height;
    if (larger > 1) {
      box.style.width = `${Math.ceil(PAPER.width * larger)}px`;
      draw(box, colors);
    }
    box.querySelector("svg").setAttribute("viewBox", `0 0 ${box.clientWidth} ${box.clientHeight}`);
  }

  function onScreen(box, colors) {
    box.style.width = "";
    box.querySelector("svg").removeAttribute("viewBox");
    draw(box, colors);
  }

  const print = (printing) => {
    root.toggleAttribute("data-print", printing);
    const colors = look();
    boxes.forEach((box) => (printing ? onPaper : onScreen)(box, colors));
  };

  let width = 0;
  let waiting = 0;
  new ResizeObserver(() => {
    if (root.clientWidth === width || root.hasAttribute("data-print")) return;
    width = root.clientWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(all);
  }).observe(root);

  for (const select of document.querySelectorAll("select[data-chart]")) {
    select.addEventListener("change", () => draw(document.getElementById(`plot-${select.dataset.chart}`), look()));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  width = root.clientWidth;
  all();
})();
