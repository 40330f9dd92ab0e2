"use strict";
/* The plot of a roofline: measurements below what their GPU reaches without a model, both axes logarithmic. See draw_charts.js. */

(() => {
  const { withUnit, tip, tooltip, base, legend, valueAxis } = Charts;
  const UNIT = "TFLOP/s";
  const NARROW = 560;

  /* The roof of a precision from the least intensity on: along the memory's rate, then flat. */
  function corners(roof, least, most) {
    const ridge = roof.tflops / roof.tb_per_sec;
    const rising = [[Math.min(least, ridge), Math.min(least, ridge) * roof.tb_per_sec], [ridge, roof.tflops]];
    return [...rising, [Math.max(most, ridge), roof.tflops]];
  }

  const power = (value, round) => 10 ** round(Math.log10(value));

  function roofline(plot, look, width) {
    const across = [...plot.points.map((point) => point.intensity), ...plot.roofs.map((roof) => roof.tflops / roof.tb_per_sec)];
    const least = power(Math.min(...across), Math.floor);
    const most = power(Math.max(...across), Math.ceil);
    const low = power(Math.min(...plot.points.map((point) => point.tflops)), Math.floor);
    const middle = Math.sqrt(least * most);
    const colors = new Map(plot.roofs.map((roof, place) => [roof.name, look.series[place % look.series.length]]));
    const roofs = plot.roofs.map((roof) => ({
      name: roof.name,
      type: "line",
      data: corners(roof, least, most),
      symbol: "none",
      lineStyle: { width: 2, color: colors.get(roof.name) },
      itemStyle: { color: colors.get(roof.name) },
    }));
    const points = plot.roofs.map((roof) => ({
      name: roof.name,
      type: "scatter",
      symbolSize: 9,
      data: [
        ...plot.points.filter((point) => point.roof === roof.name).map((point) => ({
          value: [point.intensity, point.tflops],
          says: point.says,
          label: { show: width >= NARROW, formatter: point.name, position: point.intensity > middle ? "left" : "right" },
          itemStyle: { color: point.open ? look.surface : colors.get(roof.name), borderColor: colors.get(roof.name), borderWidth: 1.8 },
        })),
        {
          value: [roof.tflops / roof.tb_per_sec, roof.tflops],
          says: `${roof.name}: ${withUnit(roof.tflops, UNIT)} without a model`,
          symbolSize: 0.1,
          label: { show: true, formatter: withUnit(roof.tflops, UNIT), position: [4, 5], color: colors.get(roof.name), fontSize: 11, fontWeight: 600 },
        },
      ],
      label: { color: look.muted, fontSize: 10 },
      labelLayout: { hideOverlap: true },
    }));
    return {
      height: width < NARROW ? 320 : 400,
      option: {
        ...base(look),
        tooltip: tooltip(look, (item) => tip(item.seriesName, [item.data.says])),
        legend: legend(look, { data: plot.roofs.map((roof) => roof.name) }),
        grid: { left: 8, right: 16, top: 52, bottom: 26, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: valueAxis(look, { type: "log", min: least, max: most, name: "operations per byte of weights", nameLocation: "middle", nameGap: 26 }),
        yAxis: valueAxis(look, { type: "log", min: low, name: UNIT, nameTextStyle: { color: look.muted, align: "left" } }),
        series: [...roofs, ...points],
      },
    };
  }

  Object.assign(Charts.kinds, { roofline });
})();
