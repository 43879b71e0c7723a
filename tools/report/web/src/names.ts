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
  private readonly ranks: Float64Array;
  readonly parent: Float64Array;
  readonly frameOf: Float64Array;

  constructor(section: Section) {
    this.strings = section.text('string');
    this.functions = section.column('function');
    this.files = section.column('file');
    this.lines = section.column('line');
    this.modules = section.column('module');
    this.kinds = section.column('kind');
    this.ranks = section.column('rank');
    this.parent = section.column('parent');
    this.frameOf = section.column('frame');
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

  /// The frame that names a stack: the innermost of the best rank (name_rank in tools/analysis/short_name.h), as in the CLI.
  ownFrame(node: number): number {
    let best = -1;
    let rank = Infinity;
    for (let at = node; at !== 0 && rank > 0; at = this.parent[at]!) {
      const frame = this.frameOf[at]!;
      if (this.ranks[frame]! < rank) [best, rank] = [frame, this.ranks[frame]!];
    }
    return best;
  }

  siteName(node: number): { name: string; place: string } {
    const frame = this.ownFrame(node);
    if (frame < 0) return { name: 'no stack', place: '' };
    return { name: shortFunction(this.frame(frame).function), place: this.place(frame) };
  }

  place(frame: number): string {
    const { file, line, module } = this.frame(frame);
    if (line > 0) return `${baseName(file)}:${line}`;
    return baseName(module || file);
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

/// A C++ name without its parameters and template arguments: what fits into a cell.
export function shortFunction(name: string): string {
  if (name.startsWith('<')) return name;  // Python: <module>, <lambda>
  let depth = 0;
  let short = '';
  const text = name.replace(/operator(<<=?|>>=?|<=?>?|>=?|\(\))/g, (_match, sign: string) => `operator${'\u0001'.repeat(sign.length)}`);
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i]!;
    if (c === '<') depth += 1;
    else if (c === '>') depth -= 1;
    else if (c === '(' && depth === 0) {
      if (text.startsWith('(anonymous namespace)', i)) {
        i += '(anonymous namespace)'.length - 1;
        if (text.startsWith('::', i + 1)) i += 2;
        continue;
      }
      break;
    } else if (depth === 0) short += c;
  }
  if (text.includes('\u0001')) return name.split('(')[0]! || name;
  // Templates are printed with their return type.
  if (!short.startsWith('operator')) short = short.slice(short.lastIndexOf(' ') + 1);
  return short || name;
}
