"use strict";
(() => {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const charts = [...document.querySelectorAll(".chart")].map((box) => {
    const source = box.querySelector("script");
    const chart = JSON.parse(source.textContent);
    source.remove();
    return { box, chart };
  });

  // a colour of the palette, "var(--blue)", is what the style sheet says it is now
  const coloured = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
  };

  // a notebook shows the page without Plotly
  if (!window.Plotly) {
    for (const { box } of charts) box.replaceWith("A chart: open report.html in a browser to see it.");
  }

  const draw = () => {
    if (!window.Plotly) return;
    const style = getComputedStyle(root);
    for (const { box, chart } of charts) {
      const layout = { uirevision: 1, ...chart.layout };
      // a finger moves the page, not the chart
      if (isTouch) layout.dragmode = false;
      // the paper does not wait for a chart that finds its width out
      if (root.classList.contains("on-paper")) layout.width = box.clientWidth;
      Plotly.react(box, coloured(chart.data, style), coloured(layout, style), {
        responsive: true,
        displaylogo: false,
        displayModeBar: isTouch ? false : "hover",
        // by name, because Plotly's own set can send the chart to its maker
        modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
      });
    }
  };

  const shown = () => root.dataset.theme || (isDark.matches ? "dark" : "light");
  const button = document.getElementById("theme");
  const remember = (theme) => {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // a browser that stores nothing forgets the choice
    }
  };
  const show = (theme) => {
    if (theme) root.dataset.theme = theme;
    button.textContent = shown() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
    draw();
  };
  try {
    root.dataset.theme = localStorage.getItem("theme") || "";
  } catch {
    // as above
  }
  if (!["light", "dark"].includes(root.dataset.theme)) delete root.dataset.theme;
  button.hidden = false;
  button.addEventListener("click", () => {
    const other = shown() === "dark" ? "light" : "dark";
    remember(other);
    show(other);
  });
  isDark.addEventListener("change", () => show());

  // what is folded opens for a link to it, and its charts find their width then
  const folded = [...document.querySelectorAll("details.behind")];
  for (const box of folded) {
    box.addEventListener("toggle", () => {
      if (window.Plotly) for (const chart of box.querySelectorAll(".chart")) Plotly.Plots.resize(chart);
    });
  }
  addEventListener("hashchange", () => {
    const box = document.getElementById(location.hash.slice(1))?.closest("details.behind");
    if (box) box.open = true;
  });

  // paper is light and narrow, and shows what is folded
  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme: root.dataset.theme, closed: folded.filter((box) => !box.open) };
    for (const box of before.closed) box.open = true;
    root.classList.add("on-paper");
    show("light");
  });
  addEventListener("afterprint", () => {
    root.classList.remove("on-paper");
    for (const box of before ? before.closed : []) box.open = false;
    if (before && !before.theme) delete root.dataset.theme;
    show(before && before.theme);
  });

  // a click on a column's title sorts by it, a second one the other way round
  const key = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/^below\s|~|,/g, "").replace("\u2212", "-"));
    return { text, number };
  };
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.append(...head.childNodes);
      head.append(sorter);
      const isNumber = head.classList.contains("number");
      sorter.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        const rows = [...body.rows].map((row) => ({ row, ...key(row, column) }));
        rows.sort((a, b) => {
          if (!isNumber) return sign * a.text.localeCompare(b.text);
          // what is no number stays last
          if (isNaN(a.number) || isNaN(b.number)) return isNaN(a.number) - isNaN(b.number);
          return sign * (a.number - b.number);
        });
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        body.append(...rows.map(({ row }) => row));
      });
    });
  }

  // words that a row has to hold
  for (const box of document.querySelectorAll("[data-filter]")) {
    const input = document.createElement("input");
    const count = document.createElement("span");
    const rows = [...box.querySelector("tbody").rows];
    input.type = "search";
    input.placeholder = "filter by words";
    input.setAttribute("aria-label", input.placeholder);
    count.setAttribute("role", "status");
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      count.textContent = ` ${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
    };
    input.addEventListener("input", apply);
    box.prepend(input, count);
    apply();
  }

  for (const box of document.querySelectorAll(".slider")) {
    const steps = JSON.parse(box.querySelector("script").textContent);
    const [label, input, output, text] = ["label", "input", "output", "p"].map((tag) => box.querySelector(tag));
    const choose = () => {
      const bound = Number(input.value);
      const within = steps.filter(([least]) => least <= bound);
      const said = within.length ? within[within.length - 1][1] : box.dataset.below;
      text.replaceChildren(...said.split(/(?<=[|+])/).flatMap((part) => [part, document.createElement("wbr")]));
      output.textContent = `${Number(bound.toPrecision(4))} ${box.dataset.unit}`;
    };
    label.hidden = false;
    input.addEventListener("input", choose);
    choose();
  }

  show();
})();
