// The page, put together: head line and verdicts at once, the rest when it comes near the screen.
import './style.css';
import { append, el, Tooltip, whenNear } from './dom';
import type { Card } from './maths/verdicts';
import { Report } from './report';
import { View } from './state';
import { about, helpDialog } from './view/about';
import { Bar } from './view/bar';
import { Flame } from './view/flame';
import { headLine, Verdicts } from './view/headline';
import { Leaks, Ooms } from './view/leaks';
import { SiteTable } from './view/sites';
import { AddressSpace } from './view/space';
import { Timeline } from './view/timeline';

async function start(): Promise<void> {
  const page = document.getElementById('page')!;
  const report = new Report(document);
  const { head } = report;
  document.title = `cuheap: ${head.processes[0]?.meta.command ?? head.trace}`;
  append(page, headLine(head));

  const top = head.tracks.findIndex(({ floor, device }) => floor === head.top_floor && device >= 0);
  const first = top >= 0 ? top : 0;
  if (head.tracks.length === 0) {
    append(page, emptyVerdict(), about(head));
    document.documentElement.dataset.ready = 'true';
    return;
  }
  const view = new View(report, await report.times(), await report.track(first));
  const tooltip = new Tooltip();
  const help = helpDialog();
  const timeline = new Timeline(view, tooltip);
  const bar = new Bar(view, timeline, () => help.showModal());
  const flame = new Flame(view, tooltip);
  const sites = new SiteTable(view);
  const leaks = new Leaks(view);
  const ooms = head.ooms.length > 0 ? new Ooms(view) : null;
  const space = new AddressSpace(view, tooltip);
  const verdicts = new Verdicts(view, (card) => void openProof(card));

  const openProof = async (card: Card): Promise<void> => {
    if (card.track !== undefined && card.track !== view.track) await view.choose(card.track);
    if (card.moment !== undefined) view.setMoment(card.moment);
    const target = document.getElementById(card.proof);
    target?.scrollIntoView({ behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
    target?.querySelector<HTMLElement>('h2')?.focus?.({ preventScroll: true });
  };

  append(page, verdicts.element, timeline.element, bar.element, flame.element, sites.element, leaks.element, ooms?.element, space.element, about(head), help);
  timeline.whenGrouped((groups) => { sites.setGroups(groups); space.setGroups(groups); });
  await Promise.all([verdicts.show(), timeline.load()]);
  whenNear(flame.element, () => void flame.show());
  whenNear(sites.element, () => void sites.show());
  whenNear(leaks.element, () => void leaks.show());
  if (ooms) whenNear(ooms.element, () => void ooms.show());
  whenNear(space.element, () => void space.show());
  listenToKeys(view, timeline, bar, flame, help);
  performance.mark('cuheap-ready');
  document.documentElement.dataset.ready = 'true';
}

function listenToKeys(view: View, timeline: Timeline, bar: Bar, flame: Flame, help: HTMLDialogElement): void {
  addEventListener('keydown', (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === 'Escape' && !help.open) {
      bar.search.value = '';
      bar.search.blur();
      view.search = '';
      view.setWindow(null);
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const actions: Record<string, () => void> = {
      '/': () => bar.search.focus(),
      ArrowLeft: () => timeline.step(-1, event.shiftKey),
      ArrowRight: () => timeline.step(1, event.shiftKey),
      '+': () => timeline.zoom(0.5),
      '=': () => timeline.zoom(0.5),
      '-': () => timeline.zoom(2),
      0: () => timeline.showAll(),
      f: () => flame.toggleFold(),
      '?': () => help.showModal(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function emptyVerdict(): HTMLElement {
  return el('section', { id: 'verdicts', 'aria-label': 'Verdicts' }, el('p', { class: 'empty' },
    'No device memory was allocated while this was recorded, so there is nothing to draw. A run that reaches the GPU would fill this page with a timeline, a flame graph and verdicts.'));
}

start().catch((error: unknown) => {
  const text = error instanceof Error ? error.message : String(error);
  document.getElementById('page')!.append(el('p', { class: 'loss', role: 'alert' }, `This report cannot be shown: ${text}`));
  document.documentElement.dataset.ready = 'failed';
});
