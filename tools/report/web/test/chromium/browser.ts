// A real browser without a network, and reports to open in it. The build says where the sample and the command line are.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext, type Page } from 'playwright-core';

function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests by ctest -R page_chromium`);
  return value;
}

export const kShots = join(given('CUHEAP_PAGE_BUILD'), 'screenshots');

/// Folder with 4242.cuheap and page.html.
export function sample(kind: 'serving' | 'empty', events: number): string {
  const folder = join(given('CUHEAP_PAGE_BUILD'), `${kind}-${events}`);
  rmSync(folder, { recursive: true, force: true });
  execFileSync(given('CUHEAP_PAGE_SAMPLE'), [kind, String(events), folder]);
  return folder;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export function cli(...words: string[]): any {
  return JSON.parse(execFileSync(given('CUHEAP_CLI'), words, { encoding: 'utf8', maxBuffer: 2 ** 28 }));
}

export function cliRun(...words: string[]): void {
  execFileSync(given('CUHEAP_CLI'), words, { encoding: 'utf8' });
}

const kBrowsers = [process.env.CUHEAP_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export class Browser {
  private constructor(private readonly context: BrowserContext, private readonly profile: string) {}

  static async start(): Promise<Browser> {
    mkdirSync(kShots, { recursive: true });
    const path = kBrowsers.find((candidate) => candidate && existsSync(candidate));
    if (!path) throw new Error('no Chromium here (setup/chromium fetches one); or set CUHEAP_CHROMIUM');
    const profile = mkdtempSync(join(tmpdir(), 'cuheap-chromium-'));
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: path,
      viewport: { width: 1400, height: 900 },
      args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
    return new Browser(context, profile);
  }

  /// Opens a file and collects everything that should not be.
  async open(file: string, options: { dark?: boolean; width?: number } = {}): Promise<{ page: Page; wrong: string[] }> {
    const page = await this.context.newPage();
    const wrong: string[] = [];
    page.on('console', (message) => { if (message.type() === 'error' || message.type() === 'warning') wrong.push(`console: ${message.text()}`); });
    page.on('pageerror', (error) => wrong.push(`exception: ${error.message}`));
    page.on('request', (request) => { if (!request.url().startsWith('file://') && !request.url().startsWith('data:')) wrong.push(`request: ${request.url()}`); });
    await page.setViewportSize({ width: options.width ?? 1400, height: 900 });
    await page.emulateMedia({ colorScheme: options.dark ? 'dark' : 'light', reducedMotion: 'reduce' });
    await page.goto(`file://${file}`);
    await page.waitForFunction(() => document.documentElement.dataset.ready !== undefined);
    return { page, wrong };
  }

  async stop(): Promise<void> {
    await this.context.close();
    rmSync(this.profile, { recursive: true, force: true });
  }
}

/// Scrolls through, so that what loads late is there.
export async function showAll(page: Page): Promise<void> {
  for (const id of ['flame', 'sites', 'leaks', 'ooms', 'space', 'about']) {
    await page.evaluate((name) => document.getElementById(name)?.scrollIntoView(), id);
    await page.waitForTimeout(60);
  }
  await page.waitForSelector('#sites tbody tr', { state: 'attached' });
  await page.waitForSelector('#space .space-figures dd', { state: 'attached' });
  await page.evaluate(() => scrollTo(0, 0));
  await settle(page);
}

/// Two frames: canvases are drawn with the next one.
export async function settle(page: Page): Promise<void> {
  await page.evaluate(() => new Promise<void>((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));
}

/// Text as a reader sees it, ties between numbers and units as spaces.
export async function text(page: Page, selector: string): Promise<string> {
  return plain((await page.locator(selector).first().textContent()) ?? '');
}

export function plain(words: string): string {
  return words.replaceAll('\u00a0', ' ');
}
