// The flame graph, root on top: the stacks of what is live at the moment, of what the window added or of what it allocated.
import { inkOn, kKindColours, palette } from '../colours';
import { Canvas, choice, el, section, Tooltip } from '../dom';
import { bytes, exactBytes, percent } from '../format';
import { FlameTree, kNoStack, kRoot, type FlameCell } from '../maths/flame';
import type { Sites } from '../maths/sites';
import { kKindRuntime, kKinds, type Names } from '../names';
import type { FlameMode, View } from '../state';

const kRow = 22;

export class Flame {
  readonly element: HTMLElement;
  private readonly canvas: Canvas;
  private readonly title = el('p', { class: 'chart-title', 'aria-live': 'polite' });
  private readonly found = el('span', { class: 'found', 'aria-live': 'polite' });
  private readonly copy: HTMLButtonElement;
  private readonly back: HTMLButtonElement;
  private readonly empty = el('p', { class: 'empty', hidden: true });
  private readonly modes;
  private readonly fold: HTMLButtonElement;
  private names: Names | null = null;
  private sites: Sites | null = null;
  private trees = new Map<string, FlameTree>();
  private tree: FlameTree | null = null;
  private cells: FlameCell[] = [];
  private root = 0;
  private hits: Set<number> | null = null;
  private hovered: FlameCell | null = null;
  private ready = false;

  constructor(private readonly view: View, private readonly tooltip: Tooltip) {
    this.canvas = new Canvas('flame', 'Flame graph', (context) => this.draw(context));
    this.modes = choice<FlameMode>('What the flame graph shows', [
      { value: 'live', label: 'Live at the moment' },
      { value: 'change', label: 'Grown in the window', title: 'Bytes live at the end of the window less those at its begin' },
      { value: 'allocated', label: 'Allocated in the window', title: 'All bytes allocated, freed or not' },
    ], view.mode, (mode) => {
      view.mode = mode;
      if (mode !== 'live' && !view.window) view.window = [0, view.times.at(-1)!];
      view.changed();
    });
    this.fold = el('button', { type: 'button', 'aria-pressed': String(view.folded), title: 'Hide interpreter, C library and loader frames (f)', onclick: () => this.toggleFold() }, 'Fold runtime frames');
    this.back = el('button', { type: 'button', disabled: true, onclick: () => this.zoomTo(0) }, 'Zoom out');
    this.copy = el('button', { type: 'button', disabled: true, title: 'Copies the stack of the frame zoomed to', onclick: () => void this.copyStack() }, 'Copy stack');
    const legend = el('ul', { class: 'legend', 'aria-label': 'Colours of the flame graph' },
      ...kKinds.map((kind, i) => el('li', {}, el('span', { class: `swatch kind${i}` }), el('span', { class: 'name' }, kind))));
    this.element = section('flame', 'Flame graph', this.title,
      el('div', { class: 'controls' }, this.modes.element, this.fold, this.back, this.copy, this.found),
      this.empty, this.canvas.element, legend);
    this.listen();
    view.onChange(() => { if (this.ready) void this.update(); });
  }

  async show(): Promise<void> {
    this.ready = true;
    this.names = await this.view.report.names();
    await this.update();
  }

  private async update(): Promise<void> {
    const { view } = this;
    const track = view.track;
    this.sites = await view.report.sites(track);
    if (track !== view.track || !this.names) return;
    this.modes.set(view.mode);
    this.fold.setAttribute('aria-pressed', String(view.folded));
    const key = `${track} ${view.folded}`;
    let tree = this.trees.get(key);
    if (!tree) this.trees.set(key, (tree = new FlameTree(this.names, this.sites.node, view.folded)));
    if (tree !== this.tree) this.root = 0;
    this.tree = tree;
    tree.fill(this.values(), this.otherBytes());
    if (tree.nodes[this.root]!.value <= 0) this.root = 0;
    this.search();
    this.layout();
    this.describe();
  }

  private values(): Float64Array {
    const { view } = this;
    const sites = this.sites!;
    const window = view.windowMoments();
    return Float64Array.from({ length: sites.length }, (_, site) => {
      if (view.mode === 'live' || !window) return sites.liveAt(site, view.moment);
      const change = sites.change(site, window[0], window[1]);
      return view.mode === 'allocated' ? change.allocated : Math.max(0, change.live);
    });
  }

  /// Bytes of sites too small to have a series of their own.
  private otherBytes(): number {
    if (this.view.mode !== 'live') return 0;
    let sum = 0;
    for (let site = 0; site < this.sites!.length; site += 1) sum += this.sites!.liveAt(site, this.view.moment);
    return Math.max(0, this.view.current.live[this.view.moment]! - sum);
  }

  private describe(): void {
    const { view } = this;
    const total = bytes(this.tree!.nodes[0]!.value);
    const what = {
      live: `${total} live at the moment chosen above`,
      change: `${total} more at the end of the window than at its begin, by the stacks that grew`,
      allocated: `${total} allocated in the window, freed since or not`,
    }[view.mode];
    this.title.textContent = `Who holds it: ${what}. Width is bytes.`;
    this.canvas.label(this.title.textContent);
    const nothing = this.tree!.nodes[0]!.value <= 0;
    this.canvas.element.hidden = nothing;
    this.empty.hidden = !nothing;
    this.empty.textContent = view.mode === 'change' ? 'Nothing grew in this window. A window over a growing stretch of the timeline would fill this.'
      : view.mode === 'allocated' ? 'Nothing was allocated in this window. A window over a busier stretch would fill this.'
        : 'Nothing is live at this moment. A moment after the first allocation would fill this.';
    this.back.disabled = this.root === 0;
    this.copy.disabled = this.root === 0;
  }

  private layout(): void {
    this.cells = this.tree!.layout(this.root, 0.5 / Math.max(320, this.canvas.element.parentElement?.clientWidth ?? 1000));
    const rows = this.cells.reduce((most, cell) => Math.max(most, cell.depth + 1), 1);
    this.canvas.element.style.height = `${rows * kRow}px`;
    this.canvas.redraw();
  }

  search(): void {
    const wanted = this.view.search.trim().toLowerCase();
    if (!wanted || !this.tree) {
      this.hits = null;
      this.found.textContent = '';
      return;
    }
    const { hits, sum } = this.tree.search(wanted);
    this.hits = hits;
    const total = this.tree.nodes[0]!.value;
    this.found.textContent = hits.size === 0 ? `No frame matches “${this.view.search}”` : `“${this.view.search}”: ${bytes(sum)}, ${percent(sum, total)}`;
  }

  toggleFold(): void {
    this.view.folded = !this.view.folded;
    this.view.changed();
  }

  private zoomTo(node: number): void {
    this.root = node;
    this.layout();
    this.describe();
  }

  private draw(context: CanvasRenderingContext2D): void {
    const colours = palette();
    const width = this.canvas.width;
    context.textBaseline = 'middle';
    context.font = '12px system-ui, sans-serif';
    for (const cell of this.cells) {
      const node = this.tree!.nodes[cell.node]!;
      const left = cell.x * width;
      const size = cell.width * width;
      const kind = node.frame < 0 ? -1 : this.names!.kind(node.frame);
      const fill = kind === -1 ? colours.faint : kind === kKindRuntime ? colours.runtime : kKindColours[kind]!;
      const dim = this.hits !== null && !this.hits.has(cell.node);
      context.globalAlpha = dim ? 0.25 : 1;
      context.fillStyle = fill;
      context.fillRect(left, cell.depth * kRow, Math.max(0.5, size - 1), kRow - 1);
      context.globalAlpha = 1;
      if (this.hovered?.node === cell.node) {
        context.strokeStyle = colours.ink;
        context.strokeRect(left + 0.5, cell.depth * kRow + 0.5, Math.max(1, size - 2), kRow - 2);
      }
      if (size < 28) continue;
      context.save();
      context.beginPath();
      context.rect(left, cell.depth * kRow, size - 4, kRow);
      context.clip();
      context.fillStyle = dim ? colours.muted : kind === -1 ? colours.ink : inkOn(fill);
      context.fillText(this.cellText(cell), left + 5, cell.depth * kRow + kRow / 2);
      context.restore();
    }
  }

  private cellText(cell: FlameCell): string {
    const node = this.tree!.nodes[cell.node]!;
    const size = bytes(node.value);
    return `${node.frame < 0 ? pseudoName(node.frame) : this.names!.bareName(node.frame)}  ${size}`;
  }

  private cellAt(event: MouseEvent): FlameCell | null {
    const box = this.canvas.element.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    const depth = Math.floor((event.clientY - box.top) / kRow);
    return this.cells.find((cell) => cell.depth === depth && x >= cell.x && x < cell.x + cell.width) ?? null;
  }

  private listen(): void {
    const canvas = this.canvas.element;
    canvas.addEventListener('pointermove', (event) => {
      const cell = this.cellAt(event);
      if (cell?.node !== this.hovered?.node) {
        this.hovered = cell;
        this.canvas.redraw();
      }
      canvas.style.cursor = cell ? 'pointer' : '';
      if (!cell) return this.tooltip.hide();
      const node = this.tree!.nodes[cell.node]!;
      const frame = node.frame < 0 ? null : this.names!.frame(node.frame);
      this.tooltip.show(event,
        el('strong', {}, frame?.function ?? pseudoName(node.frame)),
        frame && el('div', { class: 'muted' }, [frame.file && frame.line > 0 ? `${frame.file}:${frame.line}` : frame.file, frame.module].filter(Boolean).join(' · ')),
        el('div', {}, `${bytes(node.value)} (${exactBytes(node.value)}), ${percent(node.value, this.tree!.nodes[0]!.value)} of all`),
        node.self > 0 && node.self < node.value ? el('div', {}, `${bytes(node.self)} of stacks that end here`) : null);
    });
    canvas.addEventListener('pointerleave', () => {
      this.hovered = null;
      this.tooltip.hide();
      this.canvas.redraw();
    });
    canvas.addEventListener('click', (event) => {
      const cell = this.cellAt(event);
      if (cell) this.zoomTo(cell.node === this.root ? Math.max(0, this.tree!.nodes[cell.node]!.parent) : cell.node);
    });
  }

  private async copyStack(): Promise<void> {
    const text = this.tree!.path(this.root).reverse().map((frame) => this.names!.frameLine(frame)).join('\n');
    await copyText(text);
    this.copy.textContent = 'Copied';
    setTimeout(() => { this.copy.textContent = 'Copy stack'; }, 1500);
  }
}

function pseudoName(frame: number): string {
  return frame === kRoot ? 'all' : frame === kNoStack ? 'no stack was recorded' : 'other, smaller sites';
}

/// The clipboard, also where a file:// page may not use the newer interface.
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el('textarea', { class: 'offscreen' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}
