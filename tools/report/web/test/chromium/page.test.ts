import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytes } from '../../src/format';
import { Browser, cli, cliRun, kShots, plain, sample, settle, showAll, text } from './browser';

let browser: Browser;
let folder: string;
let file: string;

beforeAll(async () => {
  browser = await Browser.start();
  folder = sample('serving', 30000);
  file = join(folder, 'page.html');
});
afterAll(async () => browser.stop());

const size = (value: number) => plain(bytes(value));
const exact = (value: number) => `${new Intl.NumberFormat('en-US').format(value)} bytes`;

async function timelineBox(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  return (await page.locator('.timeline-overlay').boundingBox())!;
}
async function shownRange(page: Page): Promise<[number, number]> {
  const box = page.locator('.timeline-box');
  return [Number(await box.getAttribute('data-from')), Number(await box.getAttribute('data-to'))];
}

describe.each([['light', false, 1400], ['dark', true, 1400], ['narrow', false, 390], ['narrow-dark', true, 390]] as const)('in %s', (name, dark, width) => {
  test('opens from a file, without an error, without a request', async () => {
    const { page, wrong } = await browser.open(file, { dark, width });
    await showAll(page);
    await page.screenshot({ path: join(kShots, `${name}.png`), fullPage: true });
    await page.screenshot({ path: join(kShots, `${name}-first.png`) });
    expect(wrong).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.dataset.ready)).toBe('true');
    await page.close();
  });

  test('nothing is wider than the screen', async () => {
    const { page } = await browser.open(file, { dark, width });
    await showAll(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    await page.close();
  });

  test('every text has a contrast of at least 4.5', async () => {
    const { page } = await browser.open(file, { dark, width });
    const contrasts = await page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const luminance = (name: string) => {
        const colour = style.getPropertyValue(`--${name}`).trim();
        const part = (from: number) => {
          const value = parseInt(colour.slice(from, from + 2), 16) / 255;
          return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        };
        return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
      };
      const pairs = [['ink', 'paper'], ['ink', 'faint'], ['ink', 'bad-faint'], ['muted', 'paper'], ['muted', 'faint'], ['accent', 'paper'], ['accent', 'faint'],
        ['on-accent', 'accent'], ['bad', 'paper'], ['bad', 'bad-faint'], ['ink', 'runtime'], ['ink', 'grid']];
      return pairs.map(([a, b]) => {
        const [low, high] = [luminance(a!), luminance(b!)].sort((x, y) => x - y);
        return { pair: `${a} on ${b}`, contrast: (high! + 0.05) / (low! + 0.05) };
      });
    });
    expect(contrasts.filter(({ contrast }) => contrast < 4.5)).toEqual([]);
    await page.close();
  });
});

describe('figures are those of --json', () => {
  test('floors and sites: peak, end, own maximum, allocations', async () => {
    const summary = cli('summary', folder, '--json');
    const { page } = await browser.open(file);
    await showAll(page);
    const floor = summary.devices[0].floors;
    expect(await text(page, '.card.peak .card-number')).toBe(size(floor.physical.held_peak));
    const wanted = summary.top_sites.filter((site: { floor: string }) => site.floor === 'framework');
    expect(wanted.length).toBeGreaterThan(5);
    for (const site of wanted) {
      const [, name, place] = /^(.*) \((.*)\)$/.exec(site.name)!;
      const row = page.locator('#sites tbody tr', { has: page.locator('.name', { hasText: new RegExp(`^${name!.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`) }) }).filter({ hasText: place! });
      const cells = row.locator('td');
      expect(await cells.nth(0).getAttribute('title')).toBe(exact(site.peak_bytes));
      expect(await cells.nth(1).getAttribute('title')).toBe(exact(site.max_bytes));
      expect(await cells.nth(2).getAttribute('title')).toBe(exact(site.end_bytes));
      expect((await cells.nth(4).textContent())!.replaceAll(/\D/g, '')).toBe(String(site.allocations));
    }
    await page.close();
  });

  test('the flame graph holds the bytes of cuheap flame', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    expect(await text(page, '#flame .chart-title')).toContain(`${size(cli('flame', folder, '--json').total)} live`);
    await page.locator('.bar button', { hasText: 'End' }).click();
    await expect.poll(() => text(page, '#flame .chart-title')).toContain(`${size(cli('flame', folder, '--at', 'end', '--json').total)} live`);
    await page.close();
  });

  test('leaks and fragmentation', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    const { verdicts } = cli('leaks', folder, '--json');
    const accused = verdicts.filter(({ verdict }: { verdict: string }) => ['leak', 'growing_leak', 'accumulates', 'ratchet'].includes(verdict));
    expect(accused.length).toBeGreaterThan(0);
    expect(await page.locator('#leaks article').count()).toBe(accused.length);
    expect(await text(page, '#leaks article')).toContain(`${size(accused[0].live_bytes)} in`);
    expect(await text(page, '#leaks article h3')).toContain('Embedder.__call__');

    const { framework } = cli('frag', folder, '--json').floors;
    const figures = await text(page, '.space-figures .facts');
    expect(figures).toContain(`held${size(framework.held)}`);
    expect(figures).toContain(`live${size(framework.live)}`);
    expect(figures).toContain(`largest hole${size(framework.largest_hole)}`);
    expect(await page.locator('.pins tbody tr').count()).toBe(Math.min(8, framework.pinning_sites.length));
    await page.close();
  });

  test('a window over the whole run counts every allocation', async () => {
    const { allocations } = cli('summary', folder, '--json').devices[0].floors.framework;
    const { page } = await browser.open(file);
    const box = await timelineBox(page);
    await page.mouse.move(box.x + 0.5, box.y + 150);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 0.5, box.y + 150, { steps: 4 });
    await page.mouse.up();
    await expect.poll(async () => (await text(page, '.bar-text')).replaceAll('\u202f', '')).toContain(`in ${allocations} allocations`);
    await page.close();
  });

  test('cuheap report writes the same page', async () => {
    const out = join(folder, 'by-cli.html');
    cliRun('report', folder, '-o', out);
    const { page, wrong } = await browser.open(out);
    expect(wrong).toEqual([]);
    expect(await text(page, '.card.peak .card-number')).toBe(size(cli('summary', folder, '--json').devices[0].floors.physical.held_peak));
    await page.close();
  });
});

describe('the reader\'s hand', () => {
  test('drag chooses a window, everything below follows, double click shows all', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    const box = await timelineBox(page);
    await page.mouse.move(box.x + 0.3 * box.width, box.y + 150);
    await page.mouse.down();
    await page.mouse.move(box.x + 0.6 * box.width, box.y + 150, { steps: 4 });
    await page.mouse.up();
    await expect.poll(() => text(page, '.bar-text')).toContain('fullest moment of a window of');
    expect(await page.locator('#sites thead th', { hasText: 'In the window' }).count()).toBe(1);
    await page.locator('#flame button', { hasText: 'Allocated in the window' }).click();
    await expect.poll(() => text(page, '#flame .chart-title')).toContain('allocated in the window');
    await page.screenshot({ path: join(kShots, 'window.png') });
    await page.evaluate(() => scrollTo(0, 0));
    const again = await timelineBox(page);
    await page.mouse.dblclick(again.x + 0.5 * again.width, again.y + 150);
    await expect.poll(() => text(page, '.bar-text')).not.toContain('window');
    expect(await page.locator('#sites thead th', { hasText: 'In the window' }).count()).toBe(0);
    await page.close();
  });

  test('the wheel zooms around the pointer; the peak stays the peak at every zoom', async () => {
    const { page } = await browser.open(file);
    const box = await timelineBox(page);
    await page.keyboard.press('-');
    const [from, to] = await shownRange(page);
    await page.mouse.move(box.x + 0.25 * box.width, box.y + 150);
    await page.mouse.wheel(0, -200);
    await page.mouse.wheel(0, -200);
    await expect.poll(async () => (await shownRange(page))[1] - (await shownRange(page))[0]).toBeLessThan(0.3 * (to - from));
    const [zoomedFrom, zoomedTo] = await shownRange(page);
    const under = from + 0.25 * (to - from);
    expect(zoomedFrom + 0.25 * (zoomedTo - zoomedFrom)).toBeCloseTo(under, -8);
    await page.keyboard.press('0');
    const peak = cli('summary', folder, '--json').devices[0].floors.framework.peak;
    for (let zoom = 0; zoom < 6; zoom += 1) {
      const [a, b] = await shownRange(page);
      const at = cli('summary', folder, '--json').devices[0].floors.framework.peak_ns;
      await page.mouse.move(box.x + ((at - a) / (b - a)) * box.width, box.y + 150);
      await expect.poll(async () => plain(await page.locator('.tooltip strong').textContent() ?? '')).toContain(size(peak));
      await page.keyboard.press('+');
      await settle(page);
    }
    await page.close();
  });

  test('a click chooses the moment, arrow keys move it, buttons go to peak and end', async () => {
    const { page } = await browser.open(file);
    const start = await text(page, '.bar-text');
    expect(start).toContain('(peak');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, '.bar-text')).not.toBe(start);
    await page.keyboard.press('ArrowLeft');
    const box = await timelineBox(page);
    await page.mouse.click(box.x + 0.9 * box.width, box.y + 150);
    await expect.poll(() => text(page, '.bar-text')).not.toContain('(peak');
    await page.locator('.bar button', { hasText: 'End' }).click();
    await expect.poll(() => text(page, '.bar-text')).toContain('(end)');
    await page.locator('.bar button', { hasText: 'Peak' }).click();
    await expect.poll(() => text(page, '.bar-text')).toBe(start);
    await page.close();
  });

  test('/ searches frames: hits are summed, the table is filtered, Escape clears', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    const all = await page.locator('#sites tbody tr').count();
    await page.keyboard.press('/');
    await page.keyboard.type('session.py');
    const leak = cli('summary', folder, '--json').top_sites.find(({ name }: { name: string }) => name.startsWith('Embedder'));
    await expect.poll(() => text(page, '#flame .found')).toContain(size(leak.peak_bytes));
    expect(await page.locator('#sites tbody tr').count()).toBe(1);
    await page.screenshot({ path: join(kShots, 'search.png') });
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('#sites tbody tr').count()).toBe(all);
    await page.keyboard.press('/');
    await page.keyboard.type('no such frame');
    await expect.poll(() => text(page, '#sites .chart-title')).toContain('No site has a frame');
    await page.close();
  });

  test('the table sorts by every column, both ways', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    const header = page.locator('#sites thead th', { hasText: 'Allocations' });
    const numbers = async () => (await page.locator('#sites tbody tr td:nth-child(6)').allTextContents()).map((cell) => Number(cell.replaceAll(/\D/g, '')));
    await header.locator('button').click();
    expect(await header.getAttribute('aria-sort')).toBe('descending');
    expect(await numbers()).toEqual([...(await numbers())].sort((a, b) => b - a));
    await page.locator('#sites thead th', { hasText: 'Allocations' }).locator('button').click();
    expect(await numbers()).toEqual([...(await numbers())].sort((a, b) => a - b));
    await page.locator('#sites thead th', { hasText: 'Site' }).locator('button').click();
    const names = await page.locator('#sites tbody .name').allTextContents();
    expect(names).toEqual([...names].sort((a, b) => a.localeCompare(b)));
    await page.close();
  });

  test('a row opens by keyboard into its series and its stack; arrows walk the rows', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    await page.locator('#sites .row-name').first().focus();
    await page.keyboard.press('Enter');
    expect(await page.locator('#sites .details pre').count()).toBe(1);
    expect(await text(page, '#sites .details pre')).toContain('/srv/app/model.py:22');
    await page.keyboard.press('ArrowDown');
    expect(await page.evaluate(() => document.activeElement?.textContent)).not.toBe(await page.locator('#sites .row-name').first().textContent());
    await page.screenshot({ path: join(kShots, 'row.png') });
    await page.close();
  });

  test('f folds runtime frames; a click zooms into a frame and its stack can be copied', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    await page.evaluate(() => document.getElementById('flame')!.scrollIntoView());
    const fold = page.locator('#flame button', { hasText: 'Fold runtime frames' });
    expect(await fold.getAttribute('aria-pressed')).toBe('true');
    const folded = (await page.locator('canvas.flame').boundingBox())!.height;
    await page.keyboard.press('f');
    await expect.poll(async () => (await page.locator('canvas.flame').boundingBox())!.height).toBeGreaterThan(folded);
    expect(await fold.getAttribute('aria-pressed')).toBe('false');
    await page.keyboard.press('f');
    const back = page.locator('#flame button', { hasText: 'Zoom out' });
    expect(await back.isDisabled()).toBe(true);
    await settle(page);
    await page.locator('canvas.flame').click({ position: { x: 30, y: 55 } });
    await expect.poll(() => back.isDisabled()).toBe(false);
    await page.locator('#flame button', { hasText: 'Copy stack' }).click();
    await expect.poll(() => page.locator('#flame button', { hasText: 'Copied' }).count()).toBe(1);
    await back.click();
    await expect.poll(() => back.isDisabled()).toBe(true);
    await page.close();
  });

  test('another floor, another device: titles and table follow', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    await page.locator('#timeline button', { hasText: 'CUDA allocations' }).click();
    await expect.poll(() => text(page, '#timeline .chart-title')).toContain('CUDA allocations');
    await page.locator('#timeline button', { hasText: 'Host' }).click();
    await expect.poll(() => text(page, '#timeline .chart-title')).toContain('host memory');
    await expect.poll(() => text(page, '#sites tbody')).toContain('ext::StagingBuffer::grow');
    await page.close();
  });

  test('a card leads to its proof', async () => {
    const { page } = await browser.open(file);
    await page.locator('.card.leak').click();
    await expect.poll(() => page.evaluate(() => Math.abs(document.getElementById('leaks')!.getBoundingClientRect().top) < 400)).toBe(true);
    await page.close();
  });

  test('a hole names who pins it', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    await page.evaluate(() => document.querySelector('canvas.space')!.scrollIntoView({ block: 'end' }));
    await settle(page);
    const seen = await page.evaluate(() => {
      const canvas = document.querySelector('canvas.space')!;
      const tooltip = document.querySelector<HTMLElement>('.tooltip')!;
      const box = canvas.getBoundingClientRect();
      const found = new Set<string>();
      for (let y = 8; y < box.height; y += 20) {
        for (let x = 1; x < box.width; x += 2) {
          canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
          const words = tooltip.hidden ? '' : tooltip.textContent ?? '';
          if (words.startsWith('Hole of')) found.add(/Pinned by|Nothing lives here/.exec(words)?.[0] ?? words);
        }
      }
      return [...found];
    });
    expect(seen.sort()).toEqual(['Nothing lives here', 'Pinned by']);
    await page.close();
  });

  test('? opens the help, Escape closes it', async () => {
    const { page } = await browser.open(file);
    await page.keyboard.press('?');
    await expect.poll(() => page.locator('dialog[open]').count()).toBe(1);
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('dialog[open]').count()).toBe(0);
    await page.close();
  });

  test('every button has a name', async () => {
    const { page } = await browser.open(file);
    await showAll(page);
    expect(await page.locator('button').evaluateAll((buttons) => buttons.filter((button) => !(button.getAttribute('aria-label') ?? button.textContent ?? '').trim()).length)).toBe(0);
    await page.close();
  });
});

test('on paper there are verdicts, timeline and top sites', async () => {
  const { page } = await browser.open(file);
  await showAll(page);
  await page.emulateMedia({ media: 'print' });
  expect(await page.locator('#flame').isVisible()).toBe(false);
  for (const id of ['#verdicts', '#timeline', '#sites']) expect(await page.locator(id).isVisible()).toBe(true);
  await page.screenshot({ path: join(kShots, 'print.png'), fullPage: true });
  await page.close();
});

test('an empty recording says what would fill the page', async () => {
  const { page, wrong } = await browser.open(join(sample('empty', 0), 'page.html'));
  expect(await text(page, '#verdicts')).toContain('would fill this page');
  expect(wrong).toEqual([]);
  await page.screenshot({ path: join(kShots, 'empty.png') });
  await page.close();
});

test('losses stand in the head, in red', async () => {
  const lossy = join(folder, 'lossy.html');
  writeFileSync(lossy, readFileSync(file, 'utf8').replace('"loss":{"events":0,"reasons":[]}', '"loss":{"events":12,"reasons":["the disk was full"]}'));
  const { page } = await browser.open(lossy);
  expect(await text(page, '.loss')).toContain('12 events lost');
  expect(await text(page, '.loss')).toContain('the disk was full');
  await page.close();
});

test('a damaged page says so instead of showing wrong figures', async () => {
  const damaged = join(folder, 'damaged.html');
  writeFileSync(damaged, readFileSync(file, 'utf8').replace(/(id="cuheap-moments">)[^<]{40}/, '$1'));
  const { page } = await browser.open(damaged);
  expect(await text(page, '.loss')).toContain('cannot be shown');
  await page.close();
});
