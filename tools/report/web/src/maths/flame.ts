// The flame graph's tree: stacks merged from the outside in, frames of the runtime folded away on demand. Its shape depends
// only on the sites; values are filled in anew for every moment.
import { kKindRuntime, type Names } from '../names';

/// Frames that are none: the root, bytes without a stack, bytes of sites too small to have a series of their own.
export const kRoot = -1;
export const kNoStack = -2;
export const kOther = -3;

export interface FlameNode {
  frame: number;       // or one of the three above
  parent: number;
  depth: number;
  value: number;
  self: number;
  children: number[];  // by falling value once filled
}

export interface FlameCell {
  node: number;
  x: number;           // share of the root shown, 0..1
  width: number;
  depth: number;       // below the shown root
}

export class FlameTree {
  readonly nodes: FlameNode[] = [{ frame: kRoot, parent: -1, depth: 0, value: 0, self: 0, children: [] }];
  private readonly leafOfSite: number[];
  private readonly other: number;

  constructor(private readonly names: Names, sites: ArrayLike<number>, readonly folded: boolean) {
    const known = new Map<number, number>();  // parent * frames + frame
    const width = names.frameCount + 1;
    this.leafOfSite = Array.from(sites, (site) => {
      if (site === 0) return this.add(0, kNoStack);
      let at = 0;
      for (const frame of names.stack(site)) {
        if (folded && names.kind(frame) === kKindRuntime) continue;
        const key = at * width + frame;
        let next = known.get(key);
        if (next === undefined) {
          next = this.add(at, frame);
          known.set(key, next);
        }
        at = next;
      }
      return at;
    });
    this.other = this.add(0, kOther);
  }

  private add(parent: number, frame: number): number {
    const node = this.nodes.length;
    this.nodes.push({ frame, parent, depth: this.nodes[parent]!.depth + 1, value: 0, self: 0, children: [] });
    this.nodes[parent]!.children.push(node);
    return node;
  }

  /// `values` by site; `other` is a node of its own, so that the whole closes.
  fill(values: ArrayLike<number>, other = 0): void {
    for (const node of this.nodes) node.value = node.self = 0;
    for (let site = 0; site < this.leafOfSite.length; site += 1) this.nodes[this.leafOfSite[site]!]!.self += values[site]!;
    this.nodes[this.other]!.self += other;
    // Children come after their parents, so one walk from the end sums up.
    for (let i = this.nodes.length - 1; i >= 0; i -= 1) {
      const node = this.nodes[i]!;
      node.value += node.self;
      if (node.parent >= 0) this.nodes[node.parent]!.value += node.value;
    }
    for (const node of this.nodes) node.children.sort((a, b) => this.nodes[b]!.value - this.nodes[a]!.value || a - b);
  }

  /// Cells of the subtree of `root` that are at least `smallest` of its width; ancestors of `root` span everything above it.
  layout(root: number, smallest: number): FlameCell[] {
    const cells: FlameCell[] = [];
    const above: number[] = [];
    for (let at = root; at >= 0; at = this.nodes[at]!.parent) above.push(at);
    above.reverse().forEach((node, depth) => cells.push({ node, x: 0, width: 1, depth }));
    const total = this.nodes[root]!.value;
    if (total <= 0) return cells;
    const place = (node: number, x: number, depth: number): void => {
      let at = x;
      for (const child of this.nodes[node]!.children) {
        const width = this.nodes[child]!.value / total;
        if (width < smallest || width === 0) break;
        cells.push({ node: child, x: at, width, depth });
        place(child, at, depth + 1);
        at += width;
      }
    };
    place(root, 0, above.length);
    return cells;
  }

  /// Nodes whose frame matches, and the bytes below them, each byte counted once.
  search(wanted: string): { hits: Set<number>; sum: number } {
    const hits = new Set<number>();
    let sum = 0;
    const walk = (node: number, inside: boolean): void => {
      const { frame, value, children } = this.nodes[node]!;
      const hit = frame >= 0 && this.names.matches(frame, wanted);
      if (hit) hits.add(node);
      if (hit && !inside) sum += value;
      for (const child of children) walk(child, inside || hit);
    };
    walk(0, false);
    return { hits, sum };
  }

  /// Frames from the outside in down to `node`.
  path(node: number): number[] {
    const frames: number[] = [];
    for (let at = node; at > 0; at = this.nodes[at]!.parent) if (this.nodes[at]!.frame >= 0) frames.push(this.nodes[at]!.frame);
    return frames.reverse();
  }
}
