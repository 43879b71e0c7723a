// The bar that stays in sight: which moment or window everything below shows, and the search.
import { el } from '../dom';
import { bytes, count, duration, offset, signedBytes, wallClock } from '../format';
import { kFloorWords } from '../head';
import type { View } from '../state';
import type { Timeline } from './timeline';

export class Bar {
  readonly element: HTMLElement;
  readonly search: HTMLInputElement;
  private readonly text = el('p', { class: 'bar-text', 'aria-live': 'polite' });
  private readonly clear: HTMLButtonElement;

  constructor(private readonly view: View, timeline: Timeline, help: () => void) {
    this.search = el('input', { type: 'search', placeholder: 'Search frames  /', 'aria-label': 'Search functions, files and modules', spellcheck: 'false',
      oninput: () => { view.search = this.search.value; view.changed(); } });
    this.clear = el('button', { type: 'button', hidden: true, onclick: () => view.setWindow(null) }, 'Clear window');
    this.element = el('div', { class: 'bar', role: 'toolbar', 'aria-label': 'Moment and search' },
      this.text,
      el('div', { class: 'choice', role: 'group', 'aria-label': 'Moment' },
        el('button', { type: 'button', 'aria-label': 'Previous moment', title: 'Previous moment (←)', onclick: () => timeline.step(-1, false) }, '←'),
        el('button', { type: 'button', title: 'Go to the peak of this floor', onclick: () => view.setMoment(view.current.head.peak_moment) }, 'Peak'),
        el('button', { type: 'button', title: 'Go to the end of the run', onclick: () => view.setMoment(view.times.length - 1) }, 'End'),
        el('button', { type: 'button', 'aria-label': 'Next moment', title: 'Next moment (→)', onclick: () => timeline.step(1, false) }, '→')),
      this.clear,
      this.search,
      el('button', { type: 'button', 'aria-label': 'Help', title: 'Keys and words (?)', onclick: help }, '?'));
    view.onChange(() => void this.update());
    void this.update();
  }

  private async update(): Promise<void> {
    const { view } = this;
    const { head } = view.report;
    const { live, head: track } = view.current;
    const at = view.times[view.moment]!;
    const runPeak = view.moment === head.peak_moment;
    const floorPeak = view.moment === track.peak_moment;
    const where = runPeak && floorPeak ? 'peak' : runPeak ? 'peak of what the process held' : floorPeak ? 'peak of this floor' : view.moment === view.times.length - 1 ? 'end' : '';
    const clock = wallClock(head.start_wall_ms > 0 ? head.start_wall_ms + at / 1e6 : 0);
    const parts = [
      el('strong', { class: 'bar-size' }, bytes(live[view.moment]!)),
      ` ${kFloorWords[track.floor]} at `,
      el('strong', { title: clock ? `${clock}, wall clock` : '' }, offset(at, head.duration_ns)),
      where ? ` (${where})` : '',
    ];
    const window = view.windowMoments();
    this.clear.hidden = !view.window;
    if (view.window && window) {
      const sites = await view.report.sites(view.track);
      let allocations = 0;
      for (let site = 0; site < sites.length; site += 1) allocations += sites.change(site, window[0], window[1]).allocations;
      parts.push(`, the fullest moment of a window of ${duration((view.window[1] - view.window[0]) / 1e9)}: ${signedBytes(live[window[1]]! - live[window[0]]!)} in ${count(allocations)} allocations`);
    }
    this.text.replaceChildren(...parts);
  }
}
