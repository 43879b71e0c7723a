import { expect, test } from 'vitest';
import { Level } from '../src/maths/level';

// Moment 2 ends at 5, but 9 was reached on the way; moment 3 dips to 1.
const level = new Level(Float64Array.from([0, 4, 5, 5, 5]), Float64Array.from([0, 0, 4, 0, 0]), Float64Array.from([0, 0, 0, 4, 0]));

test('an extreme between two moments shows where it happened', () => {
  expect(level.max(1, 2)).toBe(9);
  expect(level.argmax(1, 2)).toBe(2);
  expect(level.min(2, 3)).toBe(1);
});

test('and does not linger afterwards', () => {
  expect(level.max(2, 2)).toBe(5);
  expect(level.max(2, 4)).toBe(5);
  expect(level.min(3, 4)).toBe(5);
});

test('a stretch without a change has the value that holds', () => {
  expect(level.max(4, 4)).toBe(5);
  expect(level.min(4, 4)).toBe(5);
  expect(level.argmax(4, 4)).toBe(4);
});

test('stretches that follow each other miss no extreme', () => {
  for (let cut = 0; cut < 4; cut += 1) expect(Math.max(level.max(0, cut), level.max(cut, 4))).toBe(9);
});
