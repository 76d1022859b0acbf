// The pages in a real browser: the lesson and a training report, opened from the disk as a reader would. Run by ctest, which
// says where the programs are. Screenshots of every section go to SCREENSHOTS, to be looked at.
"use strict";
const assert = require("node:assert/strict");
const {execFileSync} = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const {after, before, test} = require("node:test");
const {pathToFileURL} = require("node:url");
const {chromium} = require("playwright-core");

const {LESSON, TRAIN_GPT, CHROMIUM, SCREENSHOTS} = process.env;
const wide = {
  width: 1280,
  height: 900
},
      narrow = {
        width: 390,
        height: 844
      };
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "capstan_pages_"));
const urls = {
  lesson: pathToFileURL(path.join(folder, "lesson.html")).href,
  report: pathToFileURL(path.join(folder, "report.html")).href,
};
let browser;

before(async () => {
  execFileSync(LESSON, ["--out", folder]);
  const text = path.join(folder, "text.txt");
  fs.writeFileSync(
      text,
      Array.from({length: 400}, (_, i) => `line ${(i * 7919) % 1000}: the cat likes fish, 小猫喜欢小鱼.\n`).join(""));
  execFileSync(TRAIN_GPT, [
    "--data",    text, "--out",   folder, "--width", "16", "--heads",      "2",  "--blocks",       "3",
    "--context", "64", "--batch", "4",    "--steps", "60", "--eval-every", "10", "--sample-bytes", "80"
  ]);
  browser = await chromium.launch({executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"]});
});
after(async () => {
  await browser?.close();
  fs.rmSync(folder, {recursive: true, force: true});
});

/** Opens a page in a context of its own; what it says on the console or asks of a network fails the test at the end. */
async function open(name, options, run) {
  const context = await browser.newContext({viewport: wide, locale: "en-US", colorScheme: "light", ...options});
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => complaints.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (request.url() !== urls[name] && !request.url().startsWith("data:"))
      complaints.push(`request: ${request.url()}`);
  });
  await page.goto(urls[name]);
  await run(page);
  assert.deepEqual(complaints, []);
  await context.close();
}
const visible = (page, text) => page.getByText(text, {exact: true}).first().isVisible();
const luminance = (page) => page.evaluate(() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).map(Number);
  return (r + g + b) / 3 / (getComputedStyle(document.body).backgroundColor.startsWith("color(") ? 1 / 255 : 1);
});
/** The table of a name inside a figure, as rows of texts. */
const table = (page, figure, name) =>
    page.locator(`#${figure} .matrix`)
        .filter({has: page.locator("caption .name", {hasText: new RegExp(`^${name}$`)})})
        .locator("tbody tr")
        .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent)));

test(
    "a cell of the scores shows its dot product term by term",
    () => open("lesson", {}, async (page) => {
      const cells = page.locator("#three-figure .matrix")
                        .filter({has: page.locator("caption", {hasText: "Q Kᵀ"})})
                        .locator("td button");
      await cells.nth(2).click();  // 小猫 → 小鱼
      const terms = await page.locator("#terms").innerText();
      for (const part
               of ["小猫 cat → 小鱼 fish", "1 × 1 + 2 × 2 = 1 + 4 = 5", "5 ÷ √2 = 3.536", "visible: 3.536",
                   "exp(0) = 1.000"])
        assert.ok(terms.includes(part), `${part} is not in\n${terms}`);
      assert.deepEqual(await page.locator("#three-figure .matrix.q td.lit").allInnerTexts(), ["1", "2"]);
      assert.deepEqual(await page.locator("#three-figure .matrix.k td.lit").allInnerTexts(), ["1", "2"]);
    }));

test("arrow keys move between cells and Enter chooses", () => open("lesson", {}, async (page) => {
                                                          await page.locator("#three-figure td button").first().focus();
                                                          await page.keyboard.press("ArrowDown");
                                                          await page.keyboard.press("ArrowRight");
                                                          await page.keyboard.press("Enter");
                                                          assert.match(
                                                              await page.locator("#terms h4").innerText(),
                                                              /喜欢 likes → 喜欢 likes/);
                                                        }));

test(
    "a tap chooses on a touch screen",
    () => open("lesson", {viewport: narrow, hasTouch: true, isMobile: true}, async (page) => {
      await page.locator("#three-figure td button").nth(7).tap();
      assert.match(await page.locator("#terms h4").innerText(), /小鱼 fish → 喜欢 likes/);
    }));

test(
    "the causal switch hides later keys and shares their weight out",
    () => open("lesson", {}, async (page) => {
      assert.deepEqual(
          await table(page, "three-figure", "A"),
          [["0.306", "0.074", "0.620"], ["0.768", "0.045", "0.187"], ["0.446", "0.108", "0.446"]]);
      await page.getByRole("button", {name: "causal"}).first().click();
      assert.deepEqual(
          await table(page, "three-figure", "A"),
          [["1.000", "0", "0"], ["0.944", "0.056", "0"], ["0.446", "0.108", "0.446"]]);
      assert.match(await page.locator("#terms").innerText(), /hidden: −∞/);
    }));

test(
    "the padding switch masks columns, rows, or nothing",
    () => open("lesson", {}, async (page) => {
      assert.deepEqual((await table(page, "padding-figure", "A"))[0], ["0.334", "0.358", "0.308", "0", "0"]);
      await page.locator("#padding-mask button[data-value=rows]").click();
      assert.deepEqual((await table(page, "padding-figure", "A"))[4], ["0", "0", "0", "0", "0"]);
      await page.locator("#padding-mask button[data-value=none]").click();
      assert.notEqual((await table(page, "padding-figure", "A"))[0][3], "0");
    }));

test(
    "the slider subtracts a constant and softmax stays",
    () => open("lesson", {}, async (page) => {
      const before = await table(page, "softmax-figure", "softmax");
      await page.locator("#softmax-constant").fill("0");  // c = −1000
      assert.deepEqual(await table(page, "softmax-figure", "softmax"), before);
      assert.deepEqual((await table(page, "softmax-figure", "exp ∕ Σ exp"))[0], ["NaN", "NaN", "NaN"]);
    }));

test(
    "a gradient shows its rule beside its finite differences",
    () => open("lesson", {}, async (page) => {
      await page.locator(".card[data-key=dWq]").click();
      const panel = page.locator("#rule");
      assert.match(await panel.innerText(), /dWQ = Xᵀ dQ/);
      const tables = await panel.locator("table").evaluateAll(
          (all) => all.map((t) => [...t.querySelectorAll("td")].map((c) => c.textContent).join(" ")));
      assert.equal(tables.length, 2);
      assert.equal(tables[0], tables[1]);
      assert.equal(await page.locator(".card.read").getAttribute("data-key"), "dQ");
      assert.ok((await page.locator("#backward-tape svg .node").count()) > 15);
    }));

test(
    "on a narrow screen the panel stands below the card that was tapped",
    () => open("lesson", {viewport: narrow, hasTouch: true, isMobile: true}, async (page) => {
      for (const key of ["dWk", "dA", "dE"]) {
        const card = page.locator(`.card[data-key=${key}]`);
        await card.tap();
        const [above, below] = [await card.boundingBox(), await page.locator("#rule").boundingBox()];
        assert.ok(below.y >= above.y + above.height, `${key}: ${JSON.stringify({above, below})}`);
        assert.ok(above.y >= 0 && above.y + above.height <= narrow.height, JSON.stringify(above));
      }
    }));

test(
    "the loss is read off only where it was measured",
    () => open("report", {}, async (page) => {
      const read = () => page.locator("#loss-figure .readout").last().innerText();
      await page.locator("#loss-figure svg").focus();
      await page.keyboard.press("ArrowLeft");  // step 0: before any training
      assert.match(await read(), /^step 0 · bigram \S+ · unigram \S+ · validation 5\.\d+$/);
      await page.keyboard.press("ArrowRight");
      assert.match(await read(), /^step 1 · training 5\.\d+ · bigram \S+ · unigram \S+$/);
      for (let i = 0; i < 9; ++i) await page.keyboard.press("ArrowRight");
      assert.match(await read(), /^step 10 · training .* · validation \S+$/);
      assert.ok((await page.locator("#training-figure .chart").nth(1).locator(".grid").count()) >= 2);
    }));

test(
    "heat maps and charts are read by cursor keys",
    () => open("lesson", {}, async (page) => {
      const canvas = page.locator("#order-table canvas");
      await canvas.focus();
      await page.keyboard.press("ArrowRight");
      assert.match(await page.locator("#order-table .readout").innerText(), /position 1, feature 0: 0\.841/);
      await page.locator("#reach-figure svg").focus();
      await page.keyboard.press("ArrowRight");
      assert.match(
          await page.locator("#reach-figure .readout").last().innerText(),
          /distance 1 · attention .* · recurrent net/);
    }));

test(
    "a byte of the report's line tells where it looks, for the chosen head",
    () => open("report", {}, async (page) => {
      await page.locator(".heads button[data-head='2.1']").click();
      assert.equal(await visible(page, "Layer 3, head 2"), true);
      await page.locator(".line button").nth(4).focus();
      assert.match(await page.locator("#attends").innerText(), /^byte 5, ., attends to .* \(\d\) 0\.\d\d/);
      assert.equal(await page.locator(".line button.later").count(), (await page.locator(".line button").count()) - 5);
    }));

test(
    "the report tells command, model, baselines and sample",
    () => open("report", {}, async (page) => {
      assert.match(
          await page.locator("#command").innerText(), /^examples\/run --data .* --seed 1 --steps 60 .*--width 16$/);
      assert.match(await page.locator("#summary").innerText(), /blocks/);
      assert.ok((await page.locator("#sample-text").innerText()).length > 40);
      const legend = await page.locator("#loss-figure .legend").innerText();
      for (const line of ["training", "validation", "bigram", "unigram"]) assert.ok(legend.includes(line), legend);
    }));

for (const name of ["lesson", "report"]) {
  test(
      `${name}: English and Chinese by a switch`,
      () => open(name, {}, async (page) => {
        const texts = () => page.evaluate(() => {
          const shown = (lang) => [...document.querySelectorAll(`body [lang=${lang}]`)]
                                      .filter((node) => node.getClientRects().length > 0)
                                      .length;
          return {en: shown("en"), zh: shown("zh"), lang: document.documentElement.lang};
        });
        const english = await texts();
        assert.equal(english.lang, "en");
        assert.ok(english.en > 10 && english.zh === 0, JSON.stringify(english));
        await page.locator("#language").click();
        const chinese = await texts();
        assert.equal(chinese.lang, "zh");
        assert.ok(chinese.zh > 10 && chinese.en === 0, JSON.stringify(chinese));
        // Every text has its twin.
        const [en, zh] = await page.evaluate(
            () => ["en", "zh"].map((lang) => document.querySelectorAll(`body [lang=${lang}]:not(.gloss)`).length));
        assert.equal(en, zh);
        for (const node of await page.locator("[data-label-zh]").all())
          assert.equal(await node.getAttribute("aria-label"), await node.getAttribute("data-label-zh"));
      }));

  test(`${name}: a Chinese browser starts in Chinese`, () => open(name, {locale: "zh-CN"}, async (page) => {
                                                         assert.equal(
                                                             await page.evaluate(() => document.documentElement.lang),
                                                             "zh");
                                                       }));

  test(
      `${name}: light and dark, by the system and by a switch`,
      () => open(name, {colorScheme: "dark"}, async (page) => {
        assert.ok((await luminance(page)) < 60);
        await page.locator("#theme").click();
        assert.ok((await luminance(page)) > 200);
        await page.emulateMedia({colorScheme: "light"});
        await page.locator("#theme").click();
        assert.ok((await luminance(page)) < 60);
      }));

  test(
      `${name}: whatever can be operated has a name`,
      () => open(name, {}, async (page) => {
        const nameless = await page.evaluate(
            () => [...document.querySelectorAll(
                       "button, input, canvas[tabindex], [role=img], [role=group], [role=button]")]
                      .filter((node) => !node.getAttribute("aria-label") && !node.textContent.trim())
                      .map((node) => node.outerHTML.slice(0, 120)));
        assert.deepEqual(nameless, []);
      }));

  for (const [label, viewport, photographed] of [["1280", wide, "en"], ["390", narrow, "zh"]])
    test(
        `${name}: fits ${label} pixels in both languages`,
        () => open(name, {viewport}, async (page) => {
          fs.mkdirSync(SCREENSHOTS, {recursive: true});
          await page.addStyleTag({content: ".bar { position: static !important; }"});  // else it lies over the sections
          for (const language of ["en", "zh"]) {
            const wider = await page.evaluate(
                () => [...document.querySelectorAll("body *")]
                          .filter((node) => {
                            const box = node.getBoundingClientRect();
                            return box.right > innerWidth + 1 && !node.closest(".scroll");
                          })
                          .map((node) => `${node.tagName} ${node.id} ${node.className}`.slice(0, 80)));
            assert.deepEqual(wider, []);
            if (language === photographed)
              for (const section
                       of ["top",
                           ...(await page.locator("main section").evaluateAll((all) => all.map((one) => one.id)))])
                await page.locator(`#${section}`).screenshot({
                  path: path.join(SCREENSHOTS, `${name}-${section}-${label}.png`)
                });
            await page.locator("#language").click();
          }
        }));
}

test(
    "every figure of the lesson's first nine stations shows a call",
    () => open("lesson", {}, async (page) => {
      const figures =
          await page.locator("main figure")
              .evaluateAll(
                  (all) => all.map(
                      (figure) =>
                          [figure.id,
                           [...figure.querySelectorAll(".call")].filter((c) => c.textContent.includes("(")).length]));
      assert.ok(figures.length >= 14);
      assert.deepEqual(figures.filter(([, calls]) => calls === 0), []);
    }));

test("the answers fold open", () => open("lesson", {}, async (page) => {
                                const questions = page.locator("#questions details");
                                assert.equal(await questions.count(), 5);
                                assert.equal(await questions.first().locator("p:visible").count(), 0);
                                await questions.first().locator("summary").click();
                                assert.equal(await questions.first().locator("p:visible").count(), 1);
                              }));
