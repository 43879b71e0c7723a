// Leaks: for each verdict its numbers, its survival picture and its residue. A leak is a column that never fades.
import { palette } from '../colours';
import { Canvas, el, section } from '../dom';
import { bytes, count, duration, percent } from '../format';
import { accuses, kFloorTitles, type Leak } from '../head';
import { worstFirst } from '../maths/ooms';
import { lateText, oomText, rateWithInterval } from '../maths/verdicts';
import type { Names } from '../names';
import type { View } from '../state';
import { copyText } from './flame';
import { chip } from './sites';

export class Leaks {
  readonly element: HTMLElement;
  private readonly box = el('div', { class: 'leaks' });

  constructor(private readonly view: View) {
    this.element = section('leaks', 'Leaks', this.box);
  }

  async show(): Promise<void> {
    const names = await this.view.report.names();
    const { head } = this.view.report;
    const accused = head.leaks.filter(accuses);
    const open = head.leaks.filter(({ verdict }) => verdict === 'undecided');
    const others = head.leaks.filter((leak) => !accuses(leak) && leak.verdict !== 'undecided');
    this.box.replaceChildren(
      el('p', { class: 'chart-title' }, accused.length > 0
        ? `${accused.length} of ${count(head.sites_judged)} sites judged keep what they allocate. Judged by what survives of what was born, not by the trend of a curve.`
        : head.sites_judged > 0
          ? `None of ${count(head.sites_judged)} sites judged keeps what it allocates.${open.length > 0 ? ' Some could not be decided in this run.' : ''}`
          : 'No site could be judged. A run with repeated work (requests, steps, epochs) would fill this.'),
      ...(lateText(head) ? [el('p', { class: 'muted' }, lateText(head))] : []),
      ...accused.map((leak) => this.verdict(leak, names)),
      ...this.list(open, names, (n) => `Undecided: ${n} site${n > 1 ? 's' : ''}, and what each needs`),
      ...this.list(others, names, (n) => `Looked at and not accused: ${n} site${n > 1 ? 's' : ''}`));
  }

  private verdict(leak: Leak, names: Names): HTMLElement {
    const { name, place } = names.siteName(leak.node);
    const { ground } = this.view.report.head;
    const full = oomText(leak, ground);
    const stack = names.stackText(leak.node);
    const copy = el('button', { type: 'button', onclick: () => void copyText(stack).then(() => { copy.textContent = 'Copied'; }) }, 'Copy stack');
    const facts: [string, string][] = [
      ['left at the end', `${bytes(leak.live_bytes)} in ${count(leak.live_count)} blocks`],
      ['rate', leak.bytes_per_second > 0 ? rateWithInterval(leak, ground) : 'none claimed'],
      ['device full', full ? full.replace('full ', '') : 'not foreseen from this run'],
      ['survive', leak.mature_births > 0 ? `${count(leak.survivors)} of ${count(leak.mature_births)} old enough to judge, ${percent(leak.survivors, leak.mature_births)}` : '—'],
      ['block size', leak.size_low === leak.size_high ? bytes(leak.size_low) : `${bytes(leak.size_low)} to ${bytes(leak.size_high)}`],
      ['floor', kFloorTitles[leak.floor]],
    ];
    return el('article', { class: 'finding' },
      el('h3', {}, chip(leak), ' ', name, ' ', el('span', { class: 'place' }, place), leak.phases.length > 0 ? ` in ${leak.phases.join(' and ')}` : null),
      leak.reason ? el('p', {}, `${leak.reason.charAt(0).toUpperCase()}${leak.reason.slice(1)}.`) : null,
      el('div', { class: 'finding-box' },
        el('dl', { class: 'pairs' }, ...facts.flatMap(([term, value]) => [el('dt', {}, term), el('dd', {}, value)])),
        el('figure', {}, el('figcaption', {}, 'Share still alive, by time of birth (→) and age (↓)'), this.survival(leak, name)),
        el('figure', {}, el('figcaption', {}, `Residue: bytes never freed, by time of birth; ${bytes(leak.group_bytes.reduce((sum, value) => sum + value, 0))} in all`), this.residue(leak, name))),
      el('details', {}, el('summary', {}, 'Stack, innermost frame first'), el('pre', { tabindex: 0 }, stack || 'no stack'), copy));
  }

  private survival(leak: Leak, name: string): HTMLElement {
    const { births, alive } = leak.survival;
    const ages = Math.max(1, ...alive.map((column) => column.length));
    const canvas = new Canvas('survival', `Survival of blocks of ${name}`, (context, { width, height }) => {
      const colours = palette();
      const cell = width / births.length;
      const row = (height - 16) / ages;
      alive.forEach((column, group) => column.forEach((share, age) => {
        context.fillStyle = colours.faint;
        context.fillRect(group * cell, age * row, cell - 1, row - 1);
        context.globalAlpha = share / 1000;
        context.fillStyle = colours.bad;
        context.fillRect(group * cell, age * row, cell - 1, row - 1);
        context.globalAlpha = 1;
      }));
      context.fillStyle = colours.muted;
      context.font = '11px system-ui, sans-serif';
      context.textBaseline = 'bottom';
      context.fillText('born first', 0, height);
      context.textAlign = 'right';
      context.fillText('last', width, height);
      context.fillText(`age ${duration(this.view.report.head.duration_ns / 1e9)}`, width, ages * row - 2);
    });
    return canvas.element;
  }

  private residue(leak: Leak, name: string): HTMLElement {
    const sums: number[] = [];
    leak.group_bytes.reduce((sum, value) => { sums.push(sum + value); return sum + value; }, 0);
    const canvas = new Canvas('residue', `Cumulated residue of ${name}`, (context, { width, height }) => {
      const colours = palette();
      const most = Math.max(1, sums.at(-1) ?? 1);
      const step = width / Math.max(1, sums.length);
      const y = (value: number) => height - 16 - (value / most) * (height - 30);
      context.font = '11px system-ui, sans-serif';
      sums.forEach((sum, i) => {
        context.fillStyle = colours.bad;
        context.globalAlpha = 0.75;
        context.fillRect(i * step, y(sum), step - 2, height - 16 - y(sum));
        context.globalAlpha = 1;
      });
      context.fillStyle = colours.muted;
      context.textBaseline = 'bottom';
      context.fillText('born first', 0, height);
      context.textAlign = 'right';
      context.fillText('last', width, height);
      context.textBaseline = 'top';
      context.fillText(bytes(sums.at(-1) ?? 0), width, 0);
    });
    return canvas.element;
  }

  private list(leaks: Leak[], names: Names, title: (n: number) => string): HTMLElement[] {
    if (leaks.length === 0) return [];
    return [el('details', { class: 'looked-at', open: leaks.length <= 6 }, el('summary', {}, title(leaks.length)),
      el('ul', { class: 'plain' }, ...leaks.map((leak) => {
        const { name, place } = names.siteName(leak.node);
        return el('li', {}, chip(leak), ' ', el('strong', {}, name), ' ', el('span', { class: 'place' }, place), leak.phases.length > 0 ? ` in ${leak.phases.join(' and ')}` : null,
          el('span', { class: 'muted' }, ` ${bytes(leak.live_bytes)} alive at the end${leak.reason ? `; ${leak.reason}` : ''}`));
      })))];
  }
}

/// Every out-of-memory: what was asked for, why it failed, what helps and what does not.
export class Ooms {
  readonly element: HTMLElement;
  private readonly box = el('div', { class: 'leaks' });

  constructor(private readonly view: View) {
    this.element = section('ooms', 'Out of memory', this.box);
  }

  async show(): Promise<void> {
    const names = await this.view.report.names();
    const { head } = this.view.report;
    this.box.replaceChildren(...worstFirst(head.ooms).slice(0, 10).map((oom) => {
      const items = (title: string, list: string[]) => (list.length > 0 ? el('div', {}, el('h4', {}, title), el('ul', {}, ...list.map((text) => el('li', {}, text)))) : null);
      return el('article', { class: 'finding' },
        el('h3', {}, el('span', { class: 'chip bad' }, oom.class.replaceAll('_', ' ') || 'out of memory'), ` ${bytes(oom.request)} refused`, oom.node > 0 ? ` in ${names.title(oom.node)}` : '', oom.phase ? `, in ${oom.phase} ` : ' ',
          el('button', { type: 'button', onclick: () => this.view.setMoment(oom.moment) }, 'Go to the moment')),
        el('div', { class: 'finding-box' }, items('What shows it', oom.evidence), items('What helps', oom.advice), items('What will not help', oom.will_not_help)),
        oom.top_sites.length > 0 ? el('details', {}, el('summary', {}, 'Who held the memory then'),
          el('ul', { class: 'plain' }, ...oom.top_sites.map(({ node, bytes: size, count: blocks }) => el('li', {}, el('strong', {}, names.siteName(node).name), ` ${names.siteName(node).place} `, el('span', { class: 'muted' }, `${bytes(size)} in ${count(blocks)} blocks`))))) : null);
    }), ...(head.ooms.length > 10 ? [el('p', { class: 'muted' }, `${head.ooms.length - 10} more are in cuheap oom.`)] : []));
  }
}
