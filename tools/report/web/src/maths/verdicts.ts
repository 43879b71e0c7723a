// The verdict cards: at most four sentences with a number each, worst first, none that repeats another. A clean run gets one.
import { bytes, count, duration, percent } from '../format';
import { accuses, kFloorWords, type FloorSpace, type Head, type Leak, type Space, type TrackHead } from '../head';
import { worstFirst } from './ooms';

export type CardKind = 'oom' | 'leak' | 'fragmentation' | 'peak' | 'clean' | 'empty' | 'undecided';

export interface Card {
  kind: CardKind;
  label: string;
  number: string;        // the figure, large
  unit?: string;         // behind it, small
  sentence: string;
  bad: boolean;
  proof: string;         // id of the section that proves it
  moment?: number;       // to show with it
  track?: number;
  leak?: number;         // index into head.leaks
}

type Ground = Head['ground'];

const kMost = 4;
const kFragmentationWorthSaying = 0.05;
const kIdleWorthSaying = 64 * 2 ** 20;

/// What held most at the peak of the program: its name, its bytes, and those of the whole floor.
export interface TopSite {
  name: string;
  bytes: number;
  live: number;
}

/// `name` gives the short name of a node.
export function verdictCards(head: Head, name: (node: number) => string, clock: (moment: number) => string, top?: TopSite): Card[] {
  if (head.tracks.length === 0) {
    return [{ kind: 'empty', label: 'Nothing recorded', number: '0 B', bad: false, proof: 'about',
      sentence: 'No device memory was allocated while this was recorded. A run that reaches the GPU would fill this page.' }];
  }
  const cards: Card[] = [...oomCards(head, name), ...leakCards(head, name), ...fragmentationCards(head, name)];
  const peak = peakCard(head, clock, top);
  if (cards.length === 0 && peak) {
    const undecided = head.leaks.filter(({ verdict }) => verdict === 'undecided').length;
    const late = lateText(head);
    return [{ ...peak, kind: 'clean', label: late ? 'No leak found' : 'Nothing wrong found',
      sentence: `${peak.sentence} No out-of-memory, no leak among ${head.sites_judged} sites judged${undecided > 0 ? ` (${undecided} undecided)` : ''}${fragmentationClause(head)}.${late ? ` ${late}` : ''}` }];
  }
  const shown = cards.slice(0, kMost - 1);
  if (peak) shown.push(peak);
  return shown;
}

/// What was freed only as the program ended: it may have been kept on purpose or forgotten. Empty: nothing was.
export function lateText(head: Head): string {
  if (!(head.freed_late_bytes > 0)) return '';
  const blocks = `${count(head.freed_late_blocks)} old block${head.freed_late_blocks === 1 ? '' : 's'}`;
  return `${bytes(head.freed_late_bytes)} in ${blocks} went only after the last allocation, most often because the program ended: kept to the end on purpose, or forgotten.`;
}

function trackOf(head: Head, device: number, floor: string): number | undefined {
  const track = head.tracks.findIndex((entry) => entry.device === device && entry.floor === floor);
  return track < 0 ? undefined : track;
}

function oomCards(head: Head, name: (node: number) => string): Card[] {
  const fatal = worstFirst(head.ooms)[0];
  if (!fatal) return [];
  const more = head.ooms.length > 1 ? ` (1 of ${head.ooms.length})` : '';
  const by = fatal.node > 0 ? ` in ${name(fatal.node)}` : '';
  const advice = fatal.advice[0] ? ` ${upperFirst(fatal.advice[0])}.`.replace('..', '.') : '';
  return [{ kind: 'oom', label: `Out of memory${more}`, number: bytes(fatal.request), bad: true, proof: 'ooms', moment: fatal.moment,
    track: trackOf(head, fatal.device, fatal.floor),
    sentence: `asked for${by}${by ? ',' : ''} with ${bytes(fatal.live)} live and ${bytes(fatal.held)} held${fatal.device_total > 0 ? ` of ${bytes(fatal.device_total)}` : ''}: ${fatal.class.replaceAll('_', ' ')}.${advice}` }];
}

/// In what a leak's rate reads best: a window of the program, else a second, minute or hour; so many bytes make one per second.
/// On the make-believe GPU no kernel takes its time: there what a number of births leaves says more than a second.
function rateUnit(leak: Leak, ground: Ground): { per: string; factor: number } {
  const perSecond = leak.bytes_per_second;
  const isCounted = leak.window !== '' && leak.bytes_per_window > 0;
  if (isCounted && (ground === 'simulated' || !/\d/.test(leak.window))) return { per: leak.window.replace(/^an? /, ''), factor: leak.bytes_per_window / perSecond };
  const { per, factor } = perSecond >= 1024 ? { per: 'second', factor: 1 } : perSecond * 60 >= 1024 ? { per: 'minute', factor: 60 } : { per: 'hour', factor: 3600 };
  return { per: ground === 'simulated' ? `simulated ${per}` : per, factor };
}

/// "38 KiB per request".
export function rateText(leak: Leak, ground: Ground): string {
  const { per, factor } = rateUnit(leak, ground);
  return `${bytes(leak.bytes_per_second * factor)} per ${per}`;
}

/// The rate with its interval, both in one unit.
export function rateWithInterval(leak: Leak, ground: Ground): string {
  const [low, high] = leak.ci95.map((end) => bytes(end * rateUnit(leak, ground).factor));
  const note = ground === 'simulated' ? ' in this run; another run of a simulation may differ by more' : '';
  return `${rateText(leak, ground)}; 95 % between ${low} and ${high}${note}`;
}

/// The figure of a card and the words behind it.
function rateParts(leak: Leak, left: string, ground: Ground): { number: string; unit?: string } {
  if (!(leak.bytes_per_second > 0)) return { number: left };
  const [number, unit] = rateText(leak, ground).split(/ (?=per )/);
  return { number: number!, unit };
}

export function oomText(leak: Leak, ground: Ground): string {
  if (leak.ran_out_ns !== undefined) return `ran out of memory after ${duration(leak.ran_out_ns / 1e9)}`;
  if (leak.oom_in_seconds === undefined) return '';
  const [low, high] = leak.oom_interval?.map(duration) ?? [];
  const interval = low && low !== high ? ` (${low} – ${high})` : '';
  return `full in ${duration(leak.oom_in_seconds)}${interval}${ground === 'simulated' ? ' of simulated time' : ''}`;
}

function leakCards(head: Head, name: (node: number) => string): Card[] {
  return head.leaks
    .map((leak, index) => ({ leak, index }))
    .filter(({ leak }) => accuses(leak))
    .reduce<{ leak: Leak; index: number; stacks: number }[]>((merged, { leak, index }) => {
      // One function reached by several stacks is one card: their bytes and rates add up.
      const same = merged.find((entry) => entry.leak.verdict === leak.verdict && entry.leak.window === leak.window && name(entry.leak.node) === name(leak.node));
      if (!same) merged.push({ leak: { ...leak }, index, stacks: 1 });
      else {
        same.stacks += 1;
        same.leak.live_bytes += leak.live_bytes;
        same.leak.bytes_per_second += leak.bytes_per_second;
        same.leak.bytes_per_window += leak.bytes_per_window;
      }
      return merged;
    }, [])
    .map(({ leak, index, stacks }) => {
      const full = oomText(leak, head.ground);
      const label = { leak: 'Leak', growing_leak: 'Growing leak', accumulates: 'Never freed', ratchet: 'Ratchet' }[leak.verdict as 'leak'];
      const left = `${bytes(leak.live_bytes)} left`;
      return { kind: 'leak' as const, label, ...rateParts(leak, left, head.ground), bad: true, proof: 'leaks', leak: index,
        track: trackOf(head, leak.device, leak.floor),
        sentence: `in ${name(leak.node)}${stacks > 1 ? ` by ${stacks} stacks` : ''}${leak.bytes_per_second > 0 ? `, ${left}` : ''}${full ? `; ${full}` : ''}.` };
    });
}

interface Idle {
  floor: FloorSpace;
  space: Space;
  bytes: number;
}

/// At the end a cache may hold what nobody needs any more, and could give it back: only holes between live blocks count there.
function idleBytes(space: Space, floor: FloorSpace): number {
  if (space.name === 'peak') return floor.held - floor.live;
  return floor.segments_known ? floor.idle_bytes - floor.wholly_idle_bytes : 0;
}

/// The floor whose holes cost most, of the moments given.
function worstIdle(head: Head, moments: Space['name'][]): Idle | undefined {
  return head.spaces.filter(({ name }) => moments.includes(name))
    .flatMap((space) => space.floors.filter(({ device }) => device >= 0).map((floor) => ({ floor, space, bytes: idleBytes(space, floor) })))
    .sort((a, b) => b.bytes - a.bytes)[0];
}

function fragmentationCards(head: Head, name: (node: number) => string): Card[] {
  const worst = worstIdle(head, ['peak', 'end']);
  if (!worst || worst.bytes < kFragmentationWorthSaying * worst.floor.held || worst.bytes < kIdleWorthSaying) return [];
  const { floor, space, bytes: idle } = worst;
  const sites = floor.pinning_sites;
  const pinned = sites.length === 0 ? '' : sites.length === 1 ? `, pinned by ${name(sites[0]!.node)}` : `, pinned by ${sites.length >= 50 ? 'over 50' : sites.length} sites, most by ${name(sites[0]!.node)}`;
  return [{ kind: 'fragmentation', label: `Held but idle at the ${space.name}`, number: bytes(idle), bad: idle >= 0.15 * floor.held, proof: 'space',
    moment: space.moment, track: trackOf(head, floor.device, floor.floor),
    sentence: `${percent(idle, floor.held)} of what ${kFloorWords[floor.floor]} hold${pinned}.` }];
}

function fragmentationClause(head: Head): string {
  const worst = worstIdle(head, ['peak']);
  return worst && worst.floor.held > 0 ? `, ${percent(worst.bytes, worst.floor.held)} held but idle at the peak` : '';
}

/// The track of the device that held most.
export function peakTrack(head: Head): TrackHead | undefined {
  const devices = head.tracks.filter(({ device, floor }) => device >= 0 && floor === 'physical');
  return devices.sort((a, b) => b.held_peak - a.held_peak || b.peak - a.peak)[0] ?? head.tracks[0];
}

function peakCard(head: Head, clock: (moment: number) => string, site?: TopSite): Card | null {
  const track = peakTrack(head);
  if (!track) return null;
  const total = head.devices.find(({ device }) => device === track.device)?.total ?? 0;
  const peak = Math.max(track.held_peak, track.peak);
  const share = total > 0 ? `, ${percent(peak, total)} of ${bytes(total)}` : '';
  const top = head.tracks.findIndex(({ device, floor }) => device === track.device && floor === head.top_floor);
  return { kind: 'peak', label: 'Peak', number: bytes(peak), bad: total > 0 && peak > 0.95 * total, proof: 'flame', moment: head.peak_moment,
    track: top >= 0 ? top : head.tracks.indexOf(track),
    sentence: `${track.floor === 'physical' ? 'of physical memory ' : ''}at ${clock(head.peak_moment)}${share}${siteClause(head, site)}; ${bytes(Math.max(track.held_end, track.end))} at the end.` };
}

/// Whose the peak is, on the floor that the program itself allocates on, which holds less than the driver gave.
function siteClause(head: Head, site?: TopSite): string {
  if (!site || !(site.bytes > 0) || head.top_floor === 'none') return '';
  return `; ${percent(site.bytes, site.live)} of the ${bytes(site.live)} of ${kFloorWords[head.top_floor]} then live is of ${site.name}`;
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

