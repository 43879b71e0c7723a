// The address space: segments as rows, blocks coloured by site, holes hatched. Hovering a hole names who pins it.
import { kCategories, palette } from '../colours';
import { Canvas, choice, el, section, Tooltip } from '../dom';
import { bytes, count, exactBytes, percent } from '../format';
import { kFloorTitles, type FloorSpace, type Space } from '../head';
import type { Groups } from '../maths/groups';
import { arrange, type Piece } from '../maths/arrange';
import { blocksWithin, holesOf, joined, segmentsOf, type Segment } from '../maths/space';
import type { Names } from '../names';
import type { View } from '../state';
import { swatch } from './timeline';

const kRow = 16;
const kGap = 4;
const kGranule = 2 * 2 ** 20;
const kFloorNumbers = { physical: 1, allocation: 2, framework: 3 } as const;

export class AddressSpace {
  readonly element: HTMLElement;
  private readonly body = el('div');
  private readonly caption = el('p', { class: 'chart-title', 'aria-live': 'polite' });
  private readonly legend = el('ul', { class: 'legend', 'aria-label': 'Colours of the address space' });
  private readonly figures = el('div', { class: 'space-figures' });
  private readonly canvas: Canvas;
  private names: Names | null = null;
  private space: Space | null;
  private figure: FloorSpace | null = null;
  private segments: Segment[] = [];
  private pieces: Piece[] = [];
  private perPixel = 1;
  private arrangedFor = 0;
  private colours = new Map<number, string>();
  private groups: Groups | null = null;

  constructor(private readonly view: View, private readonly tooltip: Tooltip) {
    this.canvas = new Canvas('space', 'Address space', (context) => this.draw(context));
    this.space = view.report.head.spaces[0] ?? null;
    this.element = section('space', 'Address space', this.body);
    this.listen();
  }

  setGroups(groups: Groups): void {
    this.groups = groups;
    if (this.names) void this.load();
  }

  async show(): Promise<void> {
    this.names = await this.view.report.names();
    const { spaces } = this.view.report.head;
    if (!this.space) {
      this.body.replaceChildren(el('p', { class: 'empty' }, 'No address space was recorded. Device allocations would fill this.'));
      return;
    }
    const moments = choice('Moment of the picture', spaces.map(({ name }) => ({ value: name, label: name === 'peak' ? 'At the peak' : 'At the end' })), this.space.name, (name) => {
      this.space = spaces.find((space) => space.name === name)!;
      this.view.setMoment(this.space.moment);
      moments.set(name);
      void this.load();
    });
    this.body.replaceChildren(this.caption, el('div', { class: 'controls' }, moments.element), this.figures, this.canvas.element, this.legend);
    this.view.onChange(() => {
      // Follows the moment as far as pictures go: there is one of the peak and one of the end.
      const nearest = spaces.find((space) => space.moment === this.view.moment);
      if (nearest && nearest !== this.space) {
        this.space = nearest;
        moments.set(nearest.name);
        void this.load();
      }
    });
    await this.load();
  }

  private async load(): Promise<void> {
    const space = this.space;
    if (!space || !this.names) return;
    const device = this.view.current.head.device;
    const mine = space.floors.filter((floor) => floor.device === device || device < 0);
    this.figure = mine.find(({ segments_known }) => segments_known) ?? mine[0] ?? space.floors[0] ?? null;
    const all = segmentsOf(await this.view.report.section(space.section));
    const figure = this.figure;
    const segments = joined(all.filter((segment) => !figure || (segment.device === figure.device && segment.floor === kFloorNumbers[figure.floor])));
    segments.sort((a, b) => a.address - b.address);
    this.segments = segments;
    this.paintSites(segments);
    this.describe(space.segments_left_out);
    this.canvas.element.hidden = segments.length === 0;
    this.arrange();
    this.canvas.redraw();
  }

  private arrange(): void {
    const width = this.body.clientWidth;
    const { pieces, rows, perPixel } = arrange(this.segments, width);
    this.pieces = pieces;
    this.perPixel = perPixel;
    this.arrangedFor = width;
    this.canvas.element.style.height = `${rows * (kRow + kGap)}px`;
  }

  /// The timeline's colours where it shows the same sites, else the largest sites take them in turn.
  private paintSites(segments: Segment[]): void {
    const bytesOf = new Map<string, { bytes: number; nodes: Set<number>; name: string; place: string }>();
    for (const { blocks } of segments) {
      for (const { node, size } of blocks) {
        const { name, place } = this.names!.siteName(node);
        const key = `${name} ${place}`;
        let entry = bytesOf.get(key);
        if (!entry) bytesOf.set(key, (entry = { bytes: 0, nodes: new Set(), name, place }));
        entry.bytes += size;
        entry.nodes.add(node);
      }
    }
    const ranked = [...bytesOf.values()].sort((a, b) => b.bytes - a.bytes);
    const taken = new Map<string, string>();
    if (this.groups?.by === 'site') for (const { name, place, colour } of this.groups.list) if (colour) taken.set(`${name} ${place}`, colour);
    const used = new Set(ranked.map(({ name, place }) => taken.get(`${name} ${place}`)).filter(Boolean));
    const free = kCategories.filter((colour) => !used.has(colour));
    this.colours = new Map();
    const items: HTMLElement[] = [];
    for (const { bytes: size, nodes, name, place } of ranked) {
      const colour = taken.get(`${name} ${place}`) ?? free.shift();
      if (!colour) continue;
      for (const node of nodes) this.colours.set(node, colour);
      items.push(el('li', {}, swatch(colour), el('span', { class: 'name' }, name), el('span', { class: 'place' }, place), el('span', { class: 'number' }, bytes(size))));
    }
    if (ranked.length > items.length) items.push(el('li', {}, swatch(''), el('span', { class: 'name' }, 'other')));
    items.push(el('li', {}, el('span', { class: 'swatch hatched' }), el('span', { class: 'name' }, 'hole')));
    this.legend.replaceChildren(...items);
  }

  private describe(leftOut: number): void {
    const { figure, space } = this;
    const when = space!.name === 'peak' ? 'at the peak' : 'at the end';
    if (!figure) {
      this.caption.textContent = `Nothing is held ${when}.`;
      return;
    }
    const below = figure.floor === 'framework' ? 'segments' : 'mapped ranges';
    this.caption.textContent = figure.segments_known
      ? `${kFloorTitles[figure.floor]} ${when}: ${count(figure.segment_count)} ${below} with the blocks in them, by address; length is bytes, long ones go on in the next row.${leftOut > 0 ? ` ${count(leftOut)} smaller ones are not drawn.` : ''}`
      : `${kFloorTitles[figure.floor]} ${when}: where its segments lie was not recorded, so only the sums are known. A recording with the framework's segments would fill this.`;
    this.canvas.label(this.caption.textContent);
    const idle = figure.held - figure.live;
    const facts: [string, string][] = [
      ['held', bytes(figure.held)], ['live', bytes(figure.live)], ['idle', `${bytes(idle)}, ${percent(idle, figure.held)}`],
      ...(figure.segments_known ? [['of it wholly idle', bytes(figure.wholly_idle_bytes)], ['largest hole', bytes(figure.largest_hole)]] as [string, string][] : []),
    ];
    const pins = figure.pinning_sites.slice(0, 8);
    this.figures.replaceChildren(
      el('dl', { class: 'facts' }, ...facts.map(([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, value)))),
      ...(pins.length === 0 ? [] : [el('table', { class: 'pins' },
        el('caption', {}, 'Who pins idle memory'),
        el('thead', {}, el('tr', {}, ...['Site', 'Idle bytes it pins', 'Freed if it alone let go', 'Its own live bytes', 'Segments'].map((title, i) => el('th', { scope: 'col', class: i > 0 ? 'number' : '' }, title)))),
        el('tbody', {}, ...pins.map((pin) => {
          const { name, place } = this.names!.siteName(pin.node);
          return el('tr', {}, el('th', { scope: 'row' }, swatch(this.colours.get(pin.node) ?? ''), el('span', { class: 'name' }, name), el('span', { class: 'place' }, place)),
            ...[bytes(pin.pinned_idle_bytes), bytes(pin.sole_idle_bytes), bytes(pin.live_bytes), count(pin.segments)].map((text) => el('td', { class: 'number' }, text)));
        })))]));
  }

  private draw(context: CanvasRenderingContext2D): void {
    const colours = palette();
    if (this.arrangedFor !== this.canvas.width && this.canvas.width > 0) this.arrange();
    const hatch = this.hatch(context, colours.muted, colours.paper);
    for (const { segment, row, x, offset, size } of this.pieces) {
      const y = row * (kRow + kGap);
      context.fillStyle = hatch;
      context.fillRect(x, y, Math.max(1, size / this.perPixel), kRow);
      for (const block of blocksWithin(segment, offset, offset + size)) {
        const from = Math.max(block.offset, offset);
        const extent = (Math.min(block.offset + block.size, offset + size) - from) / this.perPixel;
        context.fillStyle = this.colours.get(block.node) ?? colours.other;
        context.fillRect(x + (from - offset) / this.perPixel, y, Math.max(0.5, extent > 3 ? extent - 0.5 : extent), kRow);
      }
      if (kGranule / this.perPixel < 6) continue;
      context.fillStyle = colours.muted;
      for (let at = Math.ceil(offset / kGranule) * kGranule; at < offset + size; at += kGranule) {
        if (at > 0) context.fillRect(x + (at - offset) / this.perPixel, y + kRow, 1, 2);
      }
    }
  }

  private hatch(context: CanvasRenderingContext2D, ink: string, paper: string): CanvasPattern | string {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const brush = tile.getContext('2d');
    if (!brush) return paper;
    brush.fillStyle = paper;
    brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = ink;
    brush.beginPath();
    for (const shift of [-6, 0, 6]) {
      brush.moveTo(shift, 6);
      brush.lineTo(shift + 6, 0);
    }
    brush.stroke();
    return context.createPattern(tile, 'repeat') ?? paper;
  }

  private listen(): void {
    const canvas = this.canvas.element;
    canvas.addEventListener('pointerleave', () => this.tooltip.hide());
    canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top) / (kRow + kGap));
      const left = event.clientX - box.left;
      const piece = this.pieces.find((candidate) => candidate.row === row && left >= candidate.x && left < candidate.x + Math.max(1, candidate.size / this.perPixel));
      if (!piece) return this.tooltip.hide();
      const { segment } = piece;
      const at = piece.offset + (left - piece.x) * this.perPixel;
      const reach = this.perPixel;
      const block = segment.blocks.find(({ offset, size }) => at >= offset && at < offset + Math.max(size, reach));
      const where = el('div', { class: 'muted' }, `segment 0x${segment.address.toString(16)}, ${bytes(segment.size)}, ${percent(segment.live, segment.size)} live`);
      if (block) {
        const { name, place } = this.names!.siteName(block.node);
        this.tooltip.show(event, el('strong', {}, `${name} ${place}`), el('div', {}, `${bytes(block.size)} (${exactBytes(block.size)})`), where);
        return;
      }
      const hole = holesOf(segment).find(({ offset, size }) => at >= offset && at < offset + size);
      if (!hole) return this.tooltip.hide();
      const name = (node: number) => { const site = this.names!.siteName(node); return `${site.name} ${site.place}`.trim(); };
      const keepers = new Set(segment.blocks.map(({ node }) => name(node)));
      const released = keepers.size === 0 ? `Nothing lives here: all ${bytes(segment.size)} could be given back.`
        : keepers.size === 1 ? `Pinned by ${[...keepers][0]} alone: without its ${bytes(segment.live)} all ${bytes(segment.size)} would be released.`
          : `Pinned by ${keepers.size} sites: the segment is released only when all let go.`;
      this.tooltip.show(event, el('strong', {}, `Hole of ${bytes(hole.size)}`),
        el('div', {}, `between ${hole.before ? name(hole.before.node) : 'the segment\'s begin'} and ${hole.after ? name(hole.after.node) : 'its end'}`), el('div', {}, released), where);
    });
  }
}
