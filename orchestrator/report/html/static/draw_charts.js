"use strict";
/* How each kind of plot is drawn: from the types of report/charts/types.py to options of ECharts.

   A function for each kind takes (plot, look, width) and returns {height, option}. Nothing here touches the page: `look` has
   the colours of the moment, and tooltips are elements whose text is set as text, so that no name is ever markup. */

const Charts = (() => {
  const NARROW = 560;
  const MOST_LINES = 4;

  /* Like number() in report/numbers.py: both must write the same. */
  function number(value) {
    const size = Math.round(Math.abs(value) * 100) / 100;
    return value.toFixed(size < 1 ? 3 : size < 10 ? 2 : 1);
  }

  function withUnit(value, unit) {
    if (value === null || value === undefined) return "N/A";
    return unit ? `${number(value)} ${unit}` : number(value);
  }

  function tip(title, lines) {
    const box = document.createElement("div");
    box.className = "tip";
    const head = document.createElement("b");
    head.textContent = title;
    box.append(head, ...lines.map((line) => Object.assign(document.createElement("span"), { textContent: line })));
    return box;
  }

  function tooltip(look, formatter, more) {
    return {
      confine: true,
      backgroundColor: look.surface,
      borderColor: look.line,
      textStyle: { color: look.ink, fontFamily: look.font },
      extraCssText: "box-shadow: 0 4px 18px rgba(0, 0, 0, 0.18)",
      formatter,
      ...more,
    };
  }

  function base(look) {
    return {
      animation: false,
      textStyle: { fontFamily: look.font, color: look.ink },
      color: look.series,
    };
  }

  function legend(look, more) {
    return {
      type: "scroll",
      top: 0,
      left: 0,
      itemWidth: 12,
      itemHeight: 12,
      itemGap: 14,
      icon: "roundRect",
      textStyle: { color: look.muted, fontSize: 12, width: 260, overflow: "truncate" },
      pageTextStyle: { color: look.muted },
      pageIconColor: look.accent,
      pageIconInactiveColor: look.line,
      ...more,
    };
  }

  function valueAxis(look, more) {
    return {
      type: "value",
      axisLine: { show: false },
      axisTick: { show: false },
      splitLine: { lineStyle: { color: look.line } },
      nameTextStyle: { color: look.muted },
      axisLabel: { color: look.muted, fontSize: 11, hideOverlap: true },
      ...more,
    };
  }

  function categoryAxis(look, names, width, more) {
    return {
      type: "category",
      data: names,
      axisLine: { lineStyle: { color: look.line } },
      axisTick: { show: false },
      splitLine: { show: false },
      axisLabel: { color: look.ink, fontSize: 12, interval: 0, width: besides(width), overflow: "truncate" },
      ...more,
    };
  }

  /* Names beside rows go on below where they are long: what tells two apart may be their end. Of a very long one both
     ends are shown. Returns the axis, its width, and how high a row must be. */
  function rowAxis(look, names, width, size, widest) {
    const room = Math.min(widest, 12 + size * 0.62 * Math.max(...names.map((name) => name.length)));
    const most = Math.floor(room / (size * 0.6));
    const fold = (name) => {
      const longest = most * (MOST_LINES - 1);
      const half = Math.floor(longest / 2) - 1;
      const lines = [""];
      for (const word of (name.length > longest ? `${name.slice(0, half)}…${name.slice(-half)}` : name).split(/ +/)) {
        const joined = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
        if (joined.length <= most) lines[lines.length - 1] = joined;
        else lines.push(...word.match(new RegExp(`.{1,${most}}`, "gu")));
      }
      return lines.filter(Boolean).join("\n");
    };
    const folded = names.map(fold);
    const axis = categoryAxis(look, folded, width, {
      inverse: true,
      axisLabel: { color: look.ink, fontSize: size, lineHeight: size + 2, interval: 0, width: room, overflow: "break" },
    });
    return { axis, room, high: Math.max(...folded.map((name) => name.split("\n").length)) * (size + 2) + 6 };
  }

  const besides = (width) => (width < NARROW ? 96 : Math.max(190, width / 4));

  /* ── bars ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

  function barOption(plot, look, width, stacked) {
    const thick = stacked ? 18 : Math.max(9, Math.min(16, 40 / plot.series.length));
    const rows = rowAxis(look, plot.categories, width, 12, besides(width));
    const each = Math.max(rows.high, stacked ? 30 : thick * plot.series.length * 1.25 + 12);
    const total = (index) => plot.series.reduce((sum, one) => sum + (one.values[index] || 0), 0);
    const last = plot.series.length - 1;
    const says = (items) => {
      const index = items[0].dataIndex;
      const lines = plot.series.map((one) => `${one.name}: ${withUnit(one.values[index], plot.unit)}`);
      if (stacked) lines.push(`together: ${withUnit(total(index), plot.unit)}`);
      return tip(plot.categories[index], lines);
    };
    return {
      height: Math.max(150, 66 + each * plot.categories.length),
      option: {
        ...base(look),
        tooltip: tooltip(look, says, { trigger: "axis", axisPointer: { type: "shadow", shadowStyle: { opacity: 0.35 } } }),
        legend: legend(look),
        grid: { left: 4, right: width < NARROW ? 50 : 64, top: 36, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: valueAxis(look, { splitNumber: width < NARROW ? 3 : 5 }),
        yAxis: rows.axis,
        series: plot.series.map((one, place) => ({
          name: one.name,
          type: "bar",
          stack: stacked ? "all" : undefined,
          barWidth: thick,
          barGap: "25%",
          data: one.values,
          itemStyle: { color: look.series[place % look.series.length], borderRadius: stacked ? 0 : [0, 3, 3, 0] },
          label: {
            show: !stacked || place === last,
            position: "right",
            color: look.muted,
            fontSize: 11,
            formatter: (item) => (stacked ? number(total(item.dataIndex)) : item.value === null || item.value === undefined ? "" : number(item.value)),
          },
        })),
      },
    };
  }

  /* ── radar ────────────────────────────────────────────────────────────────────────────────────────────────────── */

  function radar(plot, look, width) {
    const values = plot.series.flatMap((one) => one.values);
    const most = Math.ceil((Math.max(...values) * 1.08) / 20) * 20;
    const says = (item) => tip(item.name, plot.categories.map((name, index) => `${name}: ${number(item.value[index])}`));
    return {
      height: width < NARROW ? 330 : 420,
      option: {
        ...base(look),
        tooltip: tooltip(look, says),
        legend: legend(look),
        radar: {
          indicator: plot.categories.map((name) => ({ name, max: most })),
          center: ["50%", "54%"],
          radius: width < NARROW ? "52%" : "66%",
          axisName: { color: look.ink, fontSize: 11, width: width < NARROW ? 74 : 150, overflow: "break" },
          splitNumber: 4,
          splitLine: { lineStyle: { color: look.line } },
          splitArea: { show: false },
          axisLine: { lineStyle: { color: look.line } },
        },
        series: [
          {
            type: "radar",
            symbolSize: 5,
            data: plot.series.map((one, place) => ({
              name: one.name,
              value: one.values,
              lineStyle: { width: place ? 1.5 : 2.5, type: place ? "dashed" : "solid", color: place ? look.muted : look.accent },
              itemStyle: { color: place ? look.muted : look.accent },
              areaStyle: place ? undefined : { color: look.accent, opacity: 0.16 },
            })),
          },
        ],
      },
    };
  }

  /* ── heat maps ────────────────────────────────────────────────────────────────────────────────────────────────── */

  function parts(color) {
    const [, red, green, blue] = /^#(..)(..)(..)/.exec(color);
    return [red, green, blue].map((part) => parseInt(part, 16));
  }

  function mixed(from, to, share) {
    const [first, second] = [parts(from), parts(to)];
    return "#" + first.map((part, place) => Math.round(part + (second[place] - part) * share).toString(16).padStart(2, "0")).join("");
  }

  function readableOn(color) {
    const [red, green, blue] = parts(color).map((part) => (part / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? "#14181f" : "#ffffff";
  }

  /* Around a middle, ten percent away from it is as strong as a colour gets; else the largest value is. */
  function shades(plot, look) {
    const most = Math.max(...plot.boxes.map((box) => box.value || 0));
    return (box) => {
      if (box.value === null) return look.faint;
      if (plot.around === null) return mixed(look.surface, look.accent, 0.1 + 0.8 * (most > 0 ? Math.sqrt(box.value / most) : 0));
      const away = Math.max(-1, Math.min(1, (box.value - plot.around) / 10));
      return mixed(look.faint, away < 0 ? look.low : look.high, Math.min(0.9, Math.abs(away) ** 0.7));
    };
  }

  /* Lines at 45 degrees, cut off at the edges of a box. */
  function hatching({ x, y, width, height }) {
    const lines = [];
    for (let at = 6; at < width + height; at += 9) {
      const [left, right] = [Math.max(0, at - height), Math.min(width, at)];
      lines.push(`M${x + left} ${y + at - left}L${x + right} ${y + at - right}`);
    }
    return lines.join("");
  }

  /* "GPU 5: STRAGGLER" on two lines, or upright where columns are narrower: a name that is dropped may be the slow GPU's.
     Returns the names, whether they are upright, and the height of all. */
  function columnHeads(names, wide) {
    const folded = names.map((name) => name.split(": "));
    const longest = (words) => 7 * Math.max(...words.map((word) => word.length));
    if (longest(folded.flat()) > wide) return { names, turned: true, high: longest(names) };
    return { names: folded.map((lines) => lines.join("\n")), turned: false, high: 8 + 14 * Math.max(...folded.map((lines) => lines.length)) };
  }

  function heat(plot, look, width) {
    const shade = shades(plot, look);
    const rows = width < NARROW ? rowAxis(look, plot.rows, width, 10, 128) : rowAxis(look, plot.rows, width, 12, Math.max(210, width / 4));
    const least = Math.max(rows.high, plot.rows.length > 24 ? 24 : 30);
    const heads = columnHeads(plot.columns, (width - rows.room) / plot.columns.length);
    const render = (_, api) => {
      const box = plot.boxes[api.value(2)];
      const [x, y] = api.coord([box.column, box.row]);
      const [wide, high] = api.size([1, 1]);
      const fill = box.hatched ? look.faint : shade(box);
      const inner = Math.max(4, wide - 3);
      const shape = { x: x - inner / 2, y: y - high / 2 + 1.5, width: inner, height: high - 3, r: 4 };
      const hatch = { type: "path", silent: true, shape: { pathData: hatching(shape) }, style: { fill: "none", stroke: look.line, lineWidth: 1.5 } };
      return {
        type: "group",
        children: [
          {
            type: "rect",
            shape,
            style: { fill, stroke: box.marked ? look.bad : "none", lineWidth: box.marked ? 2.5 : 0 },
          },
          ...(box.hatched ? [hatch] : []),
          {
            type: "text",
            style: {
              text: inner < 30 ? (box.marked ? "▼" : "") : box.marked ? `▼ ${box.text}` : box.text,
              x, y, align: "center", verticalAlign: "middle",
              font: `${box.marked ? 600 : 400} 11px ${look.font}`,
              fill: box.value === null || box.hatched ? look.muted : readableOn(fill),
            },
          },
        ],
      };
    };
    return {
      height: 6 + heads.high + least * plot.rows.length,
      option: {
        ...base(look),
        tooltip: tooltip(look, (item) => tip(plot.name, [plot.boxes[item.value[2]].says])),
        grid: { left: 4, right: 4, top: 2, bottom: 2, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: categoryAxis(look, heads.names, width, {
          position: "top",
          axisLine: { show: false },
          axisLabel: { color: look.muted, fontSize: 11, lineHeight: 14, interval: 0, rotate: heads.turned ? 90 : 0 },
        }),
        yAxis: { ...rows.axis, axisLine: { show: false } },
        series: [
          {
            type: "custom",
            renderItem: render,
            encode: { x: 0, y: 1 },
            data: plot.boxes.map((box, place) => [box.column, box.row, place]),
          },
        ],
      },
    };
  }

  /* ── curves ───────────────────────────────────────────────────────────────────────────────────────────────────── */

  function curves(plot, look, width) {
    const says = (item) => tip(item.seriesName, [`${plot.x} ${item.value[0]}: ${withUnit(item.value[1], plot.unit)}`]);
    return {
      height: width < NARROW ? 300 : 360,
      option: {
        ...base(look),
        tooltip: tooltip(look, says),
        legend: legend(look),
        grid: { left: 8, right: 16, top: 52, bottom: 26, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: valueAxis(look, { type: "log", logBase: 2, name: plot.x, nameLocation: "middle", nameGap: 26 }),
        yAxis: valueAxis(look, { type: "log", name: plot.unit, nameTextStyle: { color: look.muted, align: "left" } }),
        series: plot.lines.map((line, place) => ({
          name: line.name,
          type: "line",
          data: line.points,
          symbol: ["circle", "rect", "triangle", "diamond"][place % 4],
          symbolSize: 7,
          lineStyle: { width: 2 },
          itemStyle: { color: look.series[place % look.series.length] },
        })),
      },
    };
  }

  return {
    number,
    withUnit,
    tip,
    tooltip,
    base,
    legend,
    valueAxis,
    categoryAxis,
    rowAxis,
    besides,
    kinds: {
      bars: (plot, look, width) => barOption(plot, look, width, false),
      stacked: (plot, look, width) => barOption(plot, look, width, true),
      radar,
      heat,
      curves,
    },
  };
})();
