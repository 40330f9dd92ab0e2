"use strict";
/* The plot of a trend: a figure over the runs of a history, with the places where its level or the stack changed. See draw_charts.js. */

(() => {
  const { tip, tooltip, base, legend, valueAxis, categoryAxis } = Charts;
  const known = (value) => value !== null && value !== undefined;

  /* What does not count, such as a throttled run, would make the others look alike: it is drawn at the edge. */
  function range(plot) {
    const all = plot.runs.filter((run) => known(run.value));
    const values = (all.some((run) => run.counted) ? all.filter((run) => run.counted) : all).map((run) => run.value);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low) * 0.15 || Math.abs(high) * 0.05 || 1;
    return { min: low - room, max: high + room };
  }

  function upright(look, places, style, words) {
    return {
      symbol: "none",
      silent: true,
      lineStyle: { width: 1.2, ...style },
      data: places.map((place) => ({
        xAxis: place,
        label: { show: words(place) !== "", formatter: words(place), color: look.ink, fontSize: 12, fontWeight: 600, fontFamily: look.font },
      })),
    };
  }

  function runs(plot, look, width) {
    const { min, max } = range(plot);
    const inside = (value) => Math.max(min, Math.min(max, value));
    const places = (wanted) => plot.runs.map((_, place) => place).filter((place) => wanted(plot.runs[place]));
    const marks = (name, wanted, at, more) => ({ name, type: "scatter", data: places(wanted).map((place) => [place, at(plot.runs[place])]), ...more });
    const changed = (run) => run.change !== "";
    const series = [
      {
        name: "a run",
        type: "line",
        data: plot.runs.map((run, place) => [place, run.counted ? run.value : null]),
        connectNulls: true,
        symbol: "circle",
        symbolSize: plot.runs.length > 120 ? 3 : 6,
        showAllSymbol: true,
        lineStyle: { width: 1.6, color: look.accent },
        itemStyle: { color: look.accent },
      },
      marks("not counted", (run) => known(run.value) && !run.counted, (run) => inside(run.value), {
        symbol: "diamond",
        symbolSize: 10,
        itemStyle: { color: look.surface, borderColor: look.muted, borderWidth: 1.6 },
      }),
      marks("the stack changed", (run) => run.stack, () => min, {
        symbol: "triangle",
        symbolSize: 10,
        itemStyle: { color: look.muted },
        markLine: upright(look, places((run) => run.stack), { color: look.muted, type: "dotted" }, () => ""),
      }),
      marks("the level changed", changed, (run) => inside(run.value), {
        symbol: "circle",
        symbolSize: 12,
        z: 5,
        itemStyle: { color: look.warn },
        markLine: upright(look, places(changed), { color: look.warn, type: "dashed" }, (place) => plot.runs[place].change),
      }),
    ].filter((one) => one.type === "line" || one.data.length);
    return {
      height: width < 560 ? 280 : 340,
      option: {
        ...base(look),
        tooltip: tooltip(look, (items) => tip(plot.runs[items[0].value[0]].name, plot.runs[items[0].value[0]].says), { trigger: "axis" }),
        legend: legend(look, { icon: undefined, data: series.map((one) => one.name) }),
        grid: { left: 4, right: 24, top: 58, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: categoryAxis(look, plot.runs.map((run) => run.began), width, { axisLabel: { color: look.muted, fontSize: 11, hideOverlap: true } }),
        yAxis: valueAxis(look, { min, max, splitNumber: 4, axisLabel: { color: look.muted, fontSize: 11, showMinLabel: false, showMaxLabel: false } }),
        series,
      },
    };
  }

  Object.assign(Charts.kinds, { runs });
})();
