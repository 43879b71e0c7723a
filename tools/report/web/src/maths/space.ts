// The address space at a moment: segments with their blocks, and the holes between, each with the blocks that pin it.
import type { Section } from '../columns';

export interface Block {
  offset: number;
  size: number;
  node: number;
}

export interface Segment {
  address: number;
  size: number;
  device: number;
  floor: number;
  node: number;
  joins: boolean;     // contiguous with the next one
  blocks: Block[];
  live: number;
}

export interface Hole {
  offset: number;
  size: number;
  before: Block | null;
  after: Block | null;
}

export function segmentsOf(section: Section): Segment[] {
  const address = section.column('address');
  const size = section.column('size');
  const device = section.column('device');
  const floor = section.column('floor');
  const node = section.column('node');
  const joins = section.column('joins');
  const counts = section.column('blocks');
  const offsets = section.column('block_offset');
  const sizes = section.column('block_size');
  const nodes = section.column('block_node');
  const segments: Segment[] = [];
  let at = 0;
  for (let i = 0; i < address.length; i += 1) {
    const blocks: Block[] = [];
    let live = 0;
    for (const end = at + counts[i]!; at < end; at += 1) {
      blocks.push({ offset: offsets[at]!, size: sizes[at]!, node: nodes[at]! });
      live += sizes[at]!;
    }
    segments.push({ address: address[i]!, size: size[i]!, device: device[i]!, floor: floor[i]!, node: node[i]!, joins: joins[i] === 1, blocks, live });
  }
  return segments;
}

/// Pieces that touch become one row: what is released piece by piece still reads as one range.
export function joined(segments: Segment[]): Segment[] {
  const rows: Segment[] = [];
  let open: Segment | null = null;
  for (const segment of segments) {
    if (open) {
      const shift = segment.address - open.address;
      for (const block of segment.blocks) {
        const last: Block | undefined = open.blocks.at(-1);
        // A block that runs over the seam is one block.
        if (last && last.node === block.node && block.offset === 0 && last.offset + last.size === shift) last.size += block.size;
        else open.blocks.push({ ...block, offset: block.offset + shift });
      }
      open.size = shift + segment.size;
      open.live += segment.live;
    } else {
      open = { ...segment, blocks: segment.blocks.map((block) => ({ ...block })) };
      rows.push(open);
    }
    if (!segment.joins) open = null;
  }
  return rows;
}

export function holesOf(segment: Segment): Hole[] {
  const holes: Hole[] = [];
  let end = 0;
  let before: Block | null = null;
  for (const block of segment.blocks) {
    if (block.offset > end) holes.push({ offset: end, size: block.offset - end, before, after: block });
    end = Math.max(end, block.offset + block.size);
    before = block;
  }
  if (end < segment.size) holes.push({ offset: end, size: segment.size - end, before, after: null });
  return holes;
}

/// Blocks that reach into [from, to).
export function blocksWithin(segment: Segment, from: number, to: number): Block[] {
  let low = 0;
  let high = segment.blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const block = segment.blocks[middle]!;
    if (block.offset + block.size <= from) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < segment.blocks.length && segment.blocks[end]!.offset < to) end += 1;
  return segment.blocks.slice(low, end);
}
