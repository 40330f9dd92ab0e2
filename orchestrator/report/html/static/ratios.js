"use strict";
/* The plot of a comparison: the speed of each cell with its interval, on the band of what counts as the same. See draw_charts.js. */

(() => {
  const { tip, tooltip, base, legend, valueAxis, rowAxis, besides } = Charts;
  const LEAST_HIGH = 24;
  const SIZE = 6.5;

  /* By tone, and by shape for those who see no colours. */
  function markOf(look) {
    return {
      bad: { color: look.bad, points: [[-1, -0.8], [1, -0.8], [0, 1]] },
      good: { color: look.good, points: [[-1, 0.8], [1, 0.8], [0, -1]] },
      warn: { color: look.warn, points: [[-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]] },
      mean: { color: look.ink, points: [[-1.4, 0], [0, -1], [1.4, 0], [0, 1]] },
      "": { color: look.muted, points: null },
    };
  }

  const known = (value) => value !== null && value !== undefined;
  const percent = (share) => `${share > 0.00005 ? "+" : ""}${Number((share * 100).toFixed(2))}%`;

  /* Every point and margin is inside; of an interval as much as leaves the others legible. 1 is a multiple of the step. */
  function range(rows, steps) {
    const places = rows.flatMap((row) => [row.ratio, row.margin_low, row.margin_high]).filter(known);
    const away = Math.max(0.005, ...places.map((place) => Math.abs(place - 1)));
    const ends = rows.flatMap((row) => [row.low, row.high]).filter(known).map((end) => Math.max(1 - 3 * away, Math.min(1 + 3 * away, end)));
    const [least, most] = [Math.min(1 - away, ...places, ...ends), Math.max(1 + away, ...places, ...ends)];
    const room = (most - least) * 0.04;
    const rough = (most - least) / steps;
    const ten = 10 ** Math.floor(Math.log10(rough));
    const step = ten * [1, 2, 5, 10].find((times) => ten * times >= rough);
    return { min: Math.max(0, Math.floor((least - room) / step) * step), max: Math.ceil((most + room) / step) * step, interval: step };
  }

  function shapes(row, y, at, high, color, points, look) {
    const [left, right] = [at.left, at.right];
    const line = (x1, y1, x2, y2, style) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    const made = [];
    if (known(row.margin_low)) {
      const from = Math.max(left, at.x(row.margin_low));
      made.push({ type: "rect", shape: { x: from, y: y - high / 2, width: Math.min(right, at.x(row.margin_high)) - from, height: high }, style: { fill: look.line, opacity: 0.6 } });
    }
    made.push(line(at.x(1), y - high / 2, at.x(1), y + high / 2, { stroke: look.muted, lineWidth: 1, lineDash: [3, 3] }));
    if (known(row.low) && known(row.high)) {
      const [from, to] = [Math.max(left, at.x(row.low)), Math.min(right, at.x(row.high))];
      made.push(line(from, y, to, y, { stroke: color, lineWidth: 1.8 }));
      // An end that is cut off by the edge has no cap.
      for (const end of [at.x(row.low), at.x(row.high)]) {
        if (end >= left && end <= right) made.push(line(end, y - 4, end, y + 4, { stroke: color, lineWidth: 1.8 }));
      }
    }
    const x = at.x(row.ratio);
    const style = { fill: color, stroke: look.surface, lineWidth: 1 }; // apart from the ends of a short interval
    if (points) made.push({ type: "polygon", shape: { points: points.map(([dx, dy]) => [x + dx * SIZE, y + dy * SIZE]) }, style });
    else made.push({ type: "circle", shape: { cx: x, cy: y, r: SIZE - 0.5 }, style });
    return { type: "group", children: made };
  }

  function ratios(plot, look, width) {
    const axis = range(plot.rows, width < 560 ? 3 : 6);
    const marks = markOf(look);
    const rows = rowAxis(look, plot.rows.map((row) => row.name), width, 12, besides(width));
    const high = Math.max(LEAST_HIGH, rows.high);
    const tones = new Map(plot.rows.map((row) => [row.word, row.tone]));
    const series = [...tones].map(([word, tone]) => ({
      name: word,
      type: "custom",
      encode: { x: 0, y: 1 },
      itemStyle: { color: marks[tone].color },
      data: plot.rows.map((row, place) => [row.ratio, place]).filter(([, place]) => plot.rows[place].word === word),
      renderItem: (params, api) => {
        const row = plot.rows[api.value(1)];
        const x = (value) => api.coord([value, api.value(1)])[0];
        const [, y] = api.coord([row.ratio, api.value(1)]);
        const at = { x, left: params.coordSys.x, right: params.coordSys.x + params.coordSys.width };
        return shapes(row, y, at, api.size([0, 1])[1], marks[tone].color, marks[tone].points, look);
      },
    }));
    const top = series.length > 1 ? 36 : 6;
    return {
      height: 28 + top + high * plot.rows.length,
      option: {
        ...base(look),
        tooltip: tooltip(look, (item) => tip(plot.rows[item.value[1]].name, plot.rows[item.value[1]].says)),
        legend: legend(look, { show: series.length > 1 }),
        grid: { left: 4, right: 16, top, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: valueAxis(look, { ...axis, axisLabel: { color: look.muted, fontSize: 11, hideOverlap: true, formatter: (value) => percent(value - 1) } }),
        yAxis: rows.axis,
        series,
      },
    };
  }

  Object.assign(Charts.kinds, { ratios });
})();
