// What the reader looks at: a floor of a device, a moment or a window, a search. Every part of the page listens.
import { momentAt, Report, type Track } from './report';

export type FlameMode = 'live' | 'change' | 'allocated';

export class View {
  track = 0;
  moment = 0;
  /// Chosen stretch of time, ns from the start.
  window: [number, number] | null = null;
  search = '';
  folded = true;
  mode: FlameMode = 'live';
  private readonly listeners: (() => void)[] = [];

  constructor(readonly report: Report, readonly times: Float64Array, public current: Track) {
    this.track = current.number;
    this.moment = report.head.peak_moment;
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  async choose(track: number): Promise<void> {
    this.current = await this.report.track(track);
    this.track = track;
    this.changed();
  }

  setMoment(moment: number): void {
    this.moment = Math.min(this.times.length - 1, Math.max(0, moment));
    this.changed();
  }

  setWindow(window: [number, number] | null): void {
    this.window = window;
    if (window) {
      const [from, to] = this.windowMoments()!;
      this.moment = this.current.level.argmax(from, to);
    } else if (this.mode !== 'live') this.mode = 'live';
    this.changed();
  }

  /// First and last moment of the window: the states at its begin and at its end.
  windowMoments(): [number, number] | null {
    if (!this.window) return null;
    return [momentAt(this.times, this.window[0]), momentAt(this.times, this.window[1])];
  }
}
