// Names of frames and stacks. A node is a frame below its caller; a site is the node of its innermost frame.
import type { Section } from './columns';

/// Order of FrameClass in tools/analysis/flame.h.
export const kKinds = ['Python', 'C++', 'CUDA libraries', 'Runtime'] as const;
export const kKindRuntime = 3;

export interface FrameName {
  function: string;
  file: string;
  line: number;
  module: string;
  kind: number;
}

export class Names {
  private readonly strings: string[];
  private readonly functions: Float64Array;
  private readonly files: Float64Array;
  private readonly lines: Float64Array;
  private readonly modules: Float64Array;
  private readonly kinds: Float64Array;
  private readonly bare: Float64Array;
  private readonly places: Float64Array;
  readonly parent: Float64Array;
  readonly frameOf: Float64Array;
  private readonly ownBack: Float64Array;     // the node that names a stack is so many back
  private readonly callers: Float64Array;     // into callerTexts: what stands in a site's name behind its own frame
  private readonly callerTexts: string[];

  constructor(section: Section) {
    this.strings = section.text('string');
    this.functions = section.column('function');
    this.files = section.column('file');
    this.lines = section.column('line');
    this.modules = section.column('module');
    this.kinds = section.column('kind');
    this.bare = section.column('bare');
    this.places = section.column('place');
    this.parent = section.column('parent');
    this.frameOf = section.column('frame');
    this.ownBack = section.column('own_back');
    this.callers = section.column('callers');
    this.callerTexts = section.text('caller_text');
  }

  get frameCount(): number {
    return this.functions.length;
  }

  frame(frame: number): FrameName {
    return {
      function: this.strings[this.functions[frame]!] || '?',
      file: this.strings[this.files[frame]!] ?? '',
      line: this.lines[frame]!,
      module: this.strings[this.modules[frame]!] ?? '',
      kind: this.kind(frame),
    };
  }

  kind(frame: number): number {
    return this.kinds[frame]! >> 1;
  }

  /// True for allocators, their wrappers, interpreters and framework internals: they say how memory was asked for, not why.
  isHowNotWhy(frame: number): boolean {
    return this.kinds[frame]! % 2 === 1;
  }

  /// Frame ids of a stack, outermost first.
  stack(node: number): number[] {
    const frames: number[] = [];
    for (let at = node; at !== 0; at = this.parent[at]!) frames.push(this.frameOf[at]!);
    return frames.reverse();
  }

  /// The frame that names a stack: what the CLI names it by (tools/report/page_names.cpp). -1: no stack.
  ownFrame(node: number): number {
    return node === 0 ? -1 : this.frameOf[node - this.ownBack[node]!]!;
  }

  /// A frame's function without parameters and template arguments: what fits into a cell.
  bareName(frame: number): string {
    return this.strings[this.bare[frame]!] || '?';
  }

  siteName(node: number): { name: string; place: string } {
    const { name, place, by } = this.nameParts(node);
    return { name, place: place + by };
  }

  /// The whole in one line, as the CLI prints it: where two sites of the page would carry one name, with their callers.
  title(node: number): string {
    const { name, place, by } = this.nameParts(node);
    return `${name}${place ? ` (${place})` : ''}${by}`;
  }

  private nameParts(node: number): { name: string; place: string; by: string } {
    if (node === 0) return { name: 'no stack', place: '', by: '' };
    const frame = this.ownFrame(node);
    return { name: this.bareName(frame), place: this.place(frame), by: this.callerTexts[this.callers[node]!] ?? '' };
  }

  private place(frame: number): string {
    return this.strings[this.places[frame]!] ?? '';
  }

  frameLine(frame: number): string {
    const { function: name, file, line, module } = this.frame(frame);
    const where = file ? (line > 0 ? `${file}:${line}` : file) : module;
    return where ? `${name}  (${where})` : name;
  }

  /// Innermost first, as debuggers print it.
  stackText(node: number): string {
    return this.stack(node).reverse().map((frame) => this.frameLine(frame)).join('\n');
  }

  matches(frame: number, wanted: string): boolean {
    const { function: name, file, module } = this.frame(frame);
    return name.toLowerCase().includes(wanted) || file.toLowerCase().includes(wanted) || module.toLowerCase().includes(wanted);
  }
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
