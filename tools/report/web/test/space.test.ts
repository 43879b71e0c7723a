import { expect, test } from 'vitest';
import { blocksWithin, holesOf, joined, segmentsOf, type Segment } from '../src/maths/space';
import { arrange } from '../src/maths/arrange';
import { section } from './encode';

function segment(address: number, size: number, blocks: [number, number, number][], joins = false): Segment {
  return { address, size, device: 0, floor: 3, node: 0, joins, live: blocks.reduce((sum, [, length]) => sum + length, 0),
    blocks: blocks.map(([offset, length, node]) => ({ offset, size: length, node })) };
}

test('holes and blocks tile a segment', () => {
  const one = segment(0, 100, [[10, 20, 1], [50, 30, 2]]);
  const holes = holesOf(one);
  expect(holes.map(({ offset, size }) => [offset, size])).toEqual([[0, 10], [30, 20], [80, 20]]);
  expect(holes.reduce((sum, { size }) => sum + size, 0) + one.live).toBe(100);
});

test('a hole knows its neighbours', () => {
  const [first, middle] = holesOf(segment(0, 100, [[10, 20, 1], [50, 50, 2]]));
  expect(first!.before).toBeNull();
  expect(middle!.before!.node).toBe(1);
  expect(middle!.after!.node).toBe(2);
});

test('a segment without blocks is one hole', () => {
  expect(holesOf(segment(0, 64, []))).toEqual([{ offset: 0, size: 64, before: null, after: null }]);
});

test('pieces that touch are one row, and a block over the seam is one block', () => {
  const rows = joined([segment(0, 64, [[32, 32, 1]], true), segment(64, 64, [[0, 16, 1], [48, 8, 2]])]);
  expect(rows).toHaveLength(1);
  expect(rows[0]!.size).toBe(128);
  expect(rows[0]!.blocks.map(({ offset, size }) => [offset, size])).toEqual([[32, 48], [112, 8]]);
});

test('columns become segments with their own blocks', () => {
  const made = segmentsOf(section({
    address: { delta: [4096, 8192] }, size: { uint: [100, 200] }, device: { delta: [0, 0] }, floor: { uint: [3, 3] }, node: { delta: [0, 0] },
    joins: { uint: [0, 0] }, blocks: { uint: [1, 2] }, block_offset: { uint: [5, 0, 50] }, block_size: { uint: [10, 20, 30] }, block_node: { delta: [1, 2, 3] },
  }));
  expect(made.map(({ blocks }) => blocks.length)).toEqual([1, 2]);
  expect(made[1]!.blocks[1]).toEqual({ offset: 50, size: 30, node: 3 });
  expect(made[1]!.live).toBe(50);
});

test('every byte of every segment has its place in the picture', () => {
  const segments = [segment(0, 5e6, []), segment(1e9, 700e6, []), segment(4e9, 3e6, [])];
  const { pieces, rows } = arrange(segments, 640);
  for (const one of segments) {
    expect(pieces.filter((piece) => piece.segment === one).reduce((sum, { size }) => sum + size, 0)).toBeCloseTo(one.size, 3);
  }
  expect(rows).toBeLessThanOrEqual(40);
});

test('only blocks that reach into a stretch are drawn there', () => {
  const one = segment(0, 100, [[0, 10, 1], [20, 10, 2], [40, 10, 3]]);
  expect(blocksWithin(one, 5, 41).map(({ node }) => node)).toEqual([1, 2, 3]);
  expect(blocksWithin(one, 10, 40).map(({ node }) => node)).toEqual([2]);
});
