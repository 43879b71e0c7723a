import { expect, test } from 'vitest';
import type { Head, Leak } from '../src/head';
import { rateText, rateWithInterval, verdictCards } from '../src/maths/verdicts';

const kGiB = 2 ** 30;
const plain = (text: string) => text.replaceAll('\u00a0', ' ');

function head(changes: Partial<Head> = {}): Head {
  return {
    version: 1, cuheap: '0', trace: 't', ground: 'gpu', loss: { events: 0, reasons: [] }, start_wall_ms: 0, duration_ns: 1e9, last_request_ns: 1e9, events: 10, exact: true,
    moments: 3, peak_moment: 1, top_floor: 'framework', sites_judged: 12, freed_late_bytes: 0, freed_late_blocks: 0, processes: [], devices: [{ device: 0, name: 'd', total: 24 * kGiB }],
    tracks: [{ device: 0, floor: 'physical', peak: 10 * kGiB, peak_moment: 1, end: kGiB, held_peak: 10 * kGiB, held_end: kGiB, allocations: 1, frees: 1, sites: 1 }],
    phases: [], marks: [], ooms: [], leaks: [], notes: [], python_note: '', spaces: [], sections: {}, ...changes,
  };
}

function leak(changes: Partial<Leak> = {}): Leak {
  return {
    verdict: 'leak', device: 0, floor: 'framework', process: 0, node: 3, phases: [], size_low: 1, size_high: 1, bytes_per_second: 38912, ci95: [1, 2], bytes_per_window: 38912,
    windows: 10, window: 'request', live_bytes: 5, live_count: 1, births: 1, mature_births: 1, survivors: 1, residue_share: 1, group_births: [], group_survivors: [],
    group_bytes: [], group_begin_ns: [], longest_life_seconds: 0, reason: '', survival: { births: [], alive: [] }, ...changes,
  };
}

const cards = (of: Head) => verdictCards(of, (node) => `site ${node}`, (moment) => `moment ${moment}`);

test('a clean run says so in one card, with its peak', () => {
  const made = cards(head());
  expect(made.map(({ kind }) => kind)).toEqual(['clean']);
  expect(plain(made[0]!.number)).toBe('10.0 GiB');
  expect(plain(made[0]!.sentence)).toContain('no leak among 12 sites');
});

test('what was freed only at the end is said, and not called nothing', () => {
  expect(cards(head())[0]!.label).toBe('Nothing wrong found');
  const [card] = cards(head({ freed_late_bytes: 12 * kGiB, freed_late_blocks: 3 }));
  expect(card!.label).toBe('No leak found');
  expect(plain(card!.sentence)).toContain('12.0 GiB in 3 old blocks went only after the last allocation');
  expect(plain(cards(head({ freed_late_bytes: 5, freed_late_blocks: 1 }))[0]!.sentence)).toContain('in 1 old block went');
});

test('a harmless verdict is no card', () => {
  expect(cards(head({ leaks: [leak({ verdict: 'bounded' })] })).map(({ kind }) => kind)).toEqual(['clean']);
});

test('the worst comes first, and four are the most', () => {
  const leaks = [leak(), leak({ node: 4 }), leak({ node: 5 }), leak({ node: 6 })];
  const made = cards(head({ leaks }));
  expect(made.map(({ kind }) => kind)).toEqual(['leak', 'leak', 'leak', 'peak']);
  expect(plain(made[0]!.number)).toBe('38.0 KiB');
  expect(made[0]!.unit).toBe('per request');
});

test('one function that leaks by two stacks is one card, with the sum', () => {
  const made = verdictCards(head({ leaks: [leak(), leak({ node: 9 })] }), () => 'same', () => '');
  expect(made.map(({ kind }) => kind)).toEqual(['leak', 'peak']);
  expect(plain(made[0]!.number)).toBe('76.0 KiB');
  expect(made[0]!.sentence).toContain('in same by 2 stacks');
});

test('a leak card tells when the device is full', () => {
  const [card] = cards(head({ leaks: [leak({ oom_in_seconds: 22200, oom_interval: [20400, 24600] })] }));
  expect(plain(card!.sentence)).toContain('full in 6 h 10 min (5 h 40 min – 6 h 50 min)');
});

test('a leak card of a run that ended out of memory says when, and nothing of the time to it', () => {
  const [card] = cards(head({ leaks: [leak({ oom_in_seconds: 22200, oom_interval: [20400, 24600], ran_out_ns: 2.5e9 })] }));
  expect(plain(card!.sentence)).toContain('ran out of memory after 2.50 s');
  expect(card!.sentence).not.toContain('full in');
});

test('every card has a number', () => {
  for (const card of cards(head({ leaks: [leak({ bytes_per_second: 0 })] }))) expect(card.number).toMatch(/\d/);
  for (const card of cards(head({ tracks: [] }))) expect(card.number).toMatch(/\d/);
});

test('a rate reads in the unit that fits', () => {
  expect(plain(rateText(leak({ window: '4,120 allocations' }), 'gpu'))).toBe('38.0 KiB per second');
  expect(plain(rateText(leak({ window: '', bytes_per_second: 100 }), 'gpu'))).toBe('5.86 KiB per minute');
  expect(plain(rateText(leak({ window: '', bytes_per_second: 1 }), 'gpu'))).toBe('3.52 KiB per hour');
});

test('a rate and its interval are in one unit', () => {
  const said = (changes: Partial<Leak>) => plain(rateWithInterval(leak(changes), 'gpu'));
  expect(said({ window: '', bytes_per_second: 253 * kGiB, ci95: [250 * kGiB, 255 * kGiB] })).toBe('253 GiB per second; 95 % between 250 GiB and 255 GiB');
  expect(said({ window: '', bytes_per_second: 100, ci95: [50, 200] })).toBe('5.86 KiB per minute; 95 % between 2.93 KiB and 11.7 KiB');
  expect(said({ bytes_per_window: 1024, bytes_per_second: 4096, ci95: [2048, 8192] })).toBe('1.00 KiB per request; 95 % between 512 B and 2.00 KiB');
});

test('the card of an out-of-memory speaks of the one that ended the run', () => {
  const oom = { at_ns: 1, moment: 1, device: 0, floor: 'framework' as const, request: kGiB, node: 0, phase: '', live: 1, held: 1, device_total: 0, class: 'recovered',
    evidence: [], advice: [], will_not_help: [], top_sites: [] };
  const made = cards(head({ ooms: [oom, { ...oom, at_ns: 2, request: 5 * kGiB, class: 'too_big' }, { ...oom, at_ns: 3 }] }));
  expect(plain(made[0]!.number)).toBe('5.00 GiB');
  expect(made[0]!.label).toContain('of 3');
});

test('on the make-believe GPU a leak is told by what is born, and a second is called simulated', () => {
  const births = leak({ window: '639 births at this site', bytes_per_window: 1.62 * 2 ** 20, bytes_per_second: 123 * 2 ** 20, ci95: [100 * 2 ** 20, 150 * 2 ** 20], oom_in_seconds: 12 });
  const [card] = cards(head({ ground: 'simulated', leaks: [births] }));
  expect(plain(card!.number)).toBe('1.62 MiB');
  expect(card!.unit).toBe('per 639 births at this site');
  expect(plain(card!.sentence)).toContain('full in 12.0 s of simulated time');
  expect(plain(rateText(leak({ window: '', bytes_per_second: 2048 }), 'simulated'))).toBe('2.00 KiB per simulated second');
  expect(rateWithInterval(births, 'simulated')).toContain('in this run');
  expect(plain(rateText(births, 'gpu'))).toBe('123 MiB per second');
});

test('the peak says whose it is, and of which floor its figures are', () => {
  const site = { name: 'track (leak.cu.cpp:9)', bytes: 4 * kGiB, live: 8 * kGiB };
  const [card] = verdictCards(head(), (node) => `site ${node}`, () => 'noon', site);
  expect(plain(card!.sentence)).toContain('of physical memory at noon');
  expect(plain(card!.sentence)).toContain('50 % of the 8.00 GiB of framework tensors then live is of track (leak.cu.cpp:9)');
});

test('what lies idle only at the end is a card, unless it could be given back', () => {
  const floor = { device: 0, floor: 'physical' as const, live: kGiB, held: 5 * kGiB, fragmentation: 0.8, segments_known: true, segment_count: 9, idle_bytes: 4 * kGiB,
    wholly_idle_bytes: kGiB, largest_hole: 1, holes: [], pinning_sites: [] };
  const space = (name: 'peak' | 'end', changes: Partial<typeof floor>) => ({ name, moment: name === 'end' ? 2 : 1, section: '', floors: [{ ...floor, ...changes }], segments_left_out: 0 });
  const full = space('peak', { live: 5 * kGiB, idle_bytes: 0, wholly_idle_bytes: 0 });
  const [card] = cards(head({ spaces: [full, space('end', {})] }));
  expect(card).toMatchObject({ kind: 'fragmentation', label: 'Held but idle at the end', moment: 2, bad: true });
  expect(plain(card!.number)).toBe('3.00 GiB');
  expect(cards(head({ spaces: [full, space('end', { wholly_idle_bytes: 4 * kGiB })] }))[0]!.kind).toBe('clean');
});
