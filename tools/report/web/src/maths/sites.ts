// The sites of a track and their bytes at any moment. Figures at a moment are exact; what the sites here do not hold is the
// track's "other".
import type { Section } from '../columns';
import { upperBound } from './pyramid';

export interface SiteFigures {
  live: number;
  count: number;
  allocated: number;    // bytes since the start
  allocations: number;  // since the start
}

export class Sites {
  readonly node: Float64Array;
  readonly peak: Float64Array;
  readonly allocations: Float64Array;
  readonly frees: Float64Array;
  readonly allocated: Float64Array;
  readonly lifeNs: Float64Array;
  private readonly begin: Float64Array;
  private readonly moments: Float64Array;
  private readonly lives: Float64Array;
  private readonly counts: Float64Array;
  private readonly allocatedThen: Float64Array;
  private readonly allocationsThen: Float64Array;

  constructor(table: Section, series: Section) {
    this.node = table.column('node');
    this.peak = table.column('peak');
    this.allocations = table.column('allocations');
    this.frees = table.column('frees');
    this.allocated = table.column('allocated');
    this.lifeNs = table.column('life');
    const entries = table.column('entries');
    this.begin = new Float64Array(entries.length + 1);
    for (let site = 0; site < entries.length; site += 1) this.begin[site + 1] = this.begin[site]! + entries[site]!;
    this.moments = absoluteMoments(series.column('moment'), this.begin);
    this.lives = series.column('live');
    this.counts = series.column('count');
    this.allocatedThen = series.column('allocated');
    this.allocationsThen = series.column('allocations');
  }

  get length(): number {
    return this.node.length;
  }

  /// Entry that holds at `moment`; -1: before the site's first.
  private entry(site: number, moment: number): number {
    const at = upperBound(this.moments, moment, this.begin[site]!, this.begin[site + 1]!) - 1;
    return at < this.begin[site]! ? -1 : at;
  }

  at(site: number, moment: number): SiteFigures {
    const entry = this.entry(site, moment);
    if (entry < 0) return { live: 0, count: 0, allocated: 0, allocations: 0 };
    return {
      live: this.lives[entry]!,
      count: this.counts[entry]!,
      allocated: this.allocatedThen[entry]!,
      allocations: this.allocationsThen[entry]!,
    };
  }

  liveAt(site: number, moment: number): number {
    const entry = this.entry(site, moment);
    return entry < 0 ? 0 : this.lives[entry]!;
  }

  /// What changed after moment `from` up to and with moment `to`.
  change(site: number, from: number, to: number): SiteFigures {
    const before = this.at(site, from);
    const after = this.at(site, to);
    return {
      live: after.live - before.live,
      count: after.count - before.count,
      allocated: after.allocated - before.allocated,
      allocations: after.allocations - before.allocations,
    };
  }

  /// Adds the site's bytes at every moment to `sum`.
  addTo(sum: Float64Array, site: number): void {
    const end = this.begin[site + 1]!;
    for (let entry = this.begin[site]!; entry < end; entry += 1) {
      const until = entry + 1 < end ? this.moments[entry + 1]! : sum.length;
      const live = this.lives[entry]!;
      if (live === 0) continue;
      for (let moment = this.moments[entry]!; moment < until; moment += 1) sum[moment]! += live;
    }
  }

  /// Steps of one site, for its own small chart.
  series(site: number): { moments: Float64Array; live: Float64Array } {
    const from = this.begin[site]!;
    const to = this.begin[site + 1]!;
    return { moments: this.moments.subarray(from, to), live: this.lives.subarray(from, to) };
  }
}

function absoluteMoments(steps: Float64Array, begin: Float64Array): Float64Array {
  const moments = new Float64Array(steps.length);
  for (let site = 0; site + 1 < begin.length; site += 1) {
    let moment = 0;
    for (let entry = begin[site]!; entry < begin[site + 1]!; entry += 1) {
      moment += steps[entry]!;
      moments[entry] = moment;
    }
  }
  return moments;
}
