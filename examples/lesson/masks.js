
// ---- 4 padding -------------------------------------------------------------------------------------------------------
(function padding() {
  const d = data.padding, names = ["我", "爱", "AI", "PAD", "PAD"], glosses = ["I", "love"], holder = element("div", {"aria-live": "polite"});
  const tokens = () => names.map(
      (name, i) => element(
          "span", {}, name, glosses[i] && element("span", {lang: "en", class: "gloss"}, ` ${glosses[i]}`)));
  const hidden = {none: () => false, columns: (i, j) => j >= 3, rows: (i) => i >= 3};
  const notes = {
    none: both(
        "PAD has the largest score of row 1 and takes the largest share.", "PAD 在第一行得分最高，拿走了最大的一份。"),
    columns: both(
        "The three words share each row among them. The rows of PAD are there too, and nobody reads them.",
        "每一行都由三个词分完。PAD 的行也在，只是没人去读。"),
    rows: both(
        "The rows of PAD are empty, which helps nobody: the words still listen to PAD.",
        "PAD 的行空了，却没有用处：真正的词还在听 PAD。"),
  };
  function show(kind) {
    holder.replaceChildren(
        row(matrix(d.scores, {name: "S", rows: tokens(), columns: tokens(), digits: 2, full: 0, kind: "small"}),
            matrix(
                d[kind].weights,
                {name: "A", rows: tokens(), columns: tokens(), full: 0.5, off: hidden[kind], kind: "small"}),
            matrix(d.values, {name: "V", rows: tokens(), kind: "v small", full: 0, call: false}),
            matrix(d[kind].output, {name: "O", rows: tokens(), kind: "v small", full: 0, call: false})),
        code(`V = ${d.values.call}`), code(`O = ${d[kind].output.call}`),
        element("p", {class: "note"}, notes[kind].map((node) => node.cloneNode(true))));
  }
  const options = choice(
      [
        ["columns", both("columns masked", "遮列")], ["none", both("no mask", "不遮")],
        ["rows", both("rows masked", "遮行")]
      ],
      "columns", show, "What is masked", "遮什么");
  options.id = "padding-mask";
  show("columns");
  place(
      "padding-figure", options, holder, code(`raw = ${d.raw.call}`), given(d.given));

  const line = (en, zh, weights, output) => element(
      "div", {}, heading(en, zh),
      row(matrix(weights, {name: "A", columns: tokens(), full: 0.5, kind: "small", off: () => false}),
          matrix(output, {name: "O", kind: "v small", full: 0})));
  place(
      "padding-empty",
      element(
          "div", {class: "columns"},
          line("Scores plus −1e9 (f32)", "得分加 −1e9（f32）", d.empty.large, d.empty.large_output),
          line("Scores plus −1e9 (f64)", "得分加 −1e9（f64）", d.empty.large64, d.empty.large64_output),
          line("Scores plus −∞", "得分加 −∞", d.empty.infinite, d.empty.infinite_output),
          line("capstan", "capstan", d.empty.capstan, d.empty.capstan_output)),
      element(
          "p", {class: "note"},
          both("One query, five keys, none of them visible.", "一个问题，五把钥匙，一把也看不见。")),
      given(d.empty.given));
})();

// ---- 5 causal --------------------------------------------------------------------------------------------------------
(function causal() {
  const d = data.causal, positions = ["1", "2", "3", "4", "5"], holder = element("div", {"aria-live": "polite"});
  function show(kind) {
    const quiet = (i) => kind === "causal" && i < 2;
    holder.replaceChildren(
        element(
            "div", {class: "columns"},
            element(
                "div", {}, heading("Change of each output when token 3 is exchanged", "换掉第 3 个词元，各输出的变化"),
                matrix(d[kind].change, {name: "|ΔO|", rows: positions, digits: 3, kind: "small", off: quiet})),
            element(
                "div", {},
                heading("How strongly output s (row) follows input t (column)", "输出 s（行）随输入 t（列）变化的强度"),
                matrix(d[kind].influence, {
                  name: "‖∂O ∕ ∂x‖",
                  rows: positions,
                  columns: positions,
                  digits: 3,
                  kind: "small",
                  off: (i, j) => kind === "causal" && j > i
                }))),
        element(
            "p", {class: "note"},
            kind === "causal" ? both("Hatched cells are exactly 0, not small.", "带斜线的格子恰好是 0，不是很小。") :
                                both(
                                    "Without the mask every output feels the exchange, the earlier ones too.",
                                    "没有掩码，每个输出都受影响，前面的也不例外。")));
  }
  const options = choice(
      [["causal", both("causal", "因果")], ["all", both("all visible", "全部可见")]], "causal", show,
      "Which keys are visible", "哪些钥匙可见");
  options.id = "causal-mask";
  show("causal");
  place(
      "causal-figure", options, holder, code(`x = ${d.x.call}`), code(`other = ${d.other.call}`), given(d.given),
      element("p", {class: "note"}, both("mask is that of the switch.", "mask 由上面的开关决定。")));

  const c = d.convention, truth = (value) => (value ? "true" : "·");
  const table = (tensor, extra) =>
      matrix(tensor, {rows: positions, columns: positions, full: 1, kind: "small", ...extra});
  place(
      "causal-conventions",
      element(
          "div", {class: "columns"},
          element(
              "div", {}, heading("true = may attend (capstan)", "true = 可以看（capstan）"),
              table(c.keep, {show: truth, kind: "small center"})),
          element(
              "div", {}, heading("true = hidden (elsewhere)", "true = 遮住（别处）"),
              table(c.hide, {show: truth, kind: "small center"})),
          element(
              "div", {}, heading("Weights of equal scores, read rightly", "得分全等时的权重：读对"),
              table(c.right, {digits: 2})),
          element("div", {}, heading("Read the other way round", "读反"), table(c.wrong, {digits: 2}))),
      code(c.refusal.call), element("span", {class: "error"}, c.refusal.error), given(c.given));
})();
