
// The lesson: stations 1 to 3, and what all stations use. Every number shown is one of `data`.
const {element, both, label, number, tiny, code, matrix, choice, heat, chart} = draw;
const place = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat());
/** What the names in the calls above it stand for, as it was compiled. */
const given = (calls) => element(
    "details", {class: "given"}, element("summary", {}, both("What the names stand for", "这些名字指什么")),
    calls.map(code));
const heading = (en, zh) => element("h4", {}, both(en, zh));
const row = (...children) => element("div", {class: "row"}, children);
/** Element [i, j, …] of a tensor. */
const at = (tensor, ...index) => tensor.values[index.reduce((offset, i, axis) => offset * tensor.shape[axis] + i, 0)];
/** One matrix of a stack of them. */
function pick(tensor, ...index) {
  const shape = tensor.shape.slice(index.length), size = shape.reduce((a, b) => a * b, 1);
  const first = index.reduce((offset, i, axis) => offset * tensor.shape[axis] + i, 0) * size;
  return {shape, values: tensor.values.slice(first, first + size), call: tensor.call};
}

/** The numbered list of stations, made from their headings. */
(function contents() {
  const links = [...document.querySelectorAll("main section")].map((section, i) => {
    const title = section.querySelector("h2"), parts = [...title.cloneNode(true).childNodes];
    title.prepend(element("span", {class: "count"}, both(`Station ${i + 1} of 10`, `第 ${i + 1} 站，共 10 站`)));
    return element("a", {href: `#${section.id}`}, element("span", {class: "count"}, String(i + 1)), parts);
  });
  document.getElementById("contents").append(...links);
  label(document.getElementById("contents"), "Stations", "目录");
})();

// ---- 1 three tokens --------------------------------------------------------------------------------------------------
(function threeTokens() {
  const d = data.three, tokens = ["小猫", "喜欢", "小鱼"], english = ["cat", "likes", "fish"];
  const head = (i) => element("span", {}, tokens[i], element("span", {lang: "en", class: "gloss"}, ` ${english[i]}`));
  const heads = () => tokens.map((_, i) => head(i));
  let mask = "all", cell = [1, 2];
  const q = matrix(d.q, {name: "Q", rows: heads(), kind: "q", full: 0});
  const k = matrix(d.k, {name: "K", rows: heads(), kind: "k", full: 0});
  const v = matrix(d.v, {name: "V", rows: heads(), kind: "v", full: 0});
  const tables = element("div", {class: "row"});
  const panel = element("div", {class: "panel", id: "terms", "aria-live": "polite"});
  let scores, weights, output;

  const term = (en, zh, name, tensor, ...what) =>
      [element("dt", {}, both(en, zh)), element("dd", {}, what, code(`${name} = ${tensor.call}`))];
  const bold = (x) => element("b", {}, x);
  const colour = (kind, x) => element("span", {class: `${kind}-text`}, x);
  function steps() {
    const [i, j] = cell, m = d[mask], hidden = typeof at(m.masked, i, j) !== "number";
    const products = [0, 1].map(
        (c) => [c ? " + " : "", colour("q", number(at(d.q, i, c), 0)), " × ", colour("k", number(at(d.k, j, c), 0))]);
    const values = [0, 1].map((c) => [c ? " + " : "", number(at(d.products, i, j, c), 0)]);
    const list = element(
        "dl", {class: "steps"},
        term("dot product", "点积", "scores", d.scores, products, " = ", values, " = ", bold(number(at(d.scores, i, j), 0))),
        term("÷ √2", "÷ √2", "scaled", d.scaled, number(at(d.scores, i, j), 0), " ÷ √2 = ", bold(number(at(d.scaled, i, j)))),
        term(
            "mask", "掩码", "masked", m.masked, hidden ? both("hidden: ", "遮住：") : both("visible: ", "可见："),
            bold(number(at(m.masked, i, j))), code(`keep = ${m.keep.call}`)),
        term("minus the row's largest", "减去行内最大", "shifted", m.shifted, bold(number(at(m.shifted, i, j)))),
        term("exp", "取指数", "exps", m.exps, `exp(${number(at(m.shifted, i, j))}) = `, bold(number(at(m.exps, i, j)))),
        term(
            "normalise", "归一化", "weights", m.weights, `${number(at(m.exps, i, j))} ÷ ${number(at(m.totals, i, 0))} = `,
            bold(number(at(m.weights, i, j)))),
        term(
            "the row's output", "这一行的输出", "output", m.output,
            [0, 1, 2].map(
                (t) =>
                    [t ? " + " : "", bold(number(at(m.weights, i, t))), " × ",
                     colour("v", `(${number(at(d.v, t, 0), 0)}, ${number(at(d.v, t, 1), 0)})`)]),
            " = ", bold(`(${number(at(m.output, i, 0))}, ${number(at(m.output, i, 1))})`)));
    panel.replaceChildren(element("h4", {}, head(i), " → ", head(j)), list);
    q.mark({row: i});
    k.mark({row: j});
    scores.mark({cell});
    weights.mark({row: i, cell});
    output.mark({row: i});
  }
  function build() {
    const select = (i, j) => {
      cell = [i, j];
      steps();
    };
    const off = (i, j) => typeof at(d[mask].masked, i, j) !== "number";
    scores = matrix(d.scores, {name: "Q Kᵀ", rows: heads(), columns: heads(), full: 0, select});
    weights = matrix(d[mask].weights, {name: "A", rows: heads(), columns: heads(), full: 1, select, off});
    output = matrix(d[mask].output, {name: "O", rows: heads(), kind: "v", full: 0});
    tables.replaceChildren(scores, weights, output);
    steps();
  }
  const scored =
      choice([["all", both("all visible", "全部可见")], ["causal", both("causal", "因果")]], mask, (value) => {
        mask = value;
        build();
      }, "Which keys are visible", "哪些钥匙可见");
  scored.id = "three-mask";
  build();
  place(
      "three-figure", scored, row(q, k, v), tables, panel,
      element(
          "p", {class: "note"},
          both(
              "Choose a cell of Q Kᵀ or of A: by pointer, by touch, or with Tab and the arrow keys.",
              "点选 Q Kᵀ 或 A 的一格：用鼠标、手指，或 Tab 与方向键。")));
  place("three-refusal", code(d.refusal.call), element("span", {class: "error"}, d.refusal.error));
})();

// ---- 2 why √d --------------------------------------------------------------------------------------------------------
(function scale() {
  const widths = [8, 64, 256], kinds = [["plain", "without ÷ √d", "不除以 √d"], ["scaled", "with ÷ √d", "除以 √d"]];
  function bars(what, top) {
    return element(
        "div", {class: "bars"},
        widths.map((d) => [element("span", {class: "group"}, `d = ${d}`), kinds.map(([kind, en, zh], i) => {
                     const value = data.scale[`d${d}`][kind][what].values[0];
                     return [
                       element("span", {class: "what"}, both(en, zh)),
                       element(
                           "span", {class: `bar-of shade-${1 - i}`, style: `width:${(100 * value / top).toFixed(1)}%`}),
                       element("span", {}, number(value, 2))
                     ];
                   })]));
  }
  const sample = data.scale.d8.plain;
  const first = row(widths.map(
      (d) => element(
          "div", {}, element("h4", {}, `d = ${d}`),
          kinds.map(
              ([kind, en, zh]) => element(
                  "div", {}, element("span", {class: "note"}, both(en, zh)),
                  matrix(data.scale[`d${d}`][kind].first, {full: 1, digits: 2, kind: "small", call: false}))))));
  place(
      "scale-figure",
      element(
          "div", {class: "columns"},
          element(
              "div", {}, heading("Standard deviation of the scores", "得分的标准差"), bars("deviation", 16.2),
              code(sample.deviation.call)),
          element(
              "div", {}, heading("Mean largest of five weights", "五个权重中最大者的平均"), bars("largest", 1),
              code(sample.largest.call))),
      heading("The weights of the first draw", "第一次抽样的权重"), first, code(sample.first.call),
      element(
          "p", {class: "note"},
          both(
              `${draw.whole(data.scale.draws)} draws of one query and five keys for each d; s is scores without ÷ √d and scaled with it.`,
              `每个 d 抽样 ${draw.whole(data.scale.draws)} 次：一个问题，五把钥匙；不除以 √d 时 s 是 scores，除时是 scaled。`)),
      given(data.scale.given));
})();

// ---- 3 softmax -------------------------------------------------------------------------------------------------------
(function softmax() {
  const d = data.softmax, holder = element("div", {"aria-live": "polite"});
  const names = ["z₁", "z₂", "z₃"];
  function show(i) {
    const step = d.steps[i];
    const options = {full: 1, columns: names, digits: 3};
    holder.replaceChildren(
        element("h4", {}, `c = ${number(step.c, 0)}`),
        row(matrix(step.shifted, {name: "z − c", columns: names, full: 0, digits: 1}),
            matrix(step.softmax, {name: "softmax", ...options}),
            matrix(step.naive, {name: "exp ∕ Σ exp", ...options})));
  }
  const range = label(
      element("input", {
        type: "range",
        min: 0,
        max: d.steps.length - 1,
        step: 1,
        value: 3,
        id: "softmax-constant",
        oninput: (event) => show(Number(event.target.value))
      }),
      "The constant c", "常数 c");
  show(3);
  place(
      "softmax-figure", heading("Subtract a constant", "减去一个常数"), matrix(d.z, {name: "z", columns: names, full: 0, digits: 1}), range,
      holder,
      element("h4", {}, both("Logits of ±1000", "±1000 的得分")),
      row(matrix(d.large.z, {name: "large", full: 0}), matrix(d.large.softmax, {name: "softmax", full: 1}),
          matrix(d.large.naive, {name: "exp ∕ Σ exp", full: 1}),
          matrix(d.large.logsumexp, {name: "log Σ exp", full: 0, digits: 2})));
})();
