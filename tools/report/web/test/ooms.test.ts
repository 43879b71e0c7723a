import { expect, test } from 'vitest';
import { worstFirst } from '../src/maths/ooms';

test('the last out-of-memory that did not recover comes first', () => {
  const ooms = [{ class: 'too_big', at_ns: 1 }, { class: 'recovered', at_ns: 2 }, { class: 'limit', at_ns: 3 }, { class: 'recovered', at_ns: 4 }];
  expect(worstFirst(ooms).map(({ at_ns }) => at_ns)).toEqual([3, 1, 4, 2]);
});
