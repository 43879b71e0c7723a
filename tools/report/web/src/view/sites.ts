// The sites, one table: what each holds at the moment, at its peak and at the end; a row opens into its series and its stack.
import { palette, withAlpha } from '../colours';
import { Canvas, el, section } from '../dom';
import { bytes, count, duration, exactBytes, signedBytes } from '../format';
import { kVerdictWords, accuses, type Leak } from '../head';
import type { Groups } from '../maths/groups';
import type { Sites } from '../maths/sites';
import type { Names } from '../names';
import type { View } from '../state';
import { copyText } from './flame';
import { swatch } from './timeline';

type Key = 'name' | 'now' | 'peak' | 'end' | 'change' | 'count' | 'allocations' | 'life';

interface Row {
  site: number;
  node: number;
  name: string;
  place: string;
  now: number;
  peak: number;
  end: number;
  change: number;
  count: number;
  allocations: number;
  life: number;
  leak: Leak | undefined;
}

const kFirstRows = 25;
const kMoreRows = 200;

const kColumns: { key: Key; title: string; hint: string }[] = [
  { key: 'name', title: 'Site', hint: 'Deepest frame of the program\'s own code' },
  { key: 'now', title: 'At the moment', hint: 'Bytes live at the moment chosen above' },
  { key: 'change', title: 'In the window', hint: 'Bytes live at the end of the window less those at its begin' },
  { key: 'peak', title: 'Own peak', hint: 'Most bytes this site ever held' },
  { key: 'end', title: 'At the end', hint: 'Bytes live when the recording ended' },
  { key: 'count', title: 'Blocks', hint: 'Blocks live at the moment' },
  { key: 'allocations', title: 'Allocations', hint: 'Over the whole run' },
  { key: 'life', title: 'Median life', hint: 'Of the blocks that were freed, within 10 %' },
];

export class SiteTable {
  readonly element: HTMLElement;
  private readonly caption = el('p', { class: 'chart-title', 'aria-live': 'polite' });
  private readonly head = el('tr');
  private readonly body = el('tbody');
  private readonly more = el('button', { type: 'button', hidden: true, onclick: () => { this.limit += kMoreRows; this.render(); } });
  private readonly table: HTMLTableElement;
  private sortBy: Key = 'now';
  private falling = true;
  private limit = kFirstRows;
  private rows: Row[] = [];
  private openNodes = new Set<number>();
  private names: Names | null = null;
  private sites: Sites | null = null;
  private groups: Groups | null = null;
  private ready = false;

  constructor(private readonly view: View) {
    this.table = el('table', { class: 'sites' }, el('thead', {}, this.head), this.body);
    this.element = section('sites', 'Sites', this.caption, el('div', { class: 'scroll', tabindex: -1 }, this.table), this.more);
    this.body.addEventListener('keydown', (event) => this.onKey(event));
    view.onChange(() => { if (this.ready) void this.update(); });
  }

  async show(): Promise<void> {
    this.ready = true;
    this.names = await this.view.report.names();
    await this.update();
  }

  setGroups(groups: Groups): void {
    this.groups = groups;
    if (this.ready) void this.update();
  }

  private async update(): Promise<void> {
    const { view } = this;
    const track = view.track;
    this.sites = await view.report.sites(track);
    if (track !== view.track || !this.names) return;
    const wanted = view.search.trim().toLowerCase();
    this.rows = [];
    for (let site = 0; site < this.sites.length; site += 1) {
      const node = this.sites.node[site]!;
      if (wanted && !this.names.stack(node).some((frame) => this.names!.matches(frame, wanted))) continue;
      this.rows.push(this.row(site, node));
    }
    this.render();
  }

  private row(site: number, node: number): Row {
    const { view } = this;
    const sites = this.sites!;
    const now = sites.at(site, view.moment);
    const window = view.windowMoments();
    const { head } = view.current;
    return {
      site, node, ...this.names!.siteName(node),
      now: now.live, count: now.count,
      change: window ? sites.change(site, window[0], window[1]).live : 0,
      peak: sites.peak[site]!, end: sites.liveAt(site, view.times.length - 1),
      allocations: sites.allocations[site]!, life: sites.lifeNs[site]!,
      leak: view.report.head.leaks.find((leak) => leak.node === node && leak.floor === head.floor && leak.device === head.device),
    };
  }

  private render(): void {
    const columns = kColumns.filter(({ key }) => key !== 'change' || this.view.window !== null);
    if (!columns.some(({ key }) => key === this.sortBy)) this.sortBy = 'now';
    this.head.replaceChildren(...columns.map(({ key, title, hint }) => {
      const sorted = key === this.sortBy;
      return el('th', { scope: 'col', class: key === 'name' ? '' : 'number', 'aria-sort': sorted ? (this.falling ? 'descending' : 'ascending') : 'none' },
        el('button', { type: 'button', title: hint, onclick: () => this.sort(key) }, title, sorted ? (this.falling ? ' ↓' : ' ↑') : ''));
    }), el('th', { scope: 'col' }, 'Verdict'));

    const key = this.sortBy;
    const order = (a: Row, b: Row) => (key === 'name' ? a.name.localeCompare(b.name) : (a[key] as number) - (b[key] as number));
    this.rows.sort((a, b) => (this.falling ? -order(a, b) : order(a, b)) || a.site - b.site);
    const focused = (document.activeElement?.closest('tr') as HTMLElement | null)?.dataset.node;
    this.body.replaceChildren(...this.rows.slice(0, this.limit).flatMap((row) => this.tableRows(row, columns.map((column) => column.key))));
    if (focused) this.body.querySelector<HTMLElement>(`tr[data-node="${focused}"] button`)?.focus({ preventScroll: true });
    const left = this.rows.length - this.limit;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(left, kMoreRows)} more of ${count(this.rows.length)}`;
    this.caption.textContent = this.rows.length === 0
      ? (this.view.search ? `No site has a frame that matches “${this.view.search}”. Another word, or none, would fill this.` : 'No site allocated on this floor. Another floor, chosen at the timeline, may have some.')
      : `${count(this.rows.length)} sites${this.view.search ? ` with “${this.view.search}” in their stack` : ''}, one for each distinct call stack; sizes in bytes of this floor.${this.view.report.head.python_note ? ` ${this.view.report.head.python_note}.` : ''}`;
    this.table.hidden = this.rows.length === 0;
  }

  private sort(key: Key): void {
    this.falling = key === this.sortBy ? !this.falling : key !== 'name';
    this.sortBy = key;
    this.render();
  }

  private tableRows(row: Row, keys: Key[]): HTMLElement[] {
    const open = this.openNodes.has(row.node);
    const group = this.groups && this.groups.by === 'site' ? this.groups.list[this.groups.ofSite[row.site]!] : undefined;
    const cells: Record<Key, () => HTMLElement> = {
      name: () => el('th', { scope: 'row' },
        el('button', { type: 'button', class: 'row-name', 'aria-expanded': String(open), title: 'Its series and its stack', onclick: () => this.toggle(row.node) },
          swatch(group?.colour ?? ''), el('span', { class: 'name' }, row.name), el('span', { class: 'place' }, row.place))),
      now: () => sizeCell(row.now, this.rows[0] ? Math.max(...this.rows.slice(0, 200).map(({ now }) => now)) : 0),
      change: () => numberCell(row.change === 0 ? '0' : signedBytes(row.change), exactBytes(row.change)),
      peak: () => numberCell(bytes(row.peak), exactBytes(row.peak)),
      end: () => numberCell(bytes(row.end), exactBytes(row.end)),
      count: () => numberCell(count(row.count)),
      allocations: () => numberCell(count(row.allocations)),
      life: () => numberCell(row.life > 0 ? duration(row.life / 1e9) : 'never freed'),
    };
    const line = el('tr', { 'data-node': row.node, class: open ? 'open' : '' }, ...keys.map((key) => cells[key]()), el('td', {}, row.leak ? chip(row.leak) : null));
    return open ? [line, this.details(row, keys.length + 1)] : [line];
  }

  private toggle(node: number): void {
    if (!this.openNodes.delete(node)) this.openNodes.add(node);
    this.render();
  }

  private details(row: Row, span: number): HTMLElement {
    const { times } = this.view;
    const { moments, live } = this.sites!.series(row.site);
    const chart = new Canvas('series', `${row.name}: bytes over time, at most ${bytes(row.peak)}`, (context, { width, height }) => {
      const colours = palette();
      const end = Math.max(1, times.at(-1)!);
      const y = (value: number) => height - 1 - (value / Math.max(1, row.peak)) * (height - 14);
      context.beginPath();
      context.moveTo(0, y(0));
      let last = 0;
      for (let i = 0; i < moments.length; i += 1) {
        const x = (times[moments[i]!]! / end) * width;
        context.lineTo(x, y(last));
        last = live[i]!;
        context.lineTo(x, y(last));
      }
      context.lineTo(width, y(last));
      context.strokeStyle = colours.accent;
      context.stroke();
      context.lineTo(width, y(0));
      context.fillStyle = withAlpha(colours.accent, 0.2);
      context.fill();
      context.fillStyle = colours.muted;
      context.font = '11px system-ui, sans-serif';
      context.fillText(bytes(row.peak), 0, 9);
    });
    const stack = this.names!.stackText(row.node);
    const copy = el('button', { type: 'button', onclick: () => void copyText(stack).then(() => { copy.textContent = 'Copied'; }) }, 'Copy stack');
    return el('tr', { class: 'details' }, el('td', { colspan: span },
      el('div', { class: 'detail-box' },
        el('div', {}, el('p', { class: 'chart-title' }, 'Bytes of this site over the run'), chart.element,
          el('p', { class: 'muted' }, `${count(row.allocations)} allocations, ${bytes(this.sites!.allocated[row.site]!)} in all; ${count(this.sites!.frees[row.site]!)} freed.`),
          row.leak && el('p', {}, el('strong', {}, `${kVerdictWords[row.leak.verdict]}. `), row.leak.reason)),
        el('div', {}, el('p', { class: 'chart-title' }, 'Its stack, innermost frame first'), el('pre', { tabindex: 0 }, stack || 'no stack'), copy))));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    const names = [...this.body.querySelectorAll<HTMLElement>('button.row-name')];
    const at = names.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    names[Math.min(names.length - 1, Math.max(0, at + (event.key === 'ArrowDown' ? 1 : -1)))]!.focus();
  }
}

export function chip(leak: Leak): HTMLElement {
  return el('span', { class: `chip ${accuses(leak) ? 'bad' : ''}`, title: leak.reason }, kVerdictWords[leak.verdict]);
}

function numberCell(text: string, title?: string): HTMLElement {
  return el('td', { class: 'number', title }, text);
}

function sizeCell(value: number, most: number): HTMLElement {
  const bar = el('span', { class: 'bar-fill', 'aria-hidden': 'true' });
  bar.style.width = `${most > 0 ? (100 * value) / most : 0}%`;
  return el('td', { class: 'number size', title: exactBytes(value) }, bar, el('span', {}, bytes(value)));
}
