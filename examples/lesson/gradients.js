
// ---- 8 backward ------------------------------------------------------------------------------------------------------
(function backward() {
  const d = data.backward, h = d.hand;
  place(
      "backward-hand",
      row(matrix(h.a, {name: "a", full: 0}), matrix(h.v, {name: "V", kind: "v", full: 0}),
          matrix(h.o, {name: "O", full: 0}), matrix(h.loss, {name: "loss", full: 0}),
          matrix(h.da, {name: "da", full: 22})),
      given(h.given));

  const weight = (letter) => ["dW", element("sub", {}, letter)];
  // Each gradient: its name, rule, and the gradients and values that the rule reads.
  const rules = {
    dO: {name: ["dO"], rule: "dO = O", reads: [], why: ["the derivative of ½ Σ O²", "½ Σ O² 的导数"]},
    dA: {name: ["dA"], rule: "dA = dO Vᵀ", reads: ["dO"], why: ["each weight scales one value", "每个权重乘一份内容"]},
    dV: {
      name: ["dV"],
      rule: "dV = Aᵀ dO",
      reads: ["dO"],
      why: ["each value is used by all rows that look at it", "每份内容被所有看它的行用到"]
    },
    dS: {
      name: ["dS"],
      rule: "dS = A ⊙ (dA − rowsum(A ⊙ dA))",
      reads: ["dA"],
      why: ["softmax's rule; each row sums to 0", "softmax 的规则；每行之和为 0"]
    },
    dQ: {
      name: ["dQ"],
      rule: "dQ = dS K ∕ √2",
      reads: ["dS"],
      why: ["S = Q Kᵀ ∕ √2, seen from Q", "从 Q 看 S = Q Kᵀ ∕ √2"]
    },
    dK: {name: ["dK"], rule: "dK = dSᵀ Q ∕ √2", reads: ["dS"], why: ["the same, seen from K", "同一式，从 K 看"]},
    dWq: {
      name: weight("Q"),
      rule: "dW_Q = Xᵀ dQ",
      reads: ["dQ"],
      why: ["the same matrix serves every token: the sum over tokens", "同一个矩阵为所有词元服务：对词元求和"]
    },
    dWk: {name: weight("K"), rule: "dW_K = Xᵀ dK", reads: ["dK"], why: ["the same for the keys", "钥匙也一样"]},
    dWv: {name: weight("V"), rule: "dW_V = Xᵀ dV", reads: ["dV"], why: ["and for the values", "内容也一样"]},
    dX: {
      name: ["dX"],
      rule: "dX = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ",
      reads: ["dQ", "dK", "dV"],
      why: ["three ways lead from X, and their gradients add up", "X 有三条去路，梯度相加"]
    },
    dE: {
      name: ["dE"],
      rule: "dE[id] += dX[t]",
      reads: ["dX"],
      why: ["each row goes back to its token; unused tokens keep 0", "每行回到自己的词元；没用到的词元仍是 0"]
    },
  };
  const full = Math.max(...Object.keys(rules).flatMap((key) => d[key].values.map(Math.abs)));
  const narrow = matchMedia("(max-width: 40rem)");
  const panel = element("div", {class: "panel", id: "rule", "aria-live": "polite"});
  const cards = {};
  /** Text in which _Q is a subscript. */
  const subscripts = (text) =>
      text.split(/_(\w)/).map((piece, i) => (i % 2 ? element("sub", {}, piece) : piece));
  let shown = "dS";
  function show(key) {
    shown = key;
    const {name, rule, why} = rules[key], g = d[key];
    const copy = () => name.map((part) => (part.cloneNode ? part.cloneNode(true) : part));
    panel.replaceChildren(
        element("p", {class: "rule"}, subscripts(rule)), element("p", {class: "note"}, both(...why)),
        row(matrix(g, {name: copy(), kind: "small", full}),
            matrix(g.differences, {name: both("differences", "有限差分"), kind: "small", full})),
        element("p", {class: "note"}, both(`largest distance ${tiny(g.distance)}`, `最大差别 ${tiny(g.distance)}`)));
    for (const [other, card] of Object.entries(cards)) {
      card.setAttribute("aria-pressed", other === key);
      card.classList.toggle("read", rules[key].reads.includes(other));
    }
  }
  /** Where there is no room beside them, the panel stands right below the card's line. */
  function settle() {
    if (narrow.matches)
      cards[shown].parentElement.after(panel);
    else
      flow.after(panel);
  }
  const choose = (key) => {
    show(key);
    if (narrow.matches) {
      settle();
      cards[key].scrollIntoView({block: "nearest"});
    }
  };
  const card = (key) => {
    const node = element(
        "div", {
          role: "button",
          tabindex: 0,
          class: "card",
          "data-key": key,
          onclick: () => choose(key),
          onpointerenter: (event) => event.pointerType === "mouse" && !narrow.matches && show(key),
          onfocus: () => show(key)
        },
        matrix(d[key], {name: rules[key].name, kind: "small", full, call: false, digits: 2}),
        element(
            "span", {class: "gap"},
            both(`differences: ${tiny(d[key].distance)}`, `与差分相距 ${tiny(d[key].distance)}`)));
    cards[key] = node;
    return node;
  };
  const stages = [["dO"], ["dA", "dV"], ["dS"], ["dQ", "dK"], ["dWq", "dWk", "dWv"], ["dX"], ["dE"]];
  const flow = element(
      "div", {class: "flow"},
      stages
          .map(
              (keys, i) =>
                  [i > 0 && element("span", {class: "arrow", "aria-hidden": "true"}, "↓"),
                   element("div", {class: "stage"}, keys.map(card))])
          .flat()
          .filter(Boolean));
  const forward = row(["E", "Wq", "Wk", "Wv", "X", "Q", "K", "V", "S", "A", "O"].map(
      (key) => matrix(d[key], {
        name: key.length > 1 ? ["W", element("sub", {}, key[1].toUpperCase())] : key,
        kind: `small ${{Q: "q", K: "k", V: "v"}[key] ?? ""}`,
        full: 0,
        digits: 2,
        off: key === "A" ? (i, j) => j > i : undefined
      })));
  place(
      "backward-flow", heading("Forward", "前向"), forward,
      element("h4", {style: "margin-top:1.75rem"}, both("Backward", "反向")),
      element("div", {class: "backward"}, flow, panel), draw.colours("of all gradients", "所有梯度"),
      element(
          "p", {class: "note"},
          both(
              "differences(x, f) is (f(x + h) − f(x − h)) ∕ 2h for each element of x, with h = 1e-5; table, w_q, w_k and w_v are the numbers of E and of the three W.",
              "differences(x, f) 对 x 的每个元素是 (f(x + h) − f(x − h)) ∕ 2h，h = 1e-5；table、w_q、w_k、w_v 就是 E 与三个 W 的数字。")),
      given(d.given));
  show(shown);
  settle();
  narrow.addEventListener("change", settle);

  const tape = element("div", {class: "tape"});
  if (d.tape.svg)
    tape.innerHTML = d.tape.svg;
  else
    tape.append(element("pre", {}, d.tape.dot));
  label(tape, "The tape as a graph, from the embedding to the loss", "磁带的图，从嵌入到损失");
  tape.setAttribute("role", "img");
  place("backward-tape", element("div", {class: "scroll"}, tape), code(d.tape.call));
})();

// ---- the picture on top: one run forward, and its gradients back -------------------------------------------------------
(function journey() {
  const d = data.backward, keys = ["X", "Q", "K", "V", "S", "A", "O"];
  const tile = (key) => {
    const tensor = d[key], top = Math.max(...tensor.values.map(Math.abs));
    return element(
        "span", {}, heat({
          rows: tensor.shape[0],
          columns: tensor.shape[1],
          size: "var(--cell)",
          value: (i, j) => at(tensor, i, j) / top
        }),
        element("br"), key);
  };
  place(
      "journey", keys.map(tile), keys.map((key) => tile(`d${key}`)),
      element(
          "span", {class: "told"},
          both(
              "Above, three tokens on their way through attention; below, the gradients on their way back. Station 8 tells it in numbers.",
              "上面一行：三个词元穿过注意力；下面一行：梯度原路返回。第 8 站用数字讲述它。")));
})();

document.getElementById("journey").after(draw.colours());

// ---- 9 distance ------------------------------------------------------------------------------------------------------
(function distance() {
  const d = data.reach, points = (tensor) => tensor.values.map((value, n) => [n, value]);
  place(
      "reach-figure", chart({
        series: [
          {name: both("attention", "注意力"), points: points(d.attention), shade: 0},
          {name: both("recurrent net", "循环网络"), points: points(d.recurrent), shade: 1}
        ],
        x: {name: both("distance", "距离")},
        y: {
          name: both(
              "gradient magnitude, logarithmic; against distance in tokens", "梯度大小（对数），横轴为相隔的词元数"),
          log: true
        },
        height: 300,
        en: "Gradient magnitude against distance: level for attention, falling for the recurrent net",
        zh: "梯度大小随距离的变化：注意力持平，循环网络下降"
      }),
      code(d.attention.call), code(d.recurrent.call),
      element(
          "p", {class: "note"},
          both(
              "At n = 0 attention stands about ten times higher: the last token is the query too, and moves all weights at once; any other moves only its own key and value.",
              "n = 0 处注意力高出约十倍：最后一个词元同时也是问题，会一下子移动所有权重；其余词元只移动自己的钥匙和内容。")),
      element(
          "p", {class: "note"},
          both(
              "by_distance(net) takes the norm of the gradient of ⟨O, r⟩ at each distance, r random, and its mean over the sequences; recurrent steps its state with cell, attended is one head of causal attention.",
              "by_distance(net) 取每个距离上 ⟨O, r⟩（r 随机）的梯度范数，再对序列求平均；recurrent 用 cell 逐步更新状态，attended 是一个因果注意力头。")),
      given(d.given));
})();

document.getElementById("footer").append(...both(
    `${data.checks.passed} of ${
        data.checks
            .count} claims of this page were held against this run and passed; they are in checks.json beside it. The script on this page only shows and selects.`,
    `本页的 ${data.checks.count} 条论断与这次运行逐一核对，${
        data.checks.passed} 条通过，见旁边的 checks.json。页面脚本只负责显示与选择。`));
draw.start();
