
// ---- 6 many heads ----------------------------------------------------------------------------------------------------
(function heads() {
  const holder = element("div", {"aria-live": "polite"}), positions = ["1", "2", "3", "4"];
  const names = {
    heads: "各头",
    scores: "得分",
    weights: "权重",
    outputs: "各头输出",
    joined: "拼接",
    output: "输出"
  };
  let size = "two", batch = 0;
  function show() {
    const d = data.heads[size];
    const shapes = element(
        "div", {class: "shapes"},
        d.shapes.map((s) => [element("span", {}, names[s.name] ? both(s.name, names[s.name]) : s.name),
                             element("span", {class: "shape"}, s.shape), code(s.call)]));
    const tables = Array.from({length: d.heads}, (_, h) => matrix({...pick(d.weights, batch, h)}, {
                                                   name: both(`head ${h + 1}`, `第 ${h + 1} 个头`),
                                                   rows: positions,
                                                   columns: positions,
                                                   full: 1,
                                                   kind: "small",
                                                   digits: 2,
                                                   off: (i, j) => j > i,
                                                   call: false
                                                 }));
    holder.replaceChildren(
        shapes, row(tables), code(d.weights.call), given(d.given),
        element(
            "p", {class: "note"},
            both(
                `${d.parameters} parameters, without biases, whatever the number of heads.`,
                `共 ${d.parameters} 个参数，无偏置，与头数无关。`)));
  }
  place(
      "heads-figure",
      choice(
          [["two", both("width 4, 2 heads", "宽 4，2 头")], ["three", both("width 6, 3 heads", "宽 6，3 头")]], size,
          (v) => {
            size = v;
            show();
          },
          "Size of the module", "模块大小"),
      choice([["0", both("sequence 1", "序列 1")], ["1", both("sequence 2", "序列 2")]], "0", (v) => {
        batch = Number(v);
        show();
      }, "Sequence of the batch", "批次中的序列"), holder);
  show();
})();

// ---- 7 order ---------------------------------------------------------------------------------------------------------
(function order() {
  const d = data.order;
  const small = (tensor, en, zh) => {
    const top = Math.max(...tensor.values.map(Math.abs));
    return heat({
      rows: tensor.shape[0],
      columns: tensor.shape[1],
      size: "18px",
      value: (i, j) => at(tensor, i, j) / top,
      en,
      zh,
      tell: (i, j) => both(
          `row ${i + 1}, column ${j + 1}: ${number(at(tensor, i, j))}`,
          `第 ${i + 1} 行，第 ${j + 1} 列：${number(at(tensor, i, j))}`)
    });
  };
  const pair = (en, zh, c) => element(
      "div", {}, heading(en, zh),
      row(element(
              "div", {class: "matrix"}, element("span", {class: "note"}, "f(P x)"),
              small(c.of_permuted, "Output of the permuted input", "打乱后的输入的输出"), code(c.of_permuted.call)),
          element(
              "div", {class: "matrix"}, element("span", {class: "note"}, "P f(x)"),
              small(c.permuted_of, "Permuted output", "打乱后的输出"), code(c.permuted_of.call))),
      element(
          "p", {}, both("largest difference ", "最大差别 "),
          element("b", {}, c.distance < 1e-6 ? tiny(c.distance) : number(c.distance))));
  const rows = d.shuffle.values.map((i) => i + 1).join(", ");
  place(
      "order-figure",
      element(
          "div", {class: "columns thirds"}, pair("Without positions", "没有位置", d.plain),
          pair("With sinusoidal positions", "加上正弦位置", d.placed),
          pair("Causal, without positions", "因果，没有位置", d.causal)),
      draw.colours(),
      element("p", {class: "note"}, both(`P puts the rows in the order ${rows}.`, `P 把行排成 ${rows} 的次序。`)),
      code(`x = ${d.x.call}`), code(`shuffle = ${d.shuffle.call}`), code(`positions = ${d.positions.call}`),
      given(d.given));
  place(
      "order-table", heat({
        rows: d.table.shape[1],
        columns: d.table.shape[0],
        size: "20px",
        value: (i, j) => at(d.table, j, i),
        en: "Sinusoidal positions: a column a position, a row a feature",
        zh: "正弦位置：每列一个位置，每行一个特征",
        tell: (i, j) => both(
            `position ${j}, feature ${i}: ${number(at(d.table, j, i))}`,
            `位置 ${j}，特征 ${i}：${number(at(d.table, j, i))}`)
      }),
      code(d.table.call),
      element(
          "p", {class: "note"},
          both(
              "From left to right the positions, from top to bottom the features. Each pair of rows is a clock hand; the lower, the slower it turns.",
              "从左到右是位置，从上到下是特征。每两行是一根钟针，越往下转得越慢。")));
})();
