// Small helpers over the DOM. Text always goes in as text: names come from programs that we do not know.

type Attributes = Record<string, string | number | boolean | ((event: never) => void) | undefined>;
export type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, ...children);
  return element;
}

export function append(element: Element, ...children: Child[]): void {
  for (const child of children) if (child) element.append(child);
}

export function section(id: string, title: string, ...children: Child[]): HTMLElement {
  return el('section', { id, 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), ...children);
}

export interface Choice<T> {
  element: HTMLElement;
  set(value: T): void;
}

/// A row of buttons of which one is pressed.
export function choice<T extends string | number>(name: string, options: { value: T; label: string; title?: string; disabled?: boolean }[], chosen: T, onChoose: (value: T) => void): Choice<T> {
  const buttons = options.map(({ value, label, title, disabled }) =>
    el('button', { type: 'button', title, disabled: disabled ?? false, 'aria-pressed': String(value === chosen), onclick: () => onChoose(value) }, label));
  return {
    element: el('div', { class: 'choice', role: 'group', 'aria-label': name }, ...buttons),
    set(value) {
      buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(options[i]!.value === value)));
    },
  };
}

/// A canvas that follows its element's size and the screen's density; `draw` gets CSS pixels.
export class Canvas {
  readonly element: HTMLCanvasElement;
  width = 0;
  height = 0;
  private pending = false;

  constructor(className: string, label: string, private readonly draw: (context: CanvasRenderingContext2D, canvas: Canvas) => void) {
    this.element = el('canvas', { class: className, role: 'img', 'aria-label': label });
    new ResizeObserver(() => this.redraw()).observe(this.element);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw());
  }

  label(text: string): void {
    this.element.setAttribute('aria-label', text);
  }

  /// Draws with the next frame, however often it is asked.
  redraw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  paint(): void {
    const box = this.element.getBoundingClientRect();
    if (box.width < 1 || box.height < 1) return;
    const ratio = devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    const pixels: [number, number] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.element.width !== pixels[0] || this.element.height !== pixels[1]) [this.element.width, this.element.height] = pixels;
    const context = this.element.getContext('2d')!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, box.width, box.height);
    this.draw(context, this);
  }
}

/// Calls `show` when the element comes near the screen, once.
export function whenNear(element: Element, show: () => void): void {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    show();
  }, { rootMargin: '400px' });
  observer.observe(element);
  // Paper has no scrolling.
  addEventListener('beforeprint', () => { observer.disconnect(); show(); }, { once: true });
}

export class Tooltip {
  private readonly element = el('div', { class: 'tooltip', role: 'tooltip', hidden: true });

  constructor() {
    document.body.append(this.element);
    addEventListener('scroll', () => this.hide(), { passive: true });
  }

  show(event: { clientX: number; clientY: number }, ...content: Child[]): void {
    this.element.replaceChildren();
    append(this.element, ...content);
    this.element.hidden = false;
    const box = this.element.getBoundingClientRect();
    const left = Math.min(event.clientX + 16, innerWidth - box.width - 8);
    const below = event.clientY + 20 + box.height < innerHeight;
    this.element.style.transform = `translate(${Math.max(8, left)}px, ${below ? event.clientY + 20 : Math.max(8, event.clientY - box.height - 12)}px)`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}
