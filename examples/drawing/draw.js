"use strict";
// What the pages share: switches for language and theme, matrices, heat maps, charts. Numbers come from `data`; nothing is
// computed here but where and how strongly a number is drawn.
const data = JSON.parse(document.getElementById("data").textContent);

const draw = (() => {
  const root = document.documentElement;
  const svgNames = new Set(["svg", "g", "path", "line", "circle", "text", "title"]);

  /** An element: attributes by name, "on…" listeners as functions; children are nodes or text. */
  function element(name, attributes = {}, ...children) {
    const made = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) :
                                      document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function")
        made.addEventListener(key.slice(2), value);
      else if (value !== undefined && value !== false)
        made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
    return made;
  }

  /** The same in both languages; the style shows the one that is chosen. */
  function both(en, zh) { return [element("span", {lang: "en"}, en), element("span", {lang: "zh"}, zh)]; }

  /** A label for screen readers that follows the language. */
  function label(node, en, zh) {
    node.dataset.labelEn = en;
    node.dataset.labelZh = zh;
    node.setAttribute("aria-label", root.dataset.language === "zh" ? zh : en);
    return node;
  }

  /** A number as it is read: 0 only where it is exactly 0, a minus sign only where a digit is left to carry it. */
  function number(value, digits = 3) {
    if (typeof value !== "number" || value === 0) return String(value);  // NaN, ∞
    const text = value.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
  }
  /** A whole number with its thousands apart, as nn::summary writes it. */
  const whole = (n) => n.toLocaleString("en-US").replaceAll(",", "\u00a0");
  const superscript = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  /** A small number as 2.1·10⁻¹¹. */
  function tiny(value) {
    const [digits, power] = value.toExponential(1).split("e");
    return value === 0 ? "0" : `${digits}·10${superscript(Number(power))}`;
  }
  /** Digits that a tensor needs: none if all its numbers are whole. */
  function digitsOf(tensor, most) {
    return tensor.values.every((v) => typeof v !== "number" || Number.isInteger(v)) ? 0 : most;
  }
  const magnitude = (v) => (typeof v === "number" ? Math.abs(v) : 0);

  /** Source text as one line that may break anywhere but inside its numbers. */
  function code(text) {
    const pieces = text.split(/((?<![\w.])-?\d[\w.]*,?)/);  // every second one is a number
    return element(
        "code", {class: "call"}, pieces.map((piece, i) => (i % 2 ? element("span", {class: "whole"}, piece) : piece)));
  }

  /** What the colours of pictures and tables mean, and of which numbers the largest has the strongest. */
  function colours(en = "of its picture", zh = "该图") {
    return element(
        "p", {class: "note colours"}, element("span", {class: "swatch plus"}),
        both("positive", "正"), element("span", {class: "swatch minus"}),
        both(
            `negative; the stronger, the nearer to the largest magnitude ${en}`,
            `负；颜色越浓，越接近${zh}中最大的绝对值`));
  }

  /**
   * A matrix [rows, columns] as a table on grounds as strong as its numbers. Options: name, rows, columns (labels), digits,
   * full (the magnitude of the strongest ground; 0: no grounds), off(i, j) (hidden by a mask), select(i, j), kind (classes).
   * The node has mark({row, column, cell}) to light some of it.
   */
  function matrix(tensor, options = {}) {
    const [height, width] = [1, 1, ...tensor.shape].slice(-2);  // a scalar is one cell, a vector one row
    const digits = options.digits ?? digitsOf(tensor, 3);
    const full = options.full ?? Math.max(...tensor.values.map(magnitude));
    const cells = [], rowHeads = [], columnHeads = [];
    const move = (event, i, j) => {
      const [di, dj] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] ??
          [0, 0];
      const to = cells[i + di]?.[j + dj];
      if ((di || dj) && to) {
        event.preventDefault();
        to.firstChild.focus();
      }
    };
    const body = Array.from({length: height}, (_, i) => {
      const head = options.rows && element("th", {scope: "row"}, options.rows[i]);
      if (head) rowHeads.push(head);
      cells.push(Array.from({length: width}, (_, j) => {
        const value = tensor.values[i * width + j];
        const part = full > 0 ? Math.min(magnitude(value) / full, 1) : 0;
        const off = options.off?.(i, j);
        const shown = options.show ? options.show(value) : number(value, digits);
        const inside = options.select ?
            element(
                "button",
                {type: "button", onclick: () => options.select(i, j), onkeydown: (event) => move(event, i, j)}, shown) :
            element("span", {}, shown);
        const kind = [part > 0.8 && !off && "strong", value < 0 && "minus", off && "off"].filter(Boolean).join(" ");
        return element("td", {class: kind || undefined, style: off ? undefined : `--part:${part.toFixed(3)}`}, inside);
      }));
      return element("tr", {}, head, cells[i]);
    });
    if (options.columns)
      columnHeads.push(...options.columns.slice(0, width).map((text) => element("th", {scope: "col"}, text)));
    const table = element(
        "table", {},
        options.name &&
            element(
                "caption", {}, element("span", {class: "name"}, options.name),
                element("span", {class: "shape"}, `[${tensor.shape.join(", ")}]`)),
        columnHeads.length ?
            element(
                "thead", {},
                element("tr", {}, options.rows && element("td", {style: "background:none"}), columnHeads)) :
            undefined,
        element("tbody", {}, body));
    const node = element(
        "div", {class: `matrix ${options.kind ?? ""}`}, element("div", {class: "scroll"}, table),
        options.call !== false && tensor.call && code(tensor.call));
    node.mark = ({row, column, cell}) => {
      cells.forEach((line, i) => line.forEach((td, j) => {
        td.classList.toggle("lit", i === row || j === column);
        const chosen = cell !== undefined && cell[0] === i && cell[1] === j;
        td.classList.toggle("chosen", chosen);
        if (options.select) td.firstChild.setAttribute("aria-pressed", chosen);
      }));
      rowHeads.forEach((head, i) => head.classList.toggle("lit", i === row));
      columnHeads.forEach((head, j) => head.classList.toggle("lit", j === column));
    };
    return node;
  }

  /** Buttons of which one is pressed. `options` is [[value, nodes], …]. */
  function choice(options, chosen, onchange, en, zh) {
    const buttons = options.map(
        ([value, text]) => element(
            "button", {
              type: "button",
              "data-value": value,
              onclick: () => {
                press(value);
                onchange(value);
              }
            },
            text));
    const press = (value) => buttons.forEach((b) => b.setAttribute("aria-pressed", b.dataset.value === String(value)));
    press(chosen);
    return label(element("div", {class: "choice", role: "group"}, buttons), en, zh);
  }

  /** A colour of the style sheet as [red, green, blue]. */
  function colour(name) {
    const probe = element("span", {style: `color:var(${name})`});
    document.body.append(probe);
    const parts = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
    probe.remove();
    return parts;
  }

  /**
   * A heat map without numbers: value(i, j) in [−1, 1], tell(i, j) the sentence for the cell under pointer or cursor keys, size
   * a cell's width in CSS. Without tell it is an ornament that screen readers skip. Returns a node with redraw().
   */
  function heat({rows, columns, value, tell, size, en, zh}) {
    const canvas = tell ? label(element("canvas", {width: columns, height: rows, role: "img", tabindex: 0}), en, zh) :
                          element("canvas", {width: columns, height: rows, "aria-hidden": "true"});
    const readout = element("span", {class: "readout", "aria-live": "polite"});
    const at = [0, 0];
    const show = () => readout.replaceChildren(...[tell(...at)].flat());
    if (tell) {
      canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const place = (offset, length, count) =>
            Math.max(0, Math.min(count - 1, Math.floor((offset / length) * count)));
        at[0] = place(event.clientY - box.top, box.height, rows);
        at[1] = place(event.clientX - box.left, box.width, columns);
        show();
      });
      canvas.addEventListener("pointerdown", () => canvas.focus({preventScroll: true}));
      canvas.addEventListener("keydown", (event) => {
        const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
        if (!step) return;
        event.preventDefault();
        at[0] = Math.max(0, Math.min(rows - 1, at[0] + step[0]));
        at[1] = Math.max(0, Math.min(columns - 1, at[1] + step[1]));
        show();
      });
    }
    const node = element("div", {class: "heat", style: `width:calc(${columns} * ${size})`}, canvas, tell && readout);
    node.redraw = () => {
      const context = canvas.getContext("2d");
      const image = context.createImageData(columns, rows);
      const [plus, minus, ground] = ["--plus", "--minus", "--card"].map(colour);
      for (let i = 0; i < rows; ++i)
        for (let j = 0; j < columns; ++j) {
          const v = value(i, j), part = Math.min(Math.abs(v), 1), ink = v < 0 ? minus : plus;
          for (let c = 0; c < 3; ++c) image.data[4 * (i * columns + j) + c] = ground[c] + part * (ink[c] - ground[c]);
          image.data[4 * (i * columns + j) + 3] = 255;
        }
      context.putImageData(image, 0, 0);
    };
    repaint.push(node.redraw);
    return node;
  }

  /** Values of an axis where lines stand. */
  function ticks(low, high, log) {
    if (log) {
      const marks = [];
      const step = Math.max(1, Math.ceil((Math.log10(high) - Math.log10(low)) / 6));
      for (let e = Math.ceil(Math.log10(low) - 1e-9); 10 ** e <= high * 1.0001; e += step) marks.push(10 ** e);
      if (marks.length > 1) return marks;
      const first = Math.floor(Math.log10(low)), finer = [];
      for (const power of [first, first + 1])
        finer.push(...[1, 2, 5].map((m) => m * 10 ** power).filter((v) => low <= v && v <= high));
      if (finer.length > 1) return finer;  // else the span is so small that even steps look even
    }
    const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
    const marks = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) marks.push(v);
    return marks;
  }
  function tickText(v, log) {
    if (log && (v >= 1000 || v < 0.01) && Math.abs(Math.log10(v) % 1) < 1e-9)
      return `10${superscript(Math.round(Math.log10(v)))}`;
    if (Math.abs(v) >= 1000) return whole(Number(v.toPrecision(3))).replace("-", "−");
    return v !== 0 && Math.abs(v) < 0.001 ? v.toExponential(0).replace("-", "−") :
                                            String(Number(v.toPrecision(3))).replace("-", "−");
  }

  /**
   * Lines over a common x. series: [{name, points: [[x, y], …], shade, level}]; a level is a number that holds for every x,
   * in place of points. x and y: {name, log, low, high}. Pointer or cursor keys go from point to point and read off the
   * series that have one there, and the levels.
   */
  function chart({series, x, y, height = 240, en, zh}) {
    const steps = [...new Set(series.flatMap((s) => (s.points ?? []).map((p) => p[0])))].sort((a, b) => a - b);
    const values = series.map((s) => new Map(s.points ?? []));
    const all = series.flatMap((s) => s.points ?? [[steps[0], s.level]]);
    const within =
        (axis, k) => [axis.low ?? Math.min(...all.map((p) => p[k])), axis.high ?? Math.max(...all.map((p) => p[k]))];
    const [x0, x1] = within(x, 0), [y0, y1] = within(y, 1);
    const scale = (v, low, high, log) =>
        (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low || 1));
    const readout = element("span", {class: "readout", "aria-live": "polite"});
    const holder = element("div", {class: "canvas"});
    let chosen = 0;
    const paint = () => {
      const width = Math.max(holder.clientWidth || 600, 240), left = 46, bottom = 34, top = 10;
      const px = (v) => left + scale(v, x0, x1, x.log) * (width - left - 10);
      const py = (v) => top + (1 - scale(v, y0, y1, y.log)) * (height - top - bottom);
      const svg = label(element("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0}), en, zh);
      for (const v of ticks(y0, y1, y.log))
        svg.append(
            element("line", {class: "grid", x1: left, x2: width - 10, y1: py(v), y2: py(v)}),
            element("text", {x: left - 8, y: py(v) + 4, "text-anchor": "end"}, tickText(v, y.log)));
      for (const v of ticks(x0, x1, x.log))
        svg.append(element("text", {x: px(v), y: height - bottom + 18, "text-anchor": "middle"}, tickText(v, x.log)));
      for (const s of series)
        svg.append(element("path", {
          class: `shade-${s.shade}${s.points ? "" : " level"}`,
          d: (s.points ?? [[x0, s.level], [x1, s.level]]).map((p, i) => `${i ? "L" : "M"}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join("")
        }));
      const marks = element("g");
      svg.append(marks);
      const read = (i) => {
        chosen = Math.max(0, Math.min(steps.length - 1, i));
        const v = steps[chosen];
        marks.replaceChildren(element("line", {class: "cursor", x1: px(v), x2: px(v), y1: top, y2: height - bottom}));
        const texts = series.map((s, k) => {
          const value = s.level ?? values[k].get(v);
          if (value === undefined) return [];
          if (s.points) marks.append(element("circle", {class: `shade-${s.shade}`, cx: px(v), cy: py(value), r: 4}));
          const text = Math.abs(value) >= 1000 ? whole(Math.round(value)) : String(Number(value.toPrecision(4)));
          return [" · ", ...s.name.map((n) => n.cloneNode(true)), ` ${text}`];
        });
        readout.replaceChildren(...x.name.map((n) => n.cloneNode(true)), ` ${whole(v)}`, ...texts.flat());
      };
      svg.addEventListener("pointermove", (event) => {
        const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * width;
        const gaps = steps.map((x) => Math.abs(px(x) - at));
        read(gaps.indexOf(Math.min(...gaps)));
      });
      svg.addEventListener("keydown", (event) => {
        const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (step) {
          event.preventDefault();
          read(chosen + step);
        }
      });
      holder.replaceChildren(svg);
    };
    new ResizeObserver(paint).observe(holder);
    const legend = element(
        "div", {class: "legend"},
        series.map(
            (s) => element(
                "span", {class: `shade-${s.shade}`}, element("span", {class: s.points ? "key" : "key level"}),
                s.name.map((n) => n.cloneNode(true)))));
    return element(
        "div", {class: "chart"}, element("span", {class: "readout"}, y.name), holder, series.length > 1 && legend,
        readout);
  }

  // ---- language and theme --------------------------------------------------------------------------------------------
  const repaint = [];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme === "auto" ? dark.matches : root.dataset.theme === "dark");
  const themeButton = document.getElementById("theme"), languageButton = document.getElementById("language");
  function setTheme(theme) {
    root.dataset.theme = theme;
    themeButton.setAttribute("aria-pressed", isDark());
    repaint.forEach((paint) => paint());
  }
  function setLanguage(language) {
    root.dataset.language = language;
    root.lang = language;
    for (const node of document.querySelectorAll("[data-label-en]"))
      node.setAttribute("aria-label", language === "zh" ? node.dataset.labelZh : node.dataset.labelEn);
  }
  label(themeButton, "Dark colours", "深色");
  label(languageButton, "中文", "English");
  themeButton.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  languageButton.addEventListener("click", () => setLanguage(root.dataset.language === "en" ? "zh" : "en"));
  dark.addEventListener("change", () => setTheme(root.dataset.theme));

  /** To be called once the page is built. */
  function start() {
    setLanguage((navigator.language || "en").startsWith("zh") ? "zh" : "en");
    setTheme("auto");
  }

  return {element, both, label, number, tiny, code, colours, whole, matrix, choice, heat, chart, start};
})();
