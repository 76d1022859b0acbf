
// The training report. Every number shown is one of `data`.
const {element, both, label, number, whole, chart, heat} = draw;
const place = (id, ...children) => document.getElementById(id).replaceChildren(...children.flat());

(function head() {
  const {loss, text} = data;
  place(
      "lead",
      both(
          `${whole(data.parameters)} parameters, ${whole(data.step)} of ${whole(data.steps)} steps on ${
              whole(text.training)} bytes; loss ${number(loss.validation)} on ${
              whole(text.validation)} held-out bytes, against ${number(loss.bigram)} by counting pairs.`,
          `${whole(data.parameters)} 个参数，在 ${whole(text.training)} 字节上训练了 ${whole(data.step)} 步（共 ${
              whole(data.steps)} 步）；在留出的 ${whole(text.validation)} 字节上损失为 ${
              number(loss.validation)}，只数字节对则为 ${number(loss.bigram)}。`));
  place("command", data.command);
  place("summary", data.summary);
  place(
      "sample-note",
      both(
          `Temperature ${data.sample.temperature}, seed ${data.seed}.`,
          `温度 ${data.sample.temperature}，种子 ${data.seed}。`));
  place("sample-text", data.sample.text || "—");
})();

(function curves() {
  const {curves, loss} = data, last = Math.max(curves.train.at(-1)?.[0] ?? 1, 2);
  const step = {name: both("step", "步"), low: 0, high: last};
  place("loss-figure", chart({
          series: [
            {name: both("training", "训练"), points: curves.train, shade: 2},
            {name: both("bigram", "bigram"), level: loss.bigram, shade: 1},
            {name: both("unigram", "unigram"), level: loss.unigram, shade: 3},
            {name: both("validation", "验证"), points: curves.validation, shade: 0}
          ],
          x: step,
          y: {name: both("nats per byte, against steps", "每字节奈特，横轴为步数"), low: 0},
          height: 320,
          en: "Loss against steps, with the unigram and bigram entropies",
          zh: "损失随步数的变化，以及 unigram 与 bigram 熵"
        }));
  const one = (points, en, zh, shade, y = {}) => chart({
    series: [{name: both(en, zh), points, shade}],
    x: step,
    y: {name: both(en, zh), low: 0, ...y},
    height: 190,
    en: `${en} against steps`,
    zh: `${zh}随步数的变化`
  });
  place(
      "training-figure",
      element(
          "div", {class: "charts"}, one(curves.rate, "learning rate", "学习率", 0),
          one(curves.norm.filter((p) => p[1] > 0), "gradient norm (logarithmic axis)", "梯度范数（对数轴）", 1, {log: true, low: undefined}),
          one(curves.speed, "tokens per second, running mean", "每秒词元数（累计平均）", 3)));
})();

(function attention() {
  const {blocks, heads, length, labels} = data.attention;
  const bytes = Uint8Array.from(atob(data.attention.weights), (c) => c.charCodeAt(0));
  const triangle = (length * (length + 1)) / 2;
  const weight = (block, head, i, j) =>
      (j > i ? 0 : bytes[(block * heads + head) * triangle + (i * (i + 1)) / 2 + j] / 255);
  /** How strongly a weight is drawn: by its root, or else a row that spreads its weight would look empty. */
  const strength = (block, head, i, j) => Math.sqrt(weight(block, head, i, j));
  const shown = (i) => (labels[i] === " " ? "␣" : labels[i]);
  let block = 0, head = 0, query = length - 1;

  /** A character of several bytes stands at its first one. */
  const glyph = (text) => {
    const [, character, part] = text.match(/^(.+) (\d)\/\d$/u) ?? [];
    return character === undefined ? text : part === "1" ? character : "·";
  };

  /** The byte, and the three that it attends to most. */
  function sentence(i) {
    const most = Array.from({length: i + 1}, (_, j) => j)
                     .sort((a, b) => weight(block, head, i, b) - weight(block, head, i, a))
                     .slice(0, 3);
    const list = most.map((j) => `${shown(j)} (${j + 1}) ${number(weight(block, head, i, j), 2)}`).join(",  ");
    return both(`byte ${i + 1}, ${shown(i)}, attends to ${list}`, `第 ${i + 1} 个字节 ${shown(i)} 看向 ${list}`);
  }
  const line = element("div", {class: "line"}),
        told = element("span", {class: "readout", id: "attends", "aria-live": "polite"});
  const letters = labels.map(
      (text, i) => element(
          "button", {
            type: "button",
            "aria-label": `${i + 1}: ${shown(i)}`,
            onclick: () => choose(i),
            onpointerenter: (event) => event.pointerType === "mouse" && choose(i),
            onfocus: () => choose(i)
          },
          glyph(text)));
  line.append(...letters);
  label(line, "The line, byte by byte", "这一行，逐字节");

  const big = heat({
    rows: length,
    columns: length,
    size: `${Math.max(6, Math.floor(400 / length))}px`,
    value: (i, j) => strength(block, head, i, j),
    tell: (i, j) => j > i ?
        both("hidden: a byte does not see what follows it", "遮住：字节看不到后面的内容") :
        both(
            `${shown(i)} (${i + 1}) looks at ${shown(j)} (${j + 1}): ${number(weight(block, head, i, j), 2)}`,
            `${shown(i)}（${i + 1}）看 ${shown(j)}（${j + 1}）：${number(weight(block, head, i, j), 2)}`),
    en: "Attention weights of the chosen head: a row a query, a column a key",
    zh: "所选头的注意力权重：每行一个问题，每列一把钥匙"
  });
  function choose(i) {
    query = i;
    letters.forEach((letter, j) => {
      const part = strength(block, head, i, j);
      letter.style.setProperty("--part", part.toFixed(3));
      letter.classList.toggle("strong", part > 0.8);
      letter.classList.toggle("later", j > i);
      letter.setAttribute("aria-pressed", j === i);
    });
    told.replaceChildren(...sentence(i));
  }
  const grid = element("div", {class: "heads"});
  const buttons = [];
  for (let b = 0; b < blocks; ++b)
    for (let h = 0; h < heads; ++h) {
      const thumb = heat({rows: length, columns: length, size: "1px", value: (i, j) => strength(b, h, i, j)});
      const button = element(
          "button", {type: "button", "data-head": `${b}.${h}`, onclick: () => select(b, h)}, thumb,
          `${b + 1}.${h + 1}`);
      buttons.push(label(button, `layer ${b + 1}, head ${h + 1}`, `第 ${b + 1} 层，第 ${h + 1} 个头`));
    }
  grid.append(...buttons);
  grid.style.gridTemplateColumns = heads <= 6 ? `repeat(${heads}, minmax(0, 7rem))` : "";
  const title = element("h3", {style: "margin-top:0"});
  function select(b, h) {
    [block, head] = [b, h];
    buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.head === `${b}.${h}`));
    title.replaceChildren(...both(`Layer ${b + 1}, head ${h + 1}`, `第 ${b + 1} 层，第 ${h + 1} 个头`));
    big.redraw();
    choose(query);
  }
  place(
      "attention-figure",
      element(
          "div", {class: "attention"},
          element(
              "div", {}, grid,
              element(
                  "p", {class: "note"},
                  both(
                      "Numbered by layer and head. The larger a weight, the stronger its colour: as its square root, so that small ones show.",
                      "编号为 层.头。权重越大颜色越浓：按平方根，小的权重也看得见。"))),
          element(
              "div", {}, title, element("p", {class: "note axes"}, both("query ↓, key →", "问题 ↓，钥匙 →")), big)),
      line, told);
  select(0, 0);
})();

draw.start();
