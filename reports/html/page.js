"use strict";

// What a page does once it is there: charts, sliders, and tables unfolded on paper.
(() => {
  const record = JSON.parse(document.getElementById("record").textContent);
  window.DsanalyzeCharts.start(record.charts);
  for (const box of document.querySelectorAll("[data-live]")) window.DsanalyzeWhatIf.mount(box, record.live[Number(box.dataset.live)]);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
})();
