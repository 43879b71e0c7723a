// Groups for the stacked timeline: the largest few of a kind with a colour each, the rest as "other", which closes the sum.
import { kCategories } from '../colours';
import { baseName, type Names } from '../names';
import type { Track } from '../report';
import type { Sites } from './sites';

export type GroupBy = 'site' | 'module';

export interface Group {
  key: string;
  name: string;
  place: string;
  colour: string;       // empty: other
  sites: number[];
  live: Float64Array;   // by moment
}

export interface Groups {
  by: GroupBy;
  list: Group[];        // "other" last
  ofSite: Int32Array;   // index into list
}

export function group(track: Track, sites: Sites, names: Names, by: GroupBy): Groups {
  const members = new Map<string, { name: string; place: string; sites: number[]; weight: number }>();
  for (let site = 0; site < sites.length; site += 1) {
    const { key, name, place } = keyOf(names, sites.node[site]!, by);
    let entry = members.get(key);
    if (!entry) members.set(key, (entry = { name, place, sites: [], weight: 0 }));
    entry.sites.push(site);
    entry.weight += sites.liveAt(site, track.head.peak_moment);
  }
  const ranked = [...members.entries()].sort(([, a], [, b]) => b.weight - a.weight);
  const chosen = ranked.slice(0, kCategories.length).filter(([, entry]) => entry.weight > 0);

  const other = Float64Array.from(track.live);
  const ofSite = new Int32Array(sites.length).fill(chosen.length);
  const list: Group[] = chosen.map(([key, entry], i) => {
    const live = new Float64Array(track.live.length);
    for (const site of entry.sites) {
      sites.addTo(live, site);
      ofSite[site] = i;
    }
    for (let m = 0; m < live.length; m += 1) other[m]! -= live[m]!;
    return { key, name: entry.name, place: entry.place, colour: kCategories[i]!, sites: entry.sites, live };
  });
  const rest = ranked.slice(chosen.length).flatMap(([, entry]) => entry.sites);
  list.push({ key: '', name: 'other', place: '', colour: '', sites: rest, live: other });
  return { by, list, ofSite };
}

/// The name that holds most at a moment.
export function largestGroup(sites: Sites, names: Names, moment: number): { name: string; bytes: number } | undefined {
  const sums = new Map<string, number>();
  for (let site = 0; site < sites.length; site += 1) {
    const name = names.title(sites.node[site]!);
    sums.set(name, (sums.get(name) ?? 0) + sites.liveAt(site, moment));
  }
  return [...sums].map(([name, bytes]) => ({ name, bytes })).sort((a, b) => b.bytes - a.bytes)[0];
}

function keyOf(names: Names, node: number, by: GroupBy): { key: string; name: string; place: string } {
  const frame = names.ownFrame(node);
  if (frame < 0) return { key: '?', name: 'no stack', place: '' };
  if (by === 'site') {
    const { name, place } = names.siteName(node);
    return { key: `${name} ${names.frame(frame).file} ${place}`, name, place };
  }
  const { file, module } = names.frame(frame);
  return { key: module || file, name: baseName(module || file) || '?', place: '' };
}
