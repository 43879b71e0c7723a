// The timeline: one floor as stacked areas, the other floors as lines over it. In each column of pixels the fullest moment
// is drawn, so a peak never disappears; the lowest one is drawn as a line.
import { inkOn, kCategories, palette, withAlpha, type Palette } from '../colours';
import { Canvas, choice, el, section, Tooltip } from '../dom';
import { bytes, byteTicks, driverTitle, offset, timeTicks, wallClock } from '../format';
import { kFloorHints, kFloorTitles, type FloorName } from '../head';
import { group, type GroupBy, type Groups } from '../maths/groups';
import { firstRange } from '../maths/range';
import { momentAt, type DriverSamples, type Track } from '../report';
import type { View } from '../state';

const kAxis = 24;         // height of the time axis
const kBand = 16;         // height of a phase
const kMostBands = 3;
const kFlags = 16;        // height of the marks' row
const kFloorOrder: FloorName[] = ['framework', 'allocation', 'physical'];
const kDashes: Record<FloorName, number[]> = { physical: [], allocation: [6, 3], framework: [2, 3] };

export class Timeline {
  readonly element: HTMLElement;
  private readonly base: Canvas;
  private readonly overlay: Canvas;
  private readonly legend = el('ul', { class: 'legend', 'aria-label': 'Colours of the timeline, with the bytes at the moment' });
  private readonly title = el('p', { class: 'chart-title' });
  private range: [number, number];
  private by: GroupBy = 'site';
  groups: Groups | null = null;
  private lines: Track[] = [];
  private driver: DriverSamples | null = null;
  private drag: { from: number; to: number } | null = null;
  private hover: number | null = null;
  private shown = -1;
  private readonly onGroups: ((groups: Groups) => void)[] = [];

  constructor(private readonly view: View, private readonly tooltip: Tooltip) {
    const { head } = view.report;
    this.range = firstRange(head, this.duration);
    this.base = new Canvas('timeline-base', 'Memory over time', (context) => this.drawBase(context));
    this.overlay = new Canvas('timeline-overlay', '', (context) => this.drawOverlay(context));
    this.overlay.element.setAttribute('aria-hidden', 'true');

    const devices = [...new Set(head.tracks.map((track) => track.device))].sort((a, b) => (a < 0 ? 1 : 0) - (b < 0 ? 1 : 0) || a - b);
    const tracks = choice('Floor', this.floorOptions(view.current.head.device), view.track, (track) => void view.choose(track));
    const floorBox = el('div', {}, tracks.element);
    let floors = tracks;
    const deviceChoice = choice('Device', devices.map((device) => ({ value: device, label: device < 0 ? 'Host' : `Device ${device}` })), view.current.head.device, (device) => {
      const options = this.floorOptions(device);
      const same = options.find(({ value }) => head.tracks[value]!.floor === view.current.head.floor);
      void view.choose((same ?? options[0]!).value);
    });
    let device = view.current.head.device;
    view.onChange(() => {
      if (view.current.head.device !== device) {
        device = view.current.head.device;
        floors = choice('Floor', this.floorOptions(device), view.track, (track) => void view.choose(track));
        floorBox.replaceChildren(floors.element);
      }
      floors.set(view.track);
      deviceChoice.set(device);
    });
    const groupChoice = choice<GroupBy>('Colour by', [{ value: 'site', label: 'By site' }, { value: 'module', label: 'By module' }], this.by, (by) => {
      this.by = by;
      groupChoice.set(by);
      void this.load();
    });
    const zoom = el('div', { class: 'choice', role: 'group', 'aria-label': 'Zoom' },
      el('button', { type: 'button', 'aria-label': 'Zoom in', title: 'Zoom in (+)', onclick: () => this.zoom(0.5) }, '+'),
      el('button', { type: 'button', 'aria-label': 'Zoom out', title: 'Zoom out (-)', onclick: () => this.zoom(2) }, '−'),
      el('button', { type: 'button', title: 'Show the whole run (double click)', onclick: () => this.showAll() }, 'All'));

    this.element = section('timeline', 'Timeline',
      this.title,
      el('div', { class: 'controls' }, devices.length > 1 && deviceChoice.element, floorBox, groupChoice.element, zoom),
      el('div', { class: 'timeline-box', tabindex: 0, 'aria-label': 'Timeline. Arrow keys move the moment, plus and minus zoom.' }, this.base.element, this.overlay.element),
      this.legend);
    this.listen();
    view.onChange(() => {
      if (this.shown !== view.track) void this.load();
      this.overlay.redraw();
      this.updateLegend();
    });
  }

  whenGrouped(listener: (groups: Groups) => void): void {
    this.onGroups.push(listener);
    if (this.groups) listener(this.groups);
  }

  get duration(): number {
    return Math.max(1, this.view.report.head.duration_ns, this.view.times.at(-1) ?? 0);
  }

  private whole(): [number, number] {
    return [0, this.duration];
  }

  private floorOptions(device: number) {
    return kFloorOrder
      .map((floor) => ({ value: this.view.report.trackNumber(device, floor), label: kFloorTitles[floor], title: kFloorHints[floor] }))
      .filter(({ value }) => value >= 0);
  }

  async load(): Promise<void> {
    const { view } = this;
    const { report } = view;
    const track = view.current;
    this.shown = track.number;
    const others = report.head.tracks.map((_, i) => i).filter((i) => i !== track.number && report.head.tracks[i]!.device === track.head.device);
    this.lines = await Promise.all(others.map((i) => report.track(i)));
    this.driver = track.head.device >= 0 ? await report.driver(track.head.device) : null;
    this.base.redraw();  // the outline at once; colours follow
    const [sites, names] = await Promise.all([report.sites(track.number), report.names()]);
    if (this.shown !== track.number) return;
    this.groups = group(track, sites, names, this.by);
    for (const listener of this.onGroups) listener(this.groups);
    this.describe();
    this.base.redraw();
    this.overlay.redraw();
    this.updateLegend();
  }

  private describe(): void {
    const { head } = this.view.current;
    const device = this.view.report.head.devices.find((entry) => entry.device === head.device);
    const where = head.device < 0 ? 'host memory' : device?.name ? `device ${head.device} (${device.name})` : `device ${head.device}`;
    this.title.textContent = `${kFloorTitles[head.floor]} on ${where}: ${kFloorHints[head.floor]}. Bytes live over time, coloured by ${this.by}.`;
    this.base.label(`${this.title.textContent} Peak ${bytes(head.peak)}, end ${bytes(head.end)}.`);
  }

  // --- geometry ---

  private get bands(): number {
    const depths = this.view.report.head.phases.map(({ depth }) => depth);
    return depths.length === 0 ? 0 : Math.min(kMostBands, Math.max(...depths.slice(0, 5000)) + 1);
  }
  private get top(): number {
    return this.bands * kBand + kFlags + 4;
  }
  private x(ns: number): number {
    return ((ns - this.range[0]) / (this.range[1] - this.range[0])) * this.base.width;
  }
  private ns(x: number): number {
    return this.range[0] + (x / this.base.width) * (this.range[1] - this.range[0]);
  }

  /// First and last moment that the column at x shows.
  private column(x: number): [number, number] {
    // Before the first column lies nothing that holds: all moments at time 0 belong to it.
    const from = this.ns(x) <= 0 ? 0 : momentAt(this.view.times, this.ns(x));
    return [from, Math.max(from, momentAt(this.view.times, this.ns(x + 1)))];
  }

  /// Largest value of the y axis.
  private scale(): { max: number; capacity: number } {
    const all = [this.view.current, ...this.lines];
    let max = 0;
    for (const track of all) max = Math.max(max, track.head.peak);
    const capacity = this.view.current.head.device >= 0 ? this.view.report.deviceTotal(this.view.current.head.device) : 0;
    // A device far larger than what was used would flatten everything: then its line is off the scale, and says so.
    if (capacity > 0 && max > 0.35 * capacity) max = Math.max(max, capacity);
    return { max: Math.max(1, max) * 1.04, capacity };
  }

  // --- drawing ---

  private drawBase(context: CanvasRenderingContext2D): void {
    const colours = palette();
    const { width, height } = this.base;
    const bottom = height - kAxis;
    const { max, capacity } = this.scale();
    const y = (value: number) => bottom - (value / max) * (bottom - this.top);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';

    this.drawAreas(context, colours, y);
    this.drawGrid(context, colours, y, max, bottom);
    for (const track of this.lines) this.drawLine(context, colours, track, y);
    this.drawDriver(context, colours, y);
    if (capacity > 0) this.drawCapacity(context, colours, y, max, capacity);
    this.drawPhases(context, colours);
    this.drawFlags(context, colours);
    context.strokeStyle = colours.grid;
    context.beginPath();
    context.moveTo(0, bottom + 0.5);
    context.lineTo(width, bottom + 0.5);
    context.stroke();
  }

  private drawAreas(context: CanvasRenderingContext2D, colours: Palette, y: (value: number) => number): void {
    const track = this.view.current;
    const columns = Math.ceil(this.base.width);
    const fullest = new Int32Array(columns);
    for (let x = 0; x < columns; x += 1) {
      const [from, to] = this.column(x);
      fullest[x] = track.level.argmax(from, to);
    }
    const below = new Float64Array(columns);
    const groups = this.groups?.list ?? [{ live: track.live, colour: '' }];
    // The largest at the bottom: what is steady stays steady, what comes and goes shows on top.
    for (const { live, colour } of groups) {
      context.fillStyle = colour || colours.other;
      context.beginPath();
      context.moveTo(0, y(below[0]!));
      for (let x = 0; x < columns; x += 1) {
        const value = y(below[x]! + live[fullest[x]!]!);
        context.lineTo(x, value);
        context.lineTo(x + 1, value);
      }
      for (let x = columns - 1; x >= 0; x -= 1) {
        const value = y(below[x]!);
        context.lineTo(x + 1, value);
        context.lineTo(x, value);
      }
      context.fill();
      for (let x = 0; x < columns; x += 1) below[x]! += live[fullest[x]!]!;
    }
    this.strokeColumns(context, colours.ink, 1.25, (from, to) => y(track.level.max(from, to)));
    context.setLineDash([1, 2]);
    this.strokeColumns(context, colours.ink, 1, (from, to) => {
      const low = track.level.min(from, to);
      return track.level.max(from, to) - low > 0.01 * track.head.peak ? y(low) : NaN;
    });
    context.setLineDash([]);
  }

  private strokeColumns(context: CanvasRenderingContext2D, colour: string, width: number, value: (from: number, to: number) => number): void {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    let open = false;
    for (let x = 0; x < this.base.width; x += 1) {
      const [from, to] = this.column(x);
      const at = value(from, to);
      if (Number.isNaN(at)) {
        open = false;
        continue;
      }
      if (open) context.lineTo(x, at);
      else context.moveTo(x, at);
      context.lineTo(x + 1, at);
      open = true;
    }
    context.stroke();
    context.lineWidth = 1;
  }

  private drawLine(context: CanvasRenderingContext2D, colours: Palette, track: Track, y: (value: number) => number): void {
    context.setLineDash(kDashes[track.head.floor]);
    this.strokeColumns(context, colours.muted, 1.5, (from, to) => y(track.level.max(from, to)));
    context.setLineDash([]);
  }

  private drawDriver(context: CanvasRenderingContext2D, colours: Palette, y: (value: number) => number): void {
    if (!this.driver) return;
    context.fillStyle = colours.bad;
    for (let i = 0; i < this.driver.times.length; i += 1) {
      const x = this.x(this.driver.times[i]!);
      if (x >= 0 && x <= this.base.width) context.fillRect(x - 1, y(this.driver.used[i]!) - 1, 2, 2);
    }
  }

  private drawGrid(context: CanvasRenderingContext2D, colours: Palette, y: (value: number) => number, max: number, bottom: number): void {
    context.textAlign = 'left';
    for (const tick of byteTicks(max)) {
      const at = Math.round(y(tick)) + 0.5;
      if (tick > 0) {
        context.strokeStyle = withAlpha(colours.grid, 0.6);
        context.beginPath();
        context.moveTo(0, at);
        context.lineTo(this.base.width, at);
        context.stroke();
        label(context, colours, bytes(tick), 4, at - 8);
      }
    }
    context.textAlign = 'center';
    context.fillStyle = colours.muted;
    for (const tick of timeTicks(this.range[0], this.range[1], Math.max(2, Math.floor(this.base.width / 110)))) {
      const at = this.x(tick);
      if (at < 24 || at > this.base.width - 24) continue;
      context.fillText(offset(tick, this.range[1] - this.range[0]), at, bottom + 13);
    }
  }

  private drawCapacity(context: CanvasRenderingContext2D, colours: Palette, y: (value: number) => number, max: number, capacity: number): void {
    context.textAlign = 'right';
    if (capacity > max) {
      label(context, colours, `capacity ${bytes(capacity)}, above this scale ↑`, this.base.width - 4, this.top + 8);
      return;
    }
    const at = Math.round(y(capacity)) + 0.5;
    context.strokeStyle = colours.bad;
    context.beginPath();
    context.moveTo(0, at);
    context.lineTo(this.base.width, at);
    context.stroke();
    label(context, colours, `capacity ${bytes(capacity)}`, this.base.width - 4, at + 9);
  }

  private drawPhases(context: CanvasRenderingContext2D, colours: Palette): void {
    const names = new Map<string, number>();
    context.textAlign = 'left';
    for (const phase of this.view.report.head.phases) {
      if (!names.has(phase.name)) names.set(phase.name, names.size);
      if (phase.depth >= kMostBands) continue;
      const from = Math.max(0, this.x(phase.begin_ns));
      const to = Math.min(this.base.width, this.x(phase.end_ns));
      if (to < 0 || from > this.base.width) continue;
      const top = phase.depth * kBand;
      context.fillStyle = names.get(phase.name)! % 2 === 0 ? colours.faint : colours.grid;
      context.fillRect(from, top, Math.max(1, to - from - 1), kBand - 2);
      if (to - from > 28) {
        context.save();
        context.beginPath();
        context.rect(from, top, to - from - 4, kBand);
        context.clip();
        context.fillStyle = colours.ink;
        context.font = '11px system-ui, sans-serif';
        context.fillText(phase.name, from + 4, top + kBand / 2 - 1);
        context.restore();
      }
    }
  }

  private drawFlags(context: CanvasRenderingContext2D, colours: Palette): void {
    const { head } = this.view.report;
    const top = this.bands * kBand;
    context.fillStyle = colours.muted;
    let last = -10;
    for (const mark of head.marks) {
      const x = Math.round(this.x(mark.t_ns));
      if (x < 0 || x > this.base.width || x - last < 3) continue;
      last = x;
      context.fillRect(x, top + 8, 1, 6);
    }
    const flag = (x: number, colour: string, text: string) => {
      if (x < -1 || x > this.base.width + 1) return;
      context.fillStyle = colour;
      context.strokeStyle = colour;
      context.beginPath();
      context.moveTo(Math.round(x) + 0.5, top + 2);
      context.lineTo(Math.round(x) + 0.5, this.base.height - kAxis);
      context.setLineDash([2, 3]);
      context.stroke();
      context.setLineDash([]);
      context.font = '600 11px system-ui, sans-serif';
      const width = context.measureText(text).width + 8;
      const left = x + width > this.base.width ? x - width : x;
      context.fillRect(left, top + 1, width, 14);
      context.fillStyle = inkOn(colour);
      context.textAlign = 'left';
      context.fillText(text, left + 4, top + 8.5);
    };
    flag(this.x(this.view.times[this.view.current.head.peak_moment]!), colours.accent, 'peak');
    for (const oom of head.ooms) flag(this.x(oom.at_ns), colours.bad, 'OOM');
  }

  private drawOverlay(context: CanvasRenderingContext2D): void {
    const colours = palette();
    const { height } = this.base;
    const window = this.drag ? [this.ns(Math.min(this.drag.from, this.drag.to)), this.ns(Math.max(this.drag.from, this.drag.to))] : this.view.window;
    if (window) {
      const from = this.x(window[0]!);
      const to = this.x(window[1]!);
      context.fillStyle = withAlpha(colours.accent, 0.14);
      context.fillRect(from, this.top, to - from, height - kAxis - this.top);
      context.fillStyle = colours.accent;
      context.fillRect(from, this.top, 1, height - kAxis - this.top);
      context.fillRect(to - 1, this.top, 1, height - kAxis - this.top);
    }
    const cursor = (x: number, colour: string, width: number) => {
      context.fillStyle = colour;
      context.fillRect(Math.round(x) - width / 2, this.top - 2, width, height - kAxis - this.top + 2);
    };
    if (this.hover !== null) cursor(this.hover, colours.muted, 1);
    const x = this.x(this.view.times[this.view.moment]!);
    if (x >= -1 && x <= this.base.width + 1) {
      cursor(x, colours.accent, 2);
      context.beginPath();
      context.moveTo(x - 5, height - kAxis + 7);
      context.lineTo(x + 5, height - kAxis + 7);
      context.lineTo(x, height - kAxis);
      context.fill();
    }
  }

  private updateLegend(): void {
    if (!this.groups) return;
    const moment = this.view.moment;
    const items = this.groups.list
      .filter(({ key, live }) => key !== '' || live[this.view.current.head.peak_moment]! > 0 || live[moment]! > 0)
      .map(({ name, place, colour, live }) =>
        el('li', {}, swatch(colour), el('span', { class: 'name' }, name), place ? el('span', { class: 'place' }, place) : null, el('span', { class: 'number' }, bytes(live[moment]!))));
    for (const track of this.lines) {
      items.push(el('li', {}, lineSwatch(kDashes[track.head.floor]), el('span', { class: 'name' }, kFloorTitles[track.head.floor]), el('span', { class: 'number' }, bytes(track.live[moment]!))));
    }
    if (this.driver && this.driver.times.length > 0) {
      const last = momentAt(this.driver.times, this.view.times[moment]!);
      const title = driverTitle(this.driver.times[last]!, this.view.times[moment]!);
      items.push(el('li', {}, el('span', { class: 'swatch dot' }), el('span', { class: 'name' }, title), el('span', { class: 'number' }, bytes(this.driver.used[last] ?? 0))));
    }
    this.legend.replaceChildren(...items);
  }

  // --- the reader's hand ---

  zoom(factor: number, around = this.view.times[this.view.moment]!): void {
    const whole = this.whole();
    const span = Math.min(whole[1], Math.max(1000, (this.range[1] - this.range[0]) * factor));
    const inside = around >= this.range[0] && around <= this.range[1];
    const share = inside ? (around - this.range[0]) / (this.range[1] - this.range[0]) : 0.5;
    const from = Math.min(Math.max(0, around - share * span), whole[1] - span);
    this.range = [from, from + span];
    this.redraw();
  }

  showAll(): void {
    this.range = this.whole();
    this.view.setWindow(null);
    this.redraw();
  }

  get shownRange(): [number, number] {
    return this.range;
  }

  /// Moves to the next moment at which this floor changes; a wide view takes steps of a column of pixels.
  step(direction: 1 | -1, far: boolean): void {
    const { view } = this;
    const live = view.current.live;
    const column = ((this.range[1] - this.range[0]) / Math.max(1, this.base.width)) * (far ? 20 : 1);
    const wanted = view.times[view.moment]! + direction * column;
    let moment = view.moment + direction;
    while (moment > 0 && moment < live.length - 1 && (live[moment] === live[view.moment] || (wanted - view.times[moment]!) * direction > 0)) moment += direction;
    view.setMoment(moment);
    const at = view.times[view.moment]!;
    if (at < this.range[0] || at > this.range[1]) {
      const span = this.range[1] - this.range[0];
      const from = Math.min(Math.max(0, at - span / 2), this.duration - span);
      this.range = [from, from + span];
      this.redraw();
    }
  }

  private redraw(): void {
    const box = this.overlay.element.parentElement;
    if (box) [box.dataset.from, box.dataset.to] = [String(Math.round(this.range[0])), String(Math.round(this.range[1]))];
    this.base.redraw();
    this.overlay.redraw();
  }

  private listen(): void {
    const canvas = this.overlay.element;
    const place = (event: MouseEvent) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = { from: place(event), to: place(event) };
    });
    canvas.addEventListener('pointermove', (event) => {
      this.hover = place(event);
      if (this.drag) this.drag.to = this.hover;
      this.overlay.redraw();
      this.showTooltip(event);
    });
    canvas.addEventListener('pointerup', () => {
      const drag = this.drag;
      this.drag = null;
      if (!drag) return;
      const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      if (to - from > 4) this.view.setWindow([Math.max(0, this.ns(from)), Math.min(this.duration, this.ns(to))]);
      else {
        const [first, last] = this.column(Math.floor(to));
        this.view.setMoment(this.view.current.level.argmax(first, last));
      }
    });
    canvas.addEventListener('pointercancel', () => { this.drag = null; this.overlay.redraw(); });
    canvas.addEventListener('pointerleave', () => {
      this.hover = null;
      this.tooltip.hide();
      this.overlay.redraw();
    });
    canvas.addEventListener('dblclick', () => this.showAll());
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const shift = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (shift) this.pan((event.deltaX || event.deltaY) / this.base.width);
      else this.zoom(2 ** (Math.sign(event.deltaY) * Math.min(1, Math.abs(event.deltaY) / 200)), this.ns(place(event)));
    }, { passive: false });
  }

  private pan(share: number): void {
    const span = this.range[1] - this.range[0];
    const from = Math.min(Math.max(0, this.range[0] + share * span), this.duration - span);
    this.range = [from, from + span];
    this.redraw();
  }

  private showTooltip(event: PointerEvent): void {
    if (this.hover === null) return;
    const [first, last] = this.column(Math.floor(this.hover));
    const moment = this.view.current.level.argmax(first, last);
    const at = this.view.times[moment]!;
    const { head } = this.view.report;
    const phase = head.phases.filter(({ begin_ns, end_ns }) => begin_ns <= at && at < end_ns).map(({ name }) => name).join(' › ');
    const rows = (this.groups?.list ?? []).filter(({ live }) => live[moment]! > 0)
      .map(({ name, colour, live }) => el('li', {}, swatch(colour), el('span', { class: 'name' }, name), el('span', { class: 'number' }, bytes(live[moment]!))));
    this.tooltip.show(event,
      el('strong', {}, `${bytes(this.view.current.level.max(first, last))} at ${offset(at, this.range[1] - this.range[0])}`),
      el('div', { class: 'muted' }, [wallClock(head.start_wall_ms > 0 ? head.start_wall_ms + at / 1e6 : 0, true), phase].filter(Boolean).join(' · ')),
      el('ul', { class: 'legend small' }, ...rows));
  }
}

export function swatch(colour: string): HTMLElement {
  const known = kCategories.indexOf(colour);
  return el('span', { class: `swatch ${known < 0 ? 'other' : `c${known}`}` });
}

function lineSwatch(dashes: number[]): HTMLElement {
  return el('span', { class: `swatch line ${dashes.length === 0 ? 'solid' : dashes[0]! > 2 ? 'dashed' : 'dotted'}` });
}

/// Text over a chart, with a paper halo so that it reads on every area.
function label(context: CanvasRenderingContext2D, colours: Palette, text: string, x: number, y: number): void {
  context.strokeStyle = withAlpha(colours.paper, 0.85);
  context.lineWidth = 3;
  context.lineJoin = 'round';
  context.strokeText(text, x, y);
  context.lineWidth = 1;
  context.fillStyle = colours.ink;
  context.fillText(text, x, y);
}
