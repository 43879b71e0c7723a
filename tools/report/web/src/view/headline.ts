// The head line and the verdict cards: the answer, before anything else is read.
import { palette, withAlpha } from '../colours';
import { Canvas, el, section } from '../dom';
import { count, duration, offset, wallClock, wallDate } from '../format';
import type { Head } from '../head';
import { largestGroup } from '../maths/groups';
import { peakTrack, verdictCards, type Card, type TopSite } from '../maths/verdicts';
import { Names } from '../names';
import { Track } from '../report';
import type { View } from '../state';

const kGrounds: Record<Head['ground'], { label: string; title: string }> = {
  simulated: { label: 'simulated', title: 'Recorded on the make-believe GPU: sizes and order are real, speed is not' },
  gpu: { label: 'GPU', title: 'Recorded on a real GPU' },
  imported: { label: 'imported', title: 'Read from another tool\'s recording: what that did not record is not here' },
};

export function headLine(head: Head): HTMLElement {
  const process = head.processes[0];
  const meta = process?.meta ?? {};
  const command = meta.command || head.trace;
  const ground = kGrounds[head.ground];
  const facts: [string, string | undefined][] = [
    ['host', meta.host],
    ['device', [...new Set(head.devices.map(({ name }) => name).filter(Boolean))].join(', ') + (head.devices.length > 1 ? ` × ${head.devices.length}` : '')],
    ['duration', duration(head.duration_ns / 1e9)],
    ['processes', head.processes.length > 1 ? String(head.processes.length) : undefined],
    ['events', count(head.events)],
    ['torch', meta.torch],
    ['driver', meta.driver],
    ['began', head.start_wall_ms > 0 ? wallDate(head.start_wall_ms) : undefined],
  ];
  const lost = head.loss.events > 0 || head.loss.reasons.length > 0;
  return el('header', { class: 'headline' },
    el('h1', { title: command }, command),
    el('dl', { class: 'facts' },
      el('div', {}, el('dt', { class: 'offscreen' }, 'ground'), el('dd', { class: `badge ${head.ground}`, title: ground.title }, ground.label)),
      ...facts.filter(([, value]) => value).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value!)))),
    lost && el('p', { class: 'loss', role: 'alert' },
      el('strong', {}, head.loss.events > 0 ? `${count(head.loss.events)} events lost: figures are lower bounds. ` : 'This recording is damaged. '),
      head.loss.reasons.join('; ')),
    process && !process.ended_orderly && head.ground !== 'imported' && el('p', { class: 'notice' }, 'The process did not end in an orderly way; the recording reaches to its last event.'));
}

export class Verdicts {
  readonly element: HTMLElement;
  private readonly grid = el('div', { class: 'cards' });

  constructor(private readonly view: View, private readonly open: (card: Card) => void) {
    this.element = section('verdicts', 'Verdicts', this.grid);
    this.element.querySelector('h2')!.classList.add('offscreen');
  }

  async show(): Promise<void> {
    const { report, times } = this.view;
    const names: Names = await report.names();
    const { head } = report;
    const cards = verdictCards(head,
      (node) => names.title(node),
      (moment) => (head.start_wall_ms > 0 ? wallClock(head.start_wall_ms + times[moment]! / 1e6) : offset(times[moment]!, head.duration_ns)),
      await this.topSite(names));
    this.grid.replaceChildren(...cards.map((card) => this.card(card)));
    await Promise.all(cards.map((card, i) => this.sparkline(card, this.grid.children[i] as HTMLElement)));
  }

  /// What held most when the device held most, on the floor that the program itself allocates on.
  private async topSite(names: Names): Promise<TopSite | undefined> {
    const { report } = this.view;
    const { head } = report;
    const number = head.tracks.findIndex(({ device, floor }) => device === peakTrack(head)?.device && floor === head.top_floor);
    if (number < 0) return undefined;
    const [track, sites] = await Promise.all([report.track(number), report.sites(number)]);
    const largest = largestGroup(sites, names, head.peak_moment);
    return largest && { ...largest, live: track.live[head.peak_moment]! };
  }

  private card(card: Card): HTMLElement {
    return el('button', { type: 'button', class: `card ${card.bad ? 'bad' : ''} ${card.kind}`, onclick: () => this.open(card) },
      el('span', { class: 'card-label' }, card.label),
      el('span', { class: 'card-number' }, card.number, card.unit ? el('span', { class: 'card-unit' }, ` ${card.unit}`) : null),
      el('span', { class: 'card-sentence' }, card.sentence));
  }

  private async sparkline(card: Card, element: HTMLElement): Promise<void> {
    const { report, times } = this.view;
    if (card.track === undefined) return;
    const track: Track = await report.track(card.track);
    let values = track.live;
    let high = (from: number, to: number) => track.level.max(from, to);
    if (card.leak !== undefined) {
      // The leaking site's own bytes, not the whole floor in which they drown.
      const sites = await report.sites(card.track);
      const site = sites.node.indexOf(report.head.leaks[card.leak]!.node);
      if (site < 0) return;
      values = new Float64Array(times.length);
      sites.addTo(values, site);
      high = (from, to) => values.subarray(from, to + 1).reduce((most, value) => Math.max(most, value), 0);
    }
    const whole = high(0, values.length - 1);
    const canvas = new Canvas('spark', '', (context, { width, height }) => {
      const colours = palette();
      const colour = card.bad ? colours.bad : colours.accent;
      const end = Math.max(1, times.at(-1)!);
      context.beginPath();
      context.moveTo(0, height);
      let moment = 0;
      let y = height;
      for (let x = 0; x < width; x += 1) {
        const from = moment;
        while (moment + 1 < times.length && times[moment + 1]! <= ((x + 1) / width) * end) moment += 1;
        y = height - 1 - (high(from, moment) / Math.max(1, whole)) * (height - 4);
        context.lineTo(x, y);
      }
      context.lineTo(width, y);
      context.lineTo(width, height);
      context.fillStyle = withAlpha(colour, 0.22);
      context.fill();
    });
    canvas.element.setAttribute('aria-hidden', 'true');
    element.append(canvas.element);
  }
}
