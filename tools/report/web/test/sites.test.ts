import { expect, test } from 'vitest';
import { Sites } from '../src/maths/sites';
import { section } from './encode';

/// Two sites: one allocates 10 at moment 1, 10 more at 3 and frees 10 at 4; the other holds 5 from moment 2 on.
function two(): Sites {
  return new Sites(
    section({
      node: { uint: [7, 9] }, peak: { uint: [20, 5] }, allocations: { uint: [2, 1] }, frees: { uint: [1, 0] },
      allocated: { uint: [20, 5] }, life: { uint: [3, 0] }, entries: { uint: [3, 1] },
    }),
    section({
      moment: { uint: [1, 2, 1, 2] }, live: { delta: [10, 20, 10, 5] }, count: { delta: [1, 2, 1, 1] },
      allocated: { delta: [10, 20, 20, 5] }, allocations: { delta: [1, 2, 2, 1] },
    }));
}

test('a value holds until the next step', () => {
  const sites = two();
  expect([0, 1, 2, 3, 4, 5].map((moment) => sites.liveAt(0, moment))).toEqual([0, 10, 10, 20, 10, 10]);
  expect([0, 1, 2, 3].map((moment) => sites.liveAt(1, moment))).toEqual([0, 0, 5, 5]);
});

test('a window counts what happened after its first moment, up to and with its last', () => {
  expect(two().change(0, 1, 4)).toEqual({ live: 0, count: 0, allocated: 10, allocations: 1 });
  expect(two().change(0, 0, 3)).toEqual({ live: 20, count: 2, allocated: 20, allocations: 2 });
});

test('windows that touch add up to the whole', () => {
  const sites = two();
  const whole = sites.change(0, 0, 5).allocated;
  expect(sites.change(0, 0, 2).allocated + sites.change(0, 2, 5).allocated).toBe(whole);
});

test('the sum over sites is their value at every moment', () => {
  const sites = two();
  const sum = new Float64Array(6);
  sites.addTo(sum, 0);
  sites.addTo(sum, 1);
  expect([...sum]).toEqual([0, 10, 15, 25, 15, 15]);
});
