// The report's head: the JSON that page_data.cpp writes, as types. Drawn at once; the sections come when needed.
import type { SectionDescription } from './columns';

export type FloorName = 'physical' | 'allocation' | 'framework';

export interface TrackHead {
  device: number;
  floor: FloorName;
  peak: number;
  peak_moment: number;
  end: number;
  held_peak: number;
  held_end: number;
  allocations: number;
  frees: number;
  sites: number;
}

export interface Leak {
  verdict: 'leak' | 'growing_leak' | 'accumulates' | 'ratchet' | 'backlog' | 'filling' | 'warm_up' | 'plateau' | 'bounded' | 'undecided' | 'none';
  device: number;
  floor: FloorName;
  process: number;
  node: number;
  phases: string[];       // empty: the site was judged as a whole
  size_low: number;
  size_high: number;
  bytes_per_second: number;
  ci95: [number, number];
  bytes_per_window: number;
  windows: number;
  window: string;
  live_bytes: number;
  live_count: number;
  births: number;
  mature_births: number;
  survivors: number;
  residue_share: number;
  group_births: number[];
  group_survivors: number[];
  group_bytes: number[];
  group_begin_ns: number[];
  longest_life_seconds: number;
  reason: string;
  oom_in_seconds?: number;
  oom_interval?: [number, number];
  ran_out_ns?: number;
  survival: { births: number[]; alive: number[][] };
}

export interface Oom {
  at_ns: number;
  moment: number;
  device: number;
  floor: FloorName;
  request: number;
  node: number;
  phase: string;          // that was open; empty: none
  live: number;
  held: number;
  device_total: number;
  class: string;
  evidence: string[];
  advice: string[];
  will_not_help: string[];
  top_sites: { node: number; bytes: number; count: number }[];
}

export interface PinningSite {
  node: number;
  live_bytes: number;
  pinned_idle_bytes: number;
  sole_idle_bytes: number;
  segments: number;
}

export interface FloorSpace {
  device: number;
  floor: FloorName;
  live: number;
  held: number;
  fragmentation: number;
  segments_known: boolean;
  segment_count: number;
  idle_bytes: number;
  wholly_idle_bytes: number;
  largest_hole: number;
  holes: [number, number][];
  pinning_sites: PinningSite[];
}

export interface Space {
  name: 'peak' | 'end';
  moment: number;
  section: string;
  floors: FloorSpace[];
  segments_left_out: number;
}

export interface Head {
  version: number;
  cuheap: string;
  trace: string;
  ground: 'simulated' | 'gpu' | 'imported';
  loss: { events: number; reasons: string[] };
  start_wall_ms: number;
  duration_ns: number;
  last_request_ns: number;
  events: number;
  exact: boolean;
  moments: number;
  peak_moment: number;
  top_floor: FloorName | 'none';
  sites_judged: number;
  freed_late_bytes: number;   // only after the last allocation, though old
  freed_late_blocks: number;
  processes: { pid: number; rank: number; ended_orderly: boolean; pooled: boolean; meta: Record<string, string> }[];
  devices: { device: number; name: string; total: number }[];
  tracks: TrackHead[];
  phases: { name: string; process: number; depth: number; begin_ns: number; end_ns: number }[];
  marks: { t_ns: number; name: string }[];
  ooms: Oom[];
  leaks: Leak[];
  notes: string[];
  python_note: string;    // empty: nothing to say
  spaces: Space[];
  sections: Record<string, SectionDescription>;
}

export const kFloorTitles: Record<FloorName, string> = {
  physical: 'Physical memory',
  allocation: 'CUDA allocations',
  framework: 'Framework tensors',
};

export const kFloorHints: Record<FloorName, string> = {
  physical: 'what the process took from the driver',
  allocation: 'what CUDA calls handed to libraries and frameworks',
  framework: 'what the caching allocator handed to tensors',
};

export const kFloorWords: Record<FloorName, string> = {
  physical: 'physical memory',
  allocation: 'CUDA allocations',
  framework: 'framework tensors',
};

/// Verdicts that accuse; the others were looked at and found harmless.
export function accuses(leak: Leak): boolean {
  return leak.verdict === 'leak' || leak.verdict === 'growing_leak' || leak.verdict === 'accumulates' || leak.verdict === 'ratchet';
}

export const kVerdictWords: Record<Leak['verdict'], string> = {
  leak: 'Leak',
  growing_leak: 'Growing leak',
  accumulates: 'Accumulates',
  ratchet: 'Ratchet',
  backlog: 'Backlog',
  filling: 'Filling cache',
  warm_up: 'Warm-up',
  plateau: 'Plateau',
  bounded: 'Bounded',
  undecided: 'Undecided',
  none: 'None',
};
