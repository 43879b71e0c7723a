// About this recording, and the help: how the figures came about and what the words mean.
import { el, section } from '../dom';
import { count } from '../format';
import type { Head } from '../head';

const kWords: [string, string][] = [
  ['site', 'a distinct call stack that allocates; named by the deepest frame of the program\'s own code'],
  ['floor', 'a level at which memory changes hands: driver to process (physical), CUDA to library (allocations), framework to tensor'],
  ['peak', 'the moment at which the process held most physical memory'],
  ['residue', 'what is alive at the end'],
  ['hole', 'idle space between blocks of a segment'],
  ['granule', 'the 2 MiB unit in which physical memory is mapped'],
];

const kKeys: [string, string][] = [
  ['/', 'search frames and sites'], ['← →', 'move the moment (with Shift: far)'], ['+ −', 'zoom the timeline'], ['0', 'show the whole run'],
  ['f', 'fold or show runtime frames'], ['Esc', 'clear search and window'], ['?', 'this help'],
];

const kPointer: [string, string][] = [
  ['click', 'in the timeline: choose the moment; in the flame graph: zoom into the frame'], ['drag', 'choose a window of time'],
  ['wheel', 'zoom, with Shift: move'], ['double click', 'show the whole run'],
];

function pairs(list: [string, string][]): HTMLElement {
  return el('dl', { class: 'pairs' }, ...list.flatMap(([term, text]) => [el('dt', {}, term), el('dd', {}, text)]));
}

/// Whether what was measured is CUDA alone. On the make-believe GPU cuheap's pool is on unless it is told otherwise.
function poolText(head: Head): string {
  const pooled = head.processes.filter((process) => process.pooled).length;
  if (pooled === 0) return 'not used: all memory came from CUDA alone';
  const who = pooled === head.processes.length ? 'on' : `on in ${pooled} of ${head.processes.length} processes`;
  return `${who}: cuheap's own pool served allocations; a run with --pool off shows what CUDA alone would hold`;
}

export function about(head: Head): HTMLElement {
  const facts: [string, string][] = [
    ['recording', head.trace],
    ['made by', `cuheap ${head.cuheap}`],
    ['figures', head.exact
      ? `exact at every moment (${count(head.moments)} of them)`
      : `exact at ${count(head.moments)} moments, the peaks and the end among them; between them the timeline draws the extremes`],
    ['losses', head.loss.events === 0 && head.loss.reasons.length === 0 ? 'none' : `${count(head.loss.events)} events; ${head.loss.reasons.join('; ')}`],
    ...(head.ground === 'imported' ? [] : [['pool', poolText(head)] as [string, string]]),
    ...head.notes.map((note): [string, string] => ['note', note]),
    ['the same again', `cuheap report ${head.trace}`],
  ];
  const processes = head.processes.map((process) =>
    el('details', { open: head.processes.length === 1 }, el('summary', {}, `Process ${process.pid}${process.rank >= 0 ? `, rank ${process.rank}` : ''}${process.ended_orderly ? '' : ', not ended in an orderly way'}`),
      pairs(Object.entries(process.meta))));
  return section('about', 'About this recording', pairs(facts), ...processes, el('h3', {}, 'Words'), pairs(kWords));
}

export function helpDialog(): HTMLDialogElement {
  const dialog: HTMLDialogElement = el('dialog', { 'aria-labelledby': 'help-title', onclick: (event: MouseEvent) => { if (event.target === dialog) dialog.close(); } },
    el('div', { class: 'help' },
      el('h2', { id: 'help-title' }, 'Keys and words'), pairs(kKeys), el('h3', {}, 'Pointer'), pairs(kPointer), el('h3', {}, 'Words'), pairs(kWords),
      el('button', { type: 'button', onclick: () => dialog.close() }, 'Close')));
  return dialog;
}
