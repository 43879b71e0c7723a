// Report: the data of the page, unpacked when asked for, and kept.
import { unpack, type Section } from './columns';
import type { FloorName, Head, TrackHead } from './head';
import { Level } from './maths/level';
import { upperBound } from './maths/pyramid';
import { Sites } from './maths/sites';
import { Names } from './names';

export class Track {
  readonly level: Level;   // of live bytes
  readonly held: Level;

  constructor(readonly number: number, readonly head: TrackHead, section: Section) {
    this.level = new Level(section.column('last'), section.column('above'), section.column('below'));
    this.held = new Level(section.column('held_last'), section.column('held_above'), section.column('held_below'));
  }

  get live(): Float64Array {
    return this.level.last;
  }
}

export interface DriverSamples {
  times: Float64Array;
  used: Float64Array;
}

export class Report {
  readonly head: Head;
  private readonly sections = new Map<string, Promise<Section>>();
  private readonly trackPromises = new Map<number, Promise<Track>>();
  private readonly sitePromises = new Map<number, Promise<Sites>>();
  private namesPromise: Promise<Names> | null = null;

  constructor(private readonly document: Document) {
    const head = document.getElementById('cuheap-head');
    if (!head?.textContent) throw new Error('This file holds no recording: it is the empty page template.');
    this.head = JSON.parse(head.textContent) as Head;
    if (this.head.version !== 1) throw new Error(`This page cannot read data of version ${this.head.version}.`);
  }

  section(name: string): Promise<Section> {
    let section = this.sections.get(name);
    if (!section) {
      const element = this.document.getElementById(`cuheap-${name}`);
      const description = this.head.sections[name];
      if (!element?.textContent || !description) return Promise.reject(new Error(`the report lacks its section ${name}`));
      section = unpack(element.textContent, description);
      element.remove();  // the text is several times the size of what it holds
      this.sections.set(name, section);
    }
    return section;
  }

  async times(): Promise<Float64Array> {
    return (await this.section('moments')).column('time');
  }

  names(): Promise<Names> {
    this.namesPromise ??= this.section('names').then((section) => new Names(section));
    return this.namesPromise;
  }

  track(number: number): Promise<Track> {
    let track = this.trackPromises.get(number);
    if (!track) {
      track = this.section(`track${number}`).then((section) => new Track(number, this.head.tracks[number]!, section));
      this.trackPromises.set(number, track);
    }
    return track;
  }

  sites(track: number): Promise<Sites> {
    let sites = this.sitePromises.get(track);
    if (!sites) {
      sites = Promise.all([this.section(`sites${track}`), this.section(`series${track}`)]).then(([table, series]) => new Sites(table, series));
      this.sitePromises.set(track, sites);
    }
    return sites;
  }

  async driver(device: number): Promise<DriverSamples> {
    const section = await this.section('driver');
    const devices = section.column('device');
    const mine = (_: number, i: number) => devices[i] === device;
    return { times: section.column('time').filter(mine), used: section.column('used').filter(mine) };
  }

  trackNumber(device: number, floor: FloorName): number {
    return this.head.tracks.findIndex((track) => track.device === device && track.floor === floor);
  }

  deviceTotal(device: number): number {
    return this.head.devices.find((entry) => entry.device === device)?.total ?? 0;
  }
}

/// The last moment at or before a time.
export function momentAt(times: Float64Array, ns: number): number {
  return Math.max(0, upperBound(times, ns) - 1);
}
