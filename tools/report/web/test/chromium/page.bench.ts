// Run by bench/page/run: how long a report takes to open, and how long a frame of the timeline takes.
import { statSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Browser, showAll } from './browser';

const file = process.env.CUHEAP_PAGE!;
let browser: Browser;
beforeAll(async () => { browser = await Browser.start(); });
afterAll(async () => browser.stop());

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

test('opening and zooming', async () => {
  const opening: number[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const { page } = await browser.open(file);
    // From the start of the navigation until verdicts and timeline are drawn and keys are heard.
    opening.push(await page.evaluate(() => performance.getEntriesByName('cuheap-ready')[0]!.startTime));
    await page.close();
  }
  const { page, wrong } = await browser.open(file);
  await showAll(page);
  const frames = await page.evaluate(async () => {
    const times: number[] = [];
    for (let turn = 0; turn < 60; turn += 1) {
      dispatchEvent(new KeyboardEvent('keydown', { key: turn % 2 === 0 ? '+' : '-' }));
      await new Promise((done) => requestAnimationFrame(done));
      const begin = performance.now();
      await new Promise((done) => setTimeout(done));
      times.push(performance.now() - begin);
    }
    return times;
  });
  expect(wrong).toEqual([]);
  const figures = { page_mib: statSync(file).size / 2 ** 20, open_ms_median: median(opening), open_ms_worst: Math.max(...opening), zoom_frame_ms_median: median(frames), zoom_frame_ms_worst: Math.max(...frames) };
  console.log(JSON.stringify(figures));
});
