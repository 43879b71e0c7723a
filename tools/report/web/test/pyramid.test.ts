import { expect, test } from 'vitest';
import { Pyramid, upperBound } from '../src/maths/pyramid';

/// A small generator with a fixed seed.
function numbers(count: number, seed = 7): Float64Array {
  let state = seed;
  return Float64Array.from({ length: count }, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state % 1000;
  });
}

test.each([1, 2, 3, 7, 8, 100, 257])('extremes of every range of %i values are those of a plain walk', (count) => {
  const high = numbers(count);
  const low = high.map((value) => value - 5);
  const pyramid = new Pyramid(high, low);
  for (let from = 0; from < count; from += 1) {
    for (let to = from + 1; to <= count; to += Math.max(1, Math.floor(count / 20))) {
      expect(pyramid.max(from, to)).toBe(Math.max(...high.subarray(from, to)));
      expect(pyramid.min(from, to)).toBe(Math.min(...low.subarray(from, to)));
      expect(high[pyramid.argmax(from, to)]).toBe(Math.max(...high.subarray(from, to)));
    }
  }
});

test('a peak of one moment survives every zoom', () => {
  const high = new Float64Array(16384).fill(10);
  high[9001] = 99;
  const pyramid = new Pyramid(high, high);
  for (let columns = 1; columns <= 2048; columns *= 2) {
    const step = 16384 / columns;
    const drawn = Array.from({ length: columns }, (_, x) => pyramid.max(x * step, (x + 1) * step));
    expect(Math.max(...drawn)).toBe(99);
  }
  expect(pyramid.argmax(0, 16384)).toBe(9001);
});

test('of equal peaks the first one is found', () => {
  const values = Float64Array.from([1, 5, 2, 5]);
  expect(new Pyramid(values, values).argmax(0, 4)).toBe(1);
  expect(new Pyramid(values, values).argmax(2, 4)).toBe(3);
});

test('upperBound finds the first greater value', () => {
  expect(upperBound([1, 3, 3, 5], 3)).toBe(3);
  expect(upperBound([1, 3, 3, 5], 0)).toBe(0);
  expect(upperBound([1, 3, 3, 5], 9)).toBe(4);
});
