"use strict";
/* The plots whose axis is the time of day: launches of all devices, and the readings of one of them. See draw_charts.js. */

(() => {
  const { number, withUnit, tip, tooltip, base, legend, valueAxis, categoryAxis } = Charts;
  const DAY_S = 86400;

  function timeAxis(look, began, bars, more) {
    const long = bars.some((bar) => bar.end_s > DAY_S);
    const digits = (value) => String(value).padStart(2, "0");
    const clock = (at) => {
      const moment = new Date(at);
      const time = `${digits(moment.getUTCHours())}:${digits(moment.getUTCMinutes())}:${digits(moment.getUTCSeconds())}`;
      return long ? `${moment.toISOString().slice(5, 10)} ${time.slice(0, 5)}` : time;
    };
    return {
      clock,
      axis: {
        type: "value",
        scale: true,
        axisLine: { lineStyle: { color: look.line } },
        axisTick: { show: false },
        splitLine: { show: false },
        axisLabel: { color: look.muted, fontSize: 11, hideOverlap: true, formatter: (seconds) => clock(began + seconds * 1000) },
        ...more,
      },
    };
  }

  function colorOf(look, kinds) {
    // The fifth colour is too near the red of a launch without a result.
    const order = ["load", "inference", "training", "generation", null, "probe", "soak", "truth", "memory", "links", "steps", "replay"];
    return (kind) => (kind === "several" ? look.muted : look.series[Math.max(0, order.indexOf(kind)) % look.series.length]);
  }

  /* A rectangle a launch; at least two pixels wide, for otherwise a short one is not seen. */
  function barSeries(look, bars, kind, color, high, more) {
    const chosen = bars.filter((bar) => (kind === null ? bar.failed : bar.kind === kind && !bar.failed));
    return {
      name: kind === null ? "without a result" : kind,
      type: "custom",
      encode: { x: [1, 2], y: 0 },
      itemStyle: { color },
      data: chosen.map((bar) => ({ value: [bar.row, bar.start_s, bar.end_s], says: bar.says })),
      renderItem: (_, api) => {
        const [left, y] = api.coord([api.value(1), api.value(0)]);
        const [right] = api.coord([api.value(2), api.value(0)]);
        const height = kind === null ? high + 6 : high;
        return {
          type: "rect",
          shape: { x: left, y: y - height / 2, width: Math.max(kind === null ? 3 : 2, right - left - 0.5), height, r: 2 },
          style: { fill: color },
        };
      },
      ...more,
    };
  }

  function kindsOf(bars) {
    return [...new Set(bars.filter((bar) => !bar.failed).map((bar) => bar.kind))];
  }

  function allBars(look, bars, high, more) {
    const color = colorOf(look);
    const made = kindsOf(bars).map((kind) => barSeries(look, bars, kind, color(kind), high, more));
    if (bars.some((bar) => bar.failed)) made.push(barSeries(look, bars, null, look.bad, high, { z: 5, ...more }));
    return made;
  }

  function spans(plot, look, width) {
    const range = { min: Math.min(...plot.bars.map((bar) => bar.start_s)), max: Math.max(...plot.bars.map((bar) => bar.end_s)) };
    const { clock, axis } = timeAxis(look, plot.began_ms, plot.bars, range);
    const says = (item) =>
      tip(plot.rows[item.value[0]], [
        item.data.says,
        `${clock(plot.began_ms + item.value[1] * 1000)} to ${clock(plot.began_ms + item.value[2] * 1000)} UTC`,
        ...(item.seriesName === "without a result" ? ["without a result"] : []),
      ]);
    return {
      height: 92 + 30 * plot.rows.length,
      option: {
        ...base(look),
        tooltip: tooltip(look, says),
        legend: legend(look),
        grid: { left: 4, right: 20, top: 38, bottom: 6, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: axis,
        yAxis: categoryAxis(look, plot.rows, width, { inverse: true }),
        series: allBars(look, plot.bars, 18),
      },
    };
  }

  /* A band from the lowest to the highest reading under the line of the mean; grids below each other, one time axis. */
  function readingSeries(reading, place, look, marks) {
    const color = look.series[place % look.series.length];
    const shared = { type: "line", xAxisIndex: place + 1, yAxisIndex: place + 1, symbol: "none", connectNulls: false };
    const band = { ...shared, stack: `band${place}`, stackStrategy: "all", lineStyle: { opacity: 0 }, silent: true, tooltip: { show: false } };
    return [
      { ...band, name: `${reading.title} lowest`, data: reading.points.map(([at, , low]) => [at, low]) },
      {
        ...band,
        name: `${reading.title} highest`,
        areaStyle: { color, opacity: 0.2 },
        data: reading.points.map(([at, , low, high]) => [at, low === null ? null : high - low]),
      },
      {
        ...shared,
        name: reading.title,
        lineStyle: { width: 1.6, color },
        itemStyle: { color },
        data: reading.points.map(([at, mean, low, high]) => [at, mean, low, high]),
        markLine: {
          symbol: "none",
          silent: true,
          label: { show: false },
          lineStyle: { color: look.bad, width: 1.2, type: "dashed" },
          data: marks.map((bar) => ({ xAxis: bar.start_s })),
        },
      },
    ];
  }

  function course(plot, look, width) {
    const high = 96;
    const gap = 40;
    const first = 62;
    const times = plot.readings.flatMap((reading) => reading.points.map(([at]) => at));
    const ends = [...times, ...plot.bars.flatMap((bar) => [bar.start_s, bar.end_s])];
    const range = { min: Math.min(...ends), max: Math.max(...ends) };
    const { clock, axis } = timeAxis(look, plot.began_ms, plot.bars, range);
    const marks = plot.bars.filter((bar) => bar.failed);
    const sides = { left: 52, right: 28, outerBoundsMode: "none" }; // all of them alike, whatever their labels
    const says = (items) => {
      const known = items.filter((item) => item.componentSubType === "line" && item.value.length === 4);
      const at = items[0].value[items[0].componentSubType === "custom" ? 1 : 0];
      const running = plot.bars.filter((bar) => bar.start_s <= at && at <= bar.end_s);
      return tip(`${clock(plot.began_ms + at * 1000)} UTC`, [
        ...running.map((bar) => bar.says + (bar.failed ? ": without a result" : "")),
        ...known.map((item) => {
          const unit = plot.readings.find((reading) => reading.title === item.seriesName).unit;
          const [, mean, low, most] = item.value;
          if (mean === null) return `${item.seriesName}: N/A`;
          return `${item.seriesName}: ${withUnit(mean, unit)}` + (low === most ? "" : ` (${number(low)} to ${number(most)})`);
        }),
      ]);
    };
    const top = (place) => first + 26 + place * (high + gap);
    return {
      height: top(plot.readings.length) - gap + 34,
      option: {
        ...base(look),
        tooltip: tooltip(look, says, { trigger: "axis", axisPointer: { type: "line", lineStyle: { color: look.muted } } }),
        axisPointer: { link: [{ xAxisIndex: "all" }] },
        legend: legend(look, { data: [...kindsOf(plot.bars), ...(marks.length ? ["without a result"] : [])] }),
        title: plot.readings.map((reading, place) => ({
          text: `${reading.title}, ${reading.unit}`,
          left: 0,
          top: top(place) - 25,
          textStyle: { color: look.ink, fontSize: 12, fontWeight: 600, fontFamily: look.font },
        })),
        grid: [
          { ...sides, top: 34, height: 16 },
          ...plot.readings.map((_, place) => ({ ...sides, top: top(place), height: high })),
        ],
        xAxis: [
          { ...axis, gridIndex: 0, axisLabel: { show: false }, axisLine: { show: false } },
          ...plot.readings.map((_, place) => ({
            ...axis,
            gridIndex: place + 1,
            axisLabel: place === plot.readings.length - 1 ? axis.axisLabel : { show: false },
          })),
        ],
        yAxis: [
          { type: "category", data: [""], gridIndex: 0, show: false },
          ...plot.readings.map((reading, place) =>
            valueAxis(look, { gridIndex: place + 1, scale: reading.unit !== "%", splitNumber: 2, ...(reading.unit === "%" ? { min: 0, max: 100 } : {}) })
          ),
        ],
        series: [
          ...allBars(look, plot.bars, 12, { xAxisIndex: 0, yAxisIndex: 0 }),
          ...plot.readings.flatMap((reading, place) => readingSeries(reading, place, look, marks)),
        ],
      },
    };
  }

  Object.assign(Charts.kinds, { spans, course });
})();
