"use strict";

// Draws the charts that the page's record describes, each above the table that holds the same numbers.
window.DsanalyzeCharts = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

  // The interval of each point as a line with ends; across the page for charts whose rows are categories.
  const intervals = {
    id: "intervals",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea } = chart;
      chart.data.datasets.forEach((set, index) => {
        const meta = chart.getDatasetMeta(index);
        if (!set.intervals || meta.hidden) return;
        ctx.save();
        ctx.beginPath();
        ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
        ctx.clip();
        ctx.strokeStyle = set.borderColor;
        ctx.lineWidth = 1.5;
        meta.data.forEach((element, at) => {
          const interval = set.intervals[at];
          if (!interval) return;
          const scale = set.across ? chart.scales.x : chart.scales.y;
          const [low, high] = interval.map((value) => scale.getPixelForValue(value));
          ctx.beginPath();
          if (set.across) {
            ctx.moveTo(low, element.y); ctx.lineTo(high, element.y);
            ctx.moveTo(low, element.y - 5); ctx.lineTo(low, element.y + 5);
            ctx.moveTo(high, element.y - 5); ctx.lineTo(high, element.y + 5);
          } else {
            ctx.moveTo(element.x, low); ctx.lineTo(element.x, high);
            ctx.moveTo(element.x - 3, low); ctx.lineTo(element.x + 3, low);
            ctx.moveTo(element.x - 3, high); ctx.lineTo(element.x + 3, high);
          }
          ctx.stroke();
        });
        ctx.restore();
      });
    },
  };

  // Upright lines with a word at their top, for where one stands and where another resource begins to bind.
  const marks = {
    id: "marks",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea, scales } = chart;
      (chart.config.options.marks || []).forEach((mark, index) => {
        const x = scales.x.getPixelForValue(mark.x);
        if (!(x >= chartArea.left - 1 && x <= chartArea.right + 1)) return;
        ctx.save();
        ctx.strokeStyle = colour("muted");
        ctx.fillStyle = colour("ink");
        ctx.setLineDash([5, 4]);
        ctx.beginPath();
        ctx.moveTo(x, chartArea.top);
        ctx.lineTo(x, chartArea.bottom);
        ctx.stroke();
        ctx.font = "600 12px system-ui, sans-serif";
        const room = chartArea.right - x > ctx.measureText(mark.label).width + 8;
        ctx.textAlign = room ? "left" : "right";
        ctx.fillText(mark.label, x + (room ? 5 : -5), chartArea.top + 12 + 15 * (index % 3));
        ctx.restore();
      });
    },
  };

  const drawn = {
    id: "drawn",
    afterDraw(chart) { chart.canvas.dataset.drawn = "true"; },
  };

  function seriesColour(series, index) {
    return colour(series.colour || `series-${(index % 6) + 1}`) || colour("ink");
  }

  function dataset(spec, series, index) {
    const ink = seriesColour(series, index);
    const across = spec.kind === "points";
    const offset = across ? (index - (spec.series.length - 1) / 2) * Math.min(0.22, 0.7 / spec.series.length) : 0;
    const hasInterval = series.points.some((point) => point.length > 2);
    return {
      label: series.label,
      data: series.points.map(([x, y]) => (across ? { x: y, y: x + offset } : { x, y })),
      intervals: hasInterval ? series.points.map((point) => (point.length > 2 ? [point[2], point[3]] : null)) : null,
      across,
      borderColor: ink,
      backgroundColor: ink,
      borderWidth: spec.kind === "bars" ? 0 : series.colour === "result" ? 2.5 : 2,
      borderDash: series.line === "dashed" ? [6, 4] : [],
      showLine: series.line !== "none",
      pointRadius: series.line === "none" ? 5 : series.line === "dashed" || series.points.length > 60 ? 0 : 2.5,
      pointHitRadius: 8,
      maxBarThickness: 44,
    };
  }

  // Long names of rows in lines of at most 28 letters, at most three.
  function wrapped(text) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const last = lines[lines.length - 1];
      if (last !== "" && last.length + word.length >= 28) lines.push(word);
      else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
    }
    if (lines.length > 3) lines.splice(3, lines.length, "…");
    return lines.map((line) => (line.length > 30 ? `${line.slice(0, 29)}…` : line));
  }

  function axis(spec, side) {
    const own = spec[side];
    return {
      type: own.scale === "logarithmic" ? "logarithmic" : "linear",
      beginAtZero: own.scale !== "logarithmic" && side === "y",
      title: { display: own.label !== "", text: own.label, color: colour("muted") },
      grid: { color: colour("line"), borderColor: colour("line") },
      ticks: { color: colour("muted"), maxRotation: 0, autoSkipPadding: 16, callback: (value) => number(value) },
    };
  }

  // A logarithmic axis has room for every interval, and words at 1, 2 and 5 times each power of ten.
  function spread(spec, scale, values) {
    if (scale.type !== "logarithmic") return;
    const above = values.filter((value) => value > 0);
    if (above.length === 0) return;
    scale.min = Math.min(...above) / 1.4;
    scale.max = Math.max(...above) * 1.4;
    scale.ticks.callback = (value) => ([1, 2, 5].some((step) => Math.abs(value / 10 ** Math.floor(Math.log10(value) + 1e-9) / step - 1) < 1e-6) ? number(value) : "");
  }

  // A linear axis of rows has room for every interval and mark.
  function room(scale, values) {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const margin = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
    // What is never negative has no room below 0.
    Object.assign(scale, { suggestedMin: low >= 0 ? Math.max(0, low - margin) : low - margin, suggestedMax: high + margin });
  }

  function scales(spec) {
    const x = axis(spec, "x");
    const y = axis(spec, "y");
    const points = spec.series.flatMap((series) => series.points);
    if (spec.kind === "lines") spread(spec, x, points.map((point) => point[0]));
    spread(spec, spec.kind === "points" ? x : y, points.flatMap((point) => point.slice(1)));
    if (spec.kind === "points") {
      if (spec.x.scale !== "logarithmic") room(x, [...points.flatMap((point) => point.slice(1)), ...spec.marks.map((mark) => mark.x)]);
      Object.assign(y, { type: "linear", min: -0.5, max: spec.categories.length - 0.5, reverse: true, beginAtZero: false });
      y.afterBuildTicks = (scale) => { scale.ticks = spec.categories.map((_, value) => ({ value })); };
      y.ticks = { color: colour("ink"), autoSkip: false, callback: (value) => wrapped(spec.categories[value] || "") };
      y.grid.display = false;
    }
    if (spec.kind === "bars") {
      Object.assign(x, { type: "category", labels: spec.categories });
      x.ticks = { color: colour("ink"), maxRotation: 0 };
      x.grid.display = false;
    }
    return { x, y };
  }

  function tooltipText(spec, item) {
    const interval = item.dataset.intervals && item.dataset.intervals[item.dataIndex];
    const value = number(spec.kind === "points" ? item.parsed.x : item.parsed.y);
    return `${item.dataset.label}: ${value}${interval ? ` (${number(interval[0])} to ${number(interval[1])})` : ""}`;
  }

  function options(spec, alone) {
    return {
      animation: false,
      responsive: true,
      maintainAspectRatio: false,
      interaction: { mode: spec.kind === "lines" ? "nearest" : "point", intersect: false, axis: "xy" },
      marks: spec.marks,
      scales: scales(spec),
      plugins: {
        title: { display: alone === false, text: spec.title, align: "start", color: colour("ink"), font: { weight: "600", size: 13 }, padding: { bottom: 8 } },
        legend: { display: spec.series.length > 1, align: "start", labels: { color: colour("ink"), boxWidth: 22, boxHeight: 2 } },
        tooltip: {
          callbacks: {
            title: (items) => (items.length === 0 ? "" : spec.kind === "lines" ? `${spec.x.label}: ${number(items[0].parsed.x)}` : spec.categories[Math.round(items[0].dataIndex)] || ""),
            label: (item) => tooltipText(spec, item),
          },
        },
      },
    };
  }

  function draw(canvas, spec) {
    const box = canvas.closest(".plots");
    if (box) box.hidden = false;
    const sets = spec.series.map((series, index) => dataset(spec, series, index));
    if (spec.kind === "bars") {
      for (const [index, set] of sets.entries()) {
        set.data = spec.categories.map((_, at) => (spec.series[index].points.find((point) => point[0] === at) || [0, null])[1]);
      }
    }
    const type = { lines: "line", points: "scatter", bars: "bar" }[spec.kind];
    return new Chart(canvas, { type, data: { datasets: sets, labels: spec.categories }, options: options(spec, !canvas.closest(".many")), plugins: [intervals, marks, drawn] });
  }

  function start(charts) {
    let shown = [];
    const all = () => {
      shown.forEach((chart) => chart.destroy());
      shown = [...document.querySelectorAll("canvas[data-chart]")].filter((canvas) => charts[canvas.dataset.chart]).map((canvas) => draw(canvas, charts[canvas.dataset.chart]));
    };
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    all();
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
    window.addEventListener("beforeprint", () => shown.forEach((chart) => chart.resize()));
  }

  return { start, draw, colour };
})();
