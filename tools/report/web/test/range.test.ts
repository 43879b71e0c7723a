import { expect, test } from 'vitest';
import { firstRange } from '../src/maths/range';

test('the first view ends a little behind the last request', () => {
  expect(firstRange({ last_request_ns: 100e6 }, 1e9)).toEqual([0, 105e6]);
});

test('a program that worked to its end is shown whole', () => {
  expect(firstRange({ last_request_ns: 990e6 }, 1e9)).toEqual([0, 1e9]);
});

test('a recording without a request is shown whole', () => {
  expect(firstRange({ last_request_ns: 0 }, 1e9)).toEqual([0, 1e9]);
});
